"""Sections of the settings in conf/base.toml; unknown or missing keys are errors."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from schemas.drain import HISTORY_DAYS, DrainTerms


class Section(BaseModel):
    """Immutable base class of the sections of the settings."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PathSettings(Section):
    """Locations of data: absolute paths, or URLs of a store.

    `ingested` names another warehouse to read ingested tables from; left out, this one.
    `report` is the folder of the report; see Settings.report_folder.
    """

    landing: Annotated[str, Field(min_length=1)]
    warehouse: Annotated[str, Field(min_length=1)]
    ingested: Annotated[str, Field(min_length=1)] | None = None
    report: Annotated[str, Field(min_length=1)] | None = None

    @field_validator("report")
    @classmethod
    def _is_local(cls, path: str | None) -> str | None:
        if path is not None and "://" in path:
            raise ValueError(f"must be a folder of this machine, not {path}")
        return path


class SimulationSettings(Section):
    """Settings of the simulation's ideal, and limits that decide a unit's status."""

    ideal: Literal["pooled-mean-median", "pooled-median", "stage-mean-median", "stage-median"]
    minimum_steps: Annotated[int, Field(ge=1)]
    maximum_discrepancy: Annotated[float, Field(gt=0)]
    maximum_restarts: Annotated[int, Field(ge=0)]
    clock_floor_s: Annotated[float, Field(ge=0)]
    clock_floor_fraction: Annotated[float, Field(ge=0)]
    log_day_margin_s: Annotated[float, Field(ge=0)]
    ops_together: Annotated[int, Field(ge=1)]


class LandingSettings(Section):
    """Limits on the landing's contents; see jobs.landing.formats.rows.Bounds."""

    line_bytes: Annotated[int, Field(ge=1)]
    file_bytes: Annotated[int, Field(ge=1)]
    packing: Annotated[int, Field(ge=1)]
    nesting: Annotated[int, Field(ge=2, le=500)]
    trace_ops: Annotated[int, Field(ge=1)]
    manifest_bytes: Annotated[int, Field(ge=1)]
    unit_files: Annotated[int, Field(ge=1)]
    workers: Annotated[int, Field(ge=1, le=2**31 - 1)]
    rejects: Annotated[int, Field(ge=1)]


class HealthSettings(Section):
    """Rules by which `convert-health --from csv` reads the columns and words of a CSV file.

    csv   : name of the column, or `=` and a constant, for each key of an event
    words : replacement for each word in the CSV that needs one
    """

    csv: dict[str, str] = {}
    words: dict[str, str] = {}


class HistorySettings(Section):
    """Number of past days searched for late data, and the most days and bytes in a batch of a backfill."""

    look_back_days: Annotated[int, Field(ge=1)]
    block_days: Annotated[int, Field(ge=1)]
    block_bytes: Annotated[int, Field(ge=1)]


class RevisionSettings(Section):
    """Settings of the phase revise: how many earlier days it reads, and how many runs a decision needs."""

    days: Annotated[int, Field(ge=1)]
    minimum_runs: Annotated[int, Field(ge=1)]


class WatchSettings(Section):
    """Thresholds beyond which a correct night gives warnings.

    minimum_coverage : warn if a smaller share of units was analysed
    coverage_drop    : warn if the share fell by this much since the day before
    days, minimum_days : past days that a day's loss, or a host, is compared with, and the fewest needed
    deviations, rise : warn if a value exceeds the median of the past days by more than this number of scaled
        median deviations, and by more than `rise`
    """

    minimum_coverage: Annotated[float, Field(ge=0, le=1)]
    coverage_drop: Annotated[float, Field(gt=0, le=1)]
    days: Annotated[int, Field(ge=1)]
    minimum_days: Annotated[int, Field(ge=2)]
    deviations: Annotated[float, Field(gt=0)]
    rise: Annotated[float, Field(gt=0)]


class LiveSettings(Section):
    """Limits of what the command watch reads: how many last steps of a run, and how many last days."""

    window_steps: Annotated[int, Field(ge=10)]
    days: Annotated[int, Field(ge=1)]


_GpuWatts = Annotated[float, Field(ge=0, le=1e6, allow_inf_nan=False)]
"""Power of a GPU; more than 1 MW is refused, because not even a rack of GPUs draws that. [W]"""


class WattSettings(Section):
    """Power of one GPU of a type while the GPU computes, and otherwise. [W]"""

    computing: _GpuWatts
    otherwise: _GpuWatts

    @model_validator(mode="after")
    def _draws_more(self) -> "WattSettings":
        if self.computing < self.otherwise:
            raise ValueError(
                f"computing {self.computing:g} W, otherwise {self.otherwise:g} W: computing must not be less"
            )
        return self


class GateSettings(Section):
    """Settings of gates; `suites` is the folder of a team's own suites of Great Expectations.

    Without it, only the built-in suite runs.
    """

    suites: Annotated[str, Field(min_length=1)] | None = None


class PowerSettings(Section):
    """Power of GPUs by the manifest's gpu_type; units of other types have no figures in megawatts. [W]"""

    watts: dict[str, WattSettings]


_Cost = Annotated[float, Field(ge=0, le=1e4, allow_inf_nan=False)]


class DrainSettings(Section):
    """Assumptions by which the command drain, the night and its report name hosts to drain.

    See schemas.drain.
    """

    days: Annotated[int, Field(ge=1, le=HISTORY_DAYS)]
    restart_minutes: _Cost
    redone_minutes: _Cost
    spare_hours: _Cost

    @property
    def terms(self) -> DrainTerms:
        """Return these settings as the assumptions of the view drain."""
        return DrainTerms(**self.model_dump())


class MaintenanceSettings(Section):
    """Age at which recorded ops, and rows of live tables, expire. [d]"""

    rank_steps_days: Annotated[int, Field(ge=1)]
    live_days: Annotated[int, Field(ge=1)]


class ReportSettings(Section):
    """Period of the report in days, and its number of job pages."""

    period_days: Annotated[int, Field(ge=1)]
    job_pages: Annotated[int, Field(ge=0)]


class SparkSettings(Section):
    """Delta's Maven coordinates, exclusions, and Spark's own settings.

    `master` is used unless spark-submit names another.
    `log` is a file that Spark's output is appended to; left out: a temporary one, saved if a run fails.
    """

    packages: Annotated[tuple[str, ...], Field(min_length=1, strict=False)]
    excludes: Annotated[tuple[str, ...], Field(strict=False)]
    conf: dict[str, str]
    master: str | None = None
    log: str | None = None
