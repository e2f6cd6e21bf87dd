"""A landing and a warehouse of a few days, which tests fill, damage and fill again."""

import shutil
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from jobs import backfill
from jobs.emitter.rank_log_writer import finish_day
from jobs.history.phases import PHASES
from jobs.history.plan import Plan, plan
from jobs.runtime.settings import Settings
from jobs.synthetic.log_files import run_folder, write_rank_logs
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import JobIdentity, JobShape
from jobs.warehouse.publication import publication
from jobs.warehouse.rows import StagedRows
from jobs.warehouse.tables import Warehouse
from schemas.table import Table
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import (
    FLEET_TABLES,
    PHASE_NAMES,
    PUBLISHED_TABLES,
    RANK_STEPS,
    SOURCE_FILES,
    TABLE_NAMES,
    UNIT_FINGERPRINTS,
)
from tests.support.random_jobs import generate_job

DAYS = (date(2026, 1, 5), date(2026, 1, 6))
JOB_IDS = ("alpha", "beta")
NOTHING: dict[str, set[tuple[str, str]]] = {stage: set() for stage in PHASE_NAMES}
SHAPE = JobShape(dp_size=2, pp_size=1, steps=12)
DATA_TABLES = tuple(name for name in PUBLISHED_TABLES if name != UNIT_FINGERPRINTS)

_OF_FILES = ("modified_at", "owner_uid", "hard_links")

Rows = list[dict[str, Any]]


class KilledError(Exception):
    """Raised to simulate that the process ends suddenly."""


@dataclass(frozen=True)
class History:
    """The landing and the warehouse of one test."""

    spark: SparkSession
    settings: Settings

    @property
    def landing(self) -> Path:
        return Path(self.settings.paths.landing)

    @property
    def warehouse(self) -> Path:
        return Path(self.settings.paths.warehouse)

    def with_settings(self, **simulation: object) -> "History":
        """Return the same history with other simulation settings."""
        changed = self.settings.simulation.model_copy(update=simulation)
        return History(self.spark, self.settings.model_copy(update={"simulation": changed}))

    def put(self, job_id: str, day: date, slow: float = 1.5, run_id: str = "r1") -> Path:
        """Write one day of a job whose last dp rank is slow by the factor `slow`; return the run's folder."""
        identity = JobIdentity(job_id, run_id, fields={"gpu_hours": 96.0, "team": "language"})
        return write_rank_logs(self.landing, day, generate_job(SHAPE, [WeakGpu(1, 0, slow)], 7, identity))

    def folder(self, job_id: str, day: date) -> Path:
        return run_folder(self.landing, day, job_id, "r1")

    def finish(self, days: Iterable[date] = DAYS) -> None:
        """Mark the given days as complete."""
        for day in days:
            finish_day(self.landing, day)

    def arguments(self) -> list[str]:
        """Return the command-line arguments that name this history's folders."""
        return ["--landing", str(self.landing), "--warehouse", str(self.warehouse)]

    def plan(
        self, stages: Sequence[str] = PHASE_NAMES, job_ids: Sequence[str] = (), *, data_only: bool = False
    ) -> Plan:
        return plan(
            Warehouse.of(self.spark, self.settings), self.settings, DAYS, stages, job_ids, data_only=data_only
        )

    def fill(
        self, stages: Sequence[str] = PHASE_NAMES, job_ids: Sequence[str] = ()
    ) -> dict[str, set[tuple[str, str]]]:
        """Do all work that is due; return the work as (day, job_id), by phase."""
        todo = self.plan(stages, job_ids)
        backfill.run(self.spark, self.settings, todo)
        return units_of(todo)

    def clear(self, name: str, also: Mapping[str, str] | None = None) -> None:
        """Publish a table without rows, or without the rows that have one of the given column values."""
        warehouse, table = Warehouse(self.spark, str(self.warehouse)), TABLES[name]
        rows = warehouse.rows(table) if name != RANK_STEPS else table.arrow_schema.empty_table()
        for column, value in (also or {}).items():
            rows = rows.filter(pc.not_equal(rows[column], value))
        rows = rows if also else rows.slice(0, 0)
        with publication(warehouse, "upkeep", DAYS, [name]):
            warehouse.replace(table, rows, DAYS)

    def rows(self, name: str) -> Rows:
        paths = self.settings.paths
        read = Warehouse(self.spark, paths.warehouse, paths.ingested).read(TABLES[name]).toArrow()
        return sorted(read.to_pylist(maps_as_pydicts="strict"), key=repr)

    def tables(self) -> dict[str, Rows]:
        """Return the sorted rows of each table with data."""
        return {name: self.rows(name) for name in DATA_TABLES}

    def told_by_a_store(self) -> dict[str, Rows]:
        """Return all tables; columns that a landing in a store does not have are set to null."""
        found = self.tables()
        found[SOURCE_FILES] = [row | dict.fromkeys(_OF_FILES) for row in found[SOURCE_FILES]]
        return found

    def versions(self) -> dict[str, int]:
        """Return the Delta version of each table that has been written."""
        found = {}
        for name in TABLE_NAMES:
            path = self.warehouse / name
            if path.exists():
                found[name] = DeltaTable(str(path)).version()
        return found


