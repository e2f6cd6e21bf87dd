"""One unit of the warehouse: which one the arguments mean, and what it holds."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import date
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.arguments import Arguments
from jobs.landing.files import Unit as UnitKey
from jobs.nearest import suggestion
from jobs.progress import working
from jobs.settings import Settings
from jobs.warehouse.stored_units import Stored, rows_of, stored_units
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import JOBS, RANK_STEPS
from udfs.errors import NothingToReplayError, TraceError
from udfs.layout import LayoutError
from udfs.unit_batches import SIMULATED_COLUMNS


class NoSuchUnitError(Exception):
    """Raised where the arguments name no unit of the warehouse, or more than one; the message lists them."""


class NotReplayedError(Exception):
    """Raised where a unit that was asked for cannot be replayed; the message says why."""


def find_unit(warehouse: Warehouse, job_id: str, run_id: str | None, day: date | None) -> Unit:
    """Unit that the arguments name: of the latest day that fits, unless a day is given.

    Raises NoSuchUnitError where there is none, and where several runs fit and none is named.
    """
    jobs = warehouse.read(TABLES[JOBS])
    rows = jobs.where(F.col("job_id") == job_id).select("run_id", "log_date").distinct().collect()
    if not rows:
        names = [row["job_id"] for row in jobs.select("job_id").distinct().collect()]
        if not names:
            raise NoSuchUnitError(
                f"no jobs in {warehouse.root}: run a night first, or name another --warehouse"
            )
        raise NoSuchUnitError(f"no job {job_id}: {suggestion(job_id, sorted(names))}")
    units = [Unit(row["log_date"], job_id, row["run_id"]) for row in rows]
    return choose_unit(units, run_id, day)


def choose_unit(units: Collection[Unit], run_id: str | None, day: date | None) -> Unit:
    """Choose among the units of one job; see find_unit."""
    job_id = next(iter(units)).job_id
    fitting = [unit for unit in units if run_id in (None, unit.run_id) and day in (None, unit.log_date)]
    if not fitting:
        missing = "nothing" if run_id is None else f"no run {run_id}"
        when = "" if day is None else f" on {day}"
        raise NoSuchUnitError(f"job {job_id} has {missing}{when}: there are {_listed(units)}")
    latest = max(unit.log_date for unit in fitting)
    of_latest = [unit for unit in fitting if unit.log_date == latest]
    if len(of_latest) > 1:
        raise NoSuchUnitError(f"job {job_id} has several runs, name one by --run-id: {_listed(of_latest)}")
    return of_latest[0]


def _listed(units: Collection[Unit]) -> str:
    return ", ".join(sorted(f"run {unit.run_id} on {unit.log_date}" for unit in units))


def read_unit(warehouse: Warehouse, unit: Unit) -> tuple[pa.Table, dict[str, Any]]:
    """Rows of rank_steps and manifest of a unit.

    Raises NothingToReplayError where the manifest is of no use.
    """
    (manifest,) = warehouse.read(TABLES[JOBS], [unit.log_date], [unit]).collect()
    if manifest["manifest_status"] is not None:
        raise NothingToReplayError(f"{manifest['manifest_status']}: {manifest['manifest_detail']}")
    return read_rank_steps(warehouse, unit), manifest.asDict()


def read_rank_steps(warehouse: Warehouse, unit: UnitKey) -> pa.Table:
    """Rows of a unit straight from their files: through Spark the driver's JVM would hold them all too."""
    table, days = TABLES[RANK_STEPS], [unit[0]]
    try:
        stored = stored_units(warehouse.files(table, days), {unit: {}}, [unit])
    except (OSError, pa.ArrowException):  # a store that only Spark reaches
        stored = Stored([], set(days))
    if stored.mixed_days:
        return warehouse.read(table, days, [unit]).select(*SIMULATED_COLUMNS).toArrow()
    (found,) = stored.units
    return rows_of(found)


@contextmanager
def unit_to_replay(
    name: str, spark: SparkSession, settings: Settings, args: Arguments
) -> Iterator[tuple[Unit, pa.Table, dict[str, Any]]]:
    """Lend the unit that the arguments of an entry point name, its rows of rank_steps and its manifest.

    Raises NoSuchUnitError as find_unit does, NotReplayedError where the unit cannot be replayed.
    """
    warehouse = Warehouse.of(spark, settings)
    unit = find_unit(warehouse, args.job_id, args.run_id, args.log_date)
    try:
        with working(f"{name}: replaying {unit.job_id}"):
            yield unit, *read_unit(warehouse, unit)
    except (NothingToReplayError, LayoutError, TraceError) as error:
        raise NotReplayedError(str(error)) from error
