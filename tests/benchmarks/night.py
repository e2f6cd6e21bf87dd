"""Benchmark a night of a few million ops: its phases, the UDF of the simulation, and the simulator alone."""

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from jobs.night import aggregate, ingest, publish, simulate
from jobs.runtime.session import session
from jobs.runtime.settings import Settings, load_settings
from jobs.synthetic.log_files import write_rank_logs
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import JobIdentity, JobShape
from jobs.warehouse.file_frames import tasks_in
from jobs.warehouse.simulated_units import simulated_units
from jobs.warehouse.stored_units import (
    Facts,
    rows_of_units,
    stored_units,
    units_frame,
)
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import JOBS, RANK_STEPS, RUN_EVENTS
from tests.benchmarks.figures import Figure, Measured, watch
from tests.support.random_jobs import generate_job
from udfs.simulate.run_course import in_order
from udfs.simulate.unit_batches import NO_DAYS, RESULT_SCHEMA, results_batches, simulate_unit
from udfs.what_if import SimulationSettings

DAY: Final = date(2026, 1, 5)
JOBS_OF_THE_DAY: Final = 24
SHAPE: Final = JobShape(dp_size=4, pp_size=4, microbatches=32, steps=40)


def figures() -> Iterator[Figure]:
    """Time the phases of a process's second night, the simulation UDF and the kernel.

    ratio : to a UDF that only counts rows
    """
    root = Path(tempfile.mkdtemp(prefix="night-benchmark-"))
    try:
        ops = _generate(root / "landing")
        settings = load_settings(None, str(root / "landing"), str(root / "warehouse"))
        with session(settings, "benchmark") as spark:
            _night(spark, settings)
            stages = _night(spark, settings)
            udf = partial(through_udf, spark, settings, [DAY])
            nothing = watch(partial(udf, count_rows, "rows long"))
            simulated = results_batches(partial(simulated_units, SimulationSettings(), NO_DAYS))
            alone = watch(partial(udf, simulated, RESULT_SCHEMA))
            kernel = watch(lambda: _kernel(spark, settings))
        for name, measured in {"UDF that does nothing": nothing, **stages, "simulation UDF alone": alone,
                               "simulate_job alone, one process": kernel}.items():  # fmt: skip
            took_s, mib = measured
            yield Figure(f"night: {name}", ops, took_s, took_s / nothing[0], mib)
    finally:
        shutil.rmtree(root)


def _generate(landing: Path) -> int:
    ops = 0
    for number in range(JOBS_OF_THE_DAY):
        slow = WeakGpu(number % SHAPE.dp_size, number % SHAPE.pp_size, 1.3)
        faults = [slow] if number % 2 else []
        job = generate_job(
            SHAPE, faults, number, JobIdentity(f"job-{number:03d}", fields={"gpu_hours": 100.0})
        )
        write_rank_logs(landing, DAY, job)
        ops += job.ops
    return ops


def _night(spark: SparkSession, settings: Settings) -> dict[str, Measured]:
    """Return the time and peak memory of each phase of a night, by phase."""
    stages = (ingest, simulate, aggregate, publish)
    return {
        stage.__name__.removeprefix("jobs.night."): watch(partial(stage.run, spark, settings, [DAY]))
        for stage in stages
    }


def through_udf(
    spark: SparkSession,
    settings: Settings,
    days: Sequence[date],
    function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: str | pa.Schema,
) -> None:
    """Send the rows that the simulation reads through a UDF, and discard the UDF's output."""
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    columns = schema if isinstance(schema, str) else from_arrow_schema(schema)
    tasks = _tasks(spark, settings, days, partitions)
    tasks.mapInArrow(function, columns).write.format("noop").mode("overwrite").save()


def count_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the number of rows of each unit, as a UDF that does as little as possible."""
    for task in tasks_in(batches):
        for unit in rows_of_units(*task):
            yield pa.RecordBatch.from_pydict({"rows": pa.array([unit.rows.num_rows], pa.int64())})


def _tasks(spark: SparkSession, settings: Settings, days: Sequence[date], partitions: int) -> DataFrame:
    warehouse = Warehouse(spark, settings.paths.warehouse)
    events = in_order(warehouse.rows(TABLES[RUN_EVENTS], days))
    facts = Facts(warehouse.rows(TABLES[JOBS], days), events)
    stored = stored_units(warehouse.files(TABLES[RANK_STEPS], days), facts.units)
    return units_frame(spark, stored.units, facts, partitions)


def _kernel(spark: SparkSession, settings: Settings) -> None:
    """Read and simulate the night's units one after the other in this process, without workers of Spark."""
    for task in tasks_in(_tasks(spark, settings, [DAY], 1).toArrow().to_batches()):
        for unit in rows_of_units(*task):
            simulate_unit(unit, SimulationSettings())