def another_version(patch: pytest.MonkeyPatch, phase: str) -> None:
    """Give a phase another version for the rest of the test."""
    patch.setitem(PHASES, phase, replace(PHASES[phase], version="0.0"))


def units_of(todo: Plan) -> dict[str, set[tuple[str, str]]]:
    """Return the work of a plan as pairs (day, job_id), by phase."""
    return {
        stage: {
            (unit[0].isoformat(), unit[1]) for batch in todo.batches for unit in batch.units.get(stage, ())
        }
        for stage in todo.wants
    }


def history_in(root: Path, spark: SparkSession, settings: Settings) -> History:
    """Return a history whose folders, below `root`, are still empty."""
    paths = settings.paths.model_copy(
        update={"landing": str(root / "landing"), "warehouse": str(root / "warehouse")}
    )
    return History(spark, settings.model_copy(update={"paths": paths}))


def copy_of(history: History, root: Path) -> History:
    """Copy a history to folders below `root`; files keep their modification times."""
    copied = history_in(root, history.spark, history.settings)
    for ours, theirs in ((copied.landing, history.landing), (copied.warehouse, history.warehouse)):
        shutil.copytree(theirs, ours)
    return copied


def published(spark: SparkSession, root: str | Path) -> dict[str, Rows]:
    """Return the rows that readers of a warehouse see, by table, in a fixed order."""
    warehouse = Warehouse(spark, str(root))
    found = {name: warehouse.read(TABLES[name]).toArrow() for name in PUBLISHED_TABLES}
    return {name: sorted(rows.to_pylist(maps_as_pydicts="strict"), key=repr) for name, rows in found.items()}


def assert_same_tables(found: dict[str, Rows], wanted: dict[str, Rows]) -> None:
    """Assert that tables have equal rows; in tables of a whole day, sums may differ by rounding."""
    for name, rows in wanted.items():
        if name in FLEET_TABLES:
            assert _rounded(found[name]) == _rounded(rows), name
        else:
            assert found[name] == rows, name


def _rounded(rows: Rows) -> Rows:
    return [
        {key: float(f"{value:.12g}") if isinstance(value, float) else value for key, value in row.items()}
        for row in rows
    ]


def dying_at(name: str, day: date | None = None) -> Callable[..., None]:
    """Return a substitute for Warehouse.replace that raises KilledError instead of writing the named table.

    day : raise only when this day is written; None: on any day
    """
    replace = Warehouse.replace

    def replace_or_die(
        self: Warehouse,
        table: Table,
        rows: DataFrame | StagedRows | pa.Table,
        log_dates: Sequence[date],
        units: Collection[Unit] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> None:
        is_put_back = name == UNIT_FINGERPRINTS and isinstance(rows, pa.Table) and rows.num_rows > 0
        if table.name == name and (is_put_back or name != UNIT_FINGERPRINTS) and day in (None, *log_dates):
            raise KilledError
        replace(self, table, rows, log_dates, units, also)

    return replace_or_die
