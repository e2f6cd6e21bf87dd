"""Sections of the settings, as conf/base.toml has them; an unknown or missing key is an error."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator


class Section(BaseModel):
    """Some settings. They are never changed, only replaced."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PathSettings(Section):
    """Where data lies: absolute paths, or URLs of a store that Spark reaches.

    `staging` is where workers write rows before they are published: a folder or URL that pyarrow reaches from
    every worker; the warehouse itself where it is left out.
    `silver` is the warehouse whose ingested tables are used, where that is not this one.
    `report` is the folder of the report; see Settings.report_folder.
    """

    landing: Annotated[str, Field(min_length=1)]
    warehouse: Annotated[str, Field(min_length=1)]
    silver: Annotated[str, Field(min_length=1)] | None = None
    staging: Annotated[str, Field(min_length=1)] | None = None
    report: Annotated[str, Field(min_length=1)] | None = None

    @field_validator("report")
    @classmethod
    def _is_local(cls, path: str | None) -> str | None:
        if path is not None and "://" in path:
            raise ValueError(f"must be a folder of this machine, not {path}")
        return path


class SimulationSettings(Section):
    """What the what-if simulation takes as ideal, and the bounds that decide a unit's status."""

    ideal: Literal["pooled-mean-median", "pooled-median", "stage-mean-median", "stage-median"]
    minimum_steps: Annotated[int, Field(ge=1)]
    maximum_discrepancy: Annotated[float, Field(gt=0)]
    maximum_restarts: Annotated[int, Field(ge=0)]
    clock_floor_s: Annotated[float, Field(ge=0)]
    clock_floor_fraction: Annotated[float, Field(ge=0)]
    log_day_margin_s: Annotated[float, Field(ge=0)]
    ops_together: Annotated[int, Field(ge=1)]


class LandingSettings(Section):
    """What the landing may hold at most; see jobs.landing.formats.rows.Bounds."""

    line_bytes: Annotated[int, Field(ge=1)]
    file_bytes: Annotated[int, Field(ge=1)]
    packing: Annotated[int, Field(ge=1)]
    nesting: Annotated[int, Field(ge=2, le=500)]
    trace_ops: Annotated[int, Field(ge=1)]
    manifest_bytes: Annotated[int, Field(ge=1)]
    unit_files: Annotated[int, Field(ge=1)]


class HistorySettings(Section):
    """How far back late data is looked for, and what a backfill does at once."""

    look_back_days: Annotated[int, Field(ge=1)]
    block_days: Annotated[int, Field(ge=1)]
    block_bytes: Annotated[int, Field(ge=1)]


class RevisionSettings(Section):
    """With how much of the past causes are revised that a unit's own steps cannot tell."""

    days: Annotated[int, Field(ge=1)]
    minimum_runs: Annotated[int, Field(ge=1)]


class WatchSettings(Section):
    """What of a night is told to somebody though nothing is wrong with its tables.

    minimum_coverage : fewer units analysed than this part of all
    coverage_drop    : less than the day before by this part of all units
    days, minimum_days : of its own past what a day lost, or a host, is held against; with fewer it is not
    deviations, rise : above the median of that past by so many scaled median deviations, and by this much
    """

    minimum_coverage: Annotated[float, Field(ge=0, le=1)]
    coverage_drop: Annotated[float, Field(gt=0, le=1)]
    days: Annotated[int, Field(ge=1)]
    minimum_days: Annotated[int, Field(ge=2)]
    deviations: Annotated[float, Field(gt=0)]
    rise: Annotated[float, Field(gt=0)]


class MaintenanceSettings(Section):
    """For how many days recorded ops are kept."""

    rank_steps_days: Annotated[int, Field(ge=1)]


class ReportSettings(Section):
    """How far the report looks back, and how much it says of single jobs."""

    period_days: Annotated[int, Field(ge=1)]
    job_pages: Annotated[int, Field(ge=0)]


class SparkSettings(Section):
    """Delta's Maven coordinates, what not to fetch with them, and Spark's own settings.

    `master` is only used where spark-submit has not said another.
    `log` is a file to which all is added that Spark says; left out: a temporary one, kept where a run fails.
    """

    packages: Annotated[tuple[str, ...], Field(min_length=1, strict=False)]
    excludes: Annotated[tuple[str, ...], Field(strict=False)]
    conf: dict[str, str]
    master: str | None = None
    log: str | None = None
