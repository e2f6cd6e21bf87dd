"""Months of history: a backfill from rank logs to aggregates; nights and queries upon it; other layouts.

`python -m tests.benchmarks.history` makes five months of a fleet, 300 million ops (13 GB), and takes an hour;
--landing DIR takes a generated one instead, or keeps the one that it makes there.
"""

import argparse
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from jobs import aggregate_fleet, backfill, ingest_rank_logs, publish_night, simulate_what_if
from jobs.history.plan import plan
from jobs.runtime.arguments import positive
from jobs.runtime.project import PROJECT
from jobs.runtime.run_log import work_of_phases
from jobs.runtime.session import session
from jobs.runtime.settings import Settings, load_settings
from jobs.synthetic.fleet import FIRST_DAY
from jobs.warehouse.stored_units import read_units
from jobs.warehouse.tables import Warehouse
from schemas.queries import QUERIES
from schemas.tables import TABLES
from schemas.vocabulary import FLEET_TABLES, RANK_STEPS, RESULT_TABLES
from tests.benchmarks.figures import Figure, show
from tests.benchmarks.memory import watched
from tests.benchmarks.night import Measured, count_rows, through_udf, watch
from udfs.simulate.unit_batches import RESULT_SCHEMA, simulate_batches
from udfs.what_if import SimulationSettings

SHARES: Final = (1 / 30, 1 / 3, 1.0)
"""The backfill runs over this many of the history's days, each time into an empty warehouse."""
REPEATS: Final = 5


def first_days(count: float) -> list[date]:
    """The first days of a history."""
    return [FIRST_DAY + timedelta(days=day) for day in range(round(count))]


def generate(landing: Path, days: int, jobs: int, ops: int) -> None:
    """Generate a history, unless it exists."""
    if not landing.exists():
        size = ["--days", str(days), "--jobs", str(jobs), "--ops", str(ops), "--workers", "2"]
        command = [sys.executable, "-m", "jobs.make_fleet", "--history", "--landing", str(landing), *size]
        subprocess.run(command, check=True, cwd=PROJECT)


def backfills(spark: SparkSession, settings: Settings, all_days: int) -> Iterator[Figure]:
    """Seconds of each stage and of all, planning and gates among them; ratio: exponent of growth."""
    before: tuple[int, float] | None = None
    for share in SHARES:
        shutil.rmtree(settings.paths.warehouse, ignore_errors=True)
        days = first_days(all_days * share)
        started = time.perf_counter()
        with watched() as peak:
            counts = backfill.run(spark, settings, plan(Warehouse.of(spark, settings), settings, days))
        took_s = time.perf_counter() - started
        stages = work_of_phases(counts)
        ops = stages[0]["ops"]
        exponent = math.log(took_s / before[1]) / math.log(ops / before[0]) if before else math.nan
        before = ops, took_s
        for stage in stages:
            gates = f"gates {stage['gate_seconds'] / stage['seconds']:.1%}"
            yield Figure(f"{stage['stage']} of {len(days)} days, {gates}", ops, stage["seconds"], math.nan)
        yield Figure(f"backfill of {len(days)} days", ops, took_s, exponent, peak.together)


def block(spark: SparkSession, settings: Settings, days: Sequence[date], ops: int) -> Iterator[Figure]:
    """One block of days again, warm: each stage beside the plain read and write of its rows."""
    reading = partial(through_udf, spark, settings, days)
    stages: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
        "ingest": (
            partial(_copy_logs, spark, settings, days),
            partial(ingest_rank_logs.run, spark, settings, days),
        ),
        "simulation, diagnosis and all, by its UDF": (
            partial(reading, count_rows, "rows long"),
            partial(reading, simulate_batches(SimulationSettings(), read_units), RESULT_SCHEMA),
        ),
        "simulate": (
            partial(_copy_tables, spark, settings, days, [RANK_STEPS], RESULT_TABLES),
            partial(simulate_what_if.run, spark, settings, days),
        ),
        "aggregate": (
            partial(_copy_tables, spark, settings, days, RESULT_TABLES, FLEET_TABLES),
            partial(aggregate_fleet.run, spark, settings, days),
        ),
    }
    for name, (plain, stage) in stages.items():
        plain_s, took_s = watch(plain)[0], watch(stage)[0]
        yield Figure(f"{name}: plain", ops, plain_s, 1.0)
        yield Figure(f"{name}: {len(days)} days", ops, took_s, took_s / plain_s)


def _copy_logs(spark: SparkSession, settings: Settings, days: Sequence[date]) -> None:
    """Read the logs as JSON of a known schema and write their rows, with no look at what they say."""
    names = "job_id string, run_id string, rank int, dp_rank int, pp_rank int, tp_rank int, cp_rank int"
    arrays = (
        "op array<string>, start_us array<double>, duration_us array<double>, microbatch array<int>, "
        "model_chunk array<int>"
    )
    schema = f"{names}, host string, gpu int, step bigint, t0_us bigint, {arrays}"
    folders = [f"{settings.paths.landing}/log_date={day}/*/*" for day in days]
    rows = spark.read.schema(schema).option("pathGlobFilter", "*.jsonl*").json(folders)
    _write_and_forget(rows)


def _copy_tables(
    spark: SparkSession, settings: Settings, days: Sequence[date], read: Sequence[str], written: Sequence[str]
) -> None:
    """Read all rows of some tables, and write all of others once more."""
    warehouse = Warehouse(spark, settings.paths.warehouse)
    for name in read:
        warehouse.read(TABLES[name], days).write.format("noop").mode("overwrite").save()
    for name in written:
        rows = warehouse.read(TABLES[name], days)
        _write_and_forget(rows, TABLES[name].partition_by)


def _write_and_forget(rows: DataFrame, partition_by: Sequence[str] = ()) -> None:
    with tempfile.TemporaryDirectory(prefix="plain-") as folder:
        _save(rows, partition_by, f"{folder}/rows")


def nights(spark: SparkSession, settings: Settings, all_days: int) -> Iterator[Figure]:
    """The last night in a warehouse of one day and in one of all days; ratio: to the first."""
    other = {"warehouse": f"{settings.paths.warehouse}-of-a-day"}
    alone = settings.model_copy(update={"paths": settings.paths.model_copy(update=other)})
    day = first_days(all_days)[-1:]
    shutil.rmtree(alone.paths.warehouse, ignore_errors=True)
    took: dict[str, list[float]] = {"1 day": [], f"{all_days} days": []}
    for _ in range(REPEATS):
        for name, where in zip(took, (alone, settings), strict=True):
            took[name].append(_night(spark, where, day)[0])
    of_a_day, *_ = (statistics.median(seconds[1:]) for seconds in took.values())  # the first is not warm
    for name, seconds in took.items():
        median = statistics.median(seconds[1:])
        yield Figure(f"a night on top of {name}", 1, median, median / of_a_day)


def _night(spark: SparkSession, settings: Settings, day: Sequence[date]) -> Measured:
    stages = (ingest_rank_logs, simulate_what_if, aggregate_fleet, publish_night)
    return watch(lambda: [stage.run(spark, settings, day) for stage in stages])


def queries(spark: SparkSession, settings: Settings) -> Iterator[Figure]:
    """Every named query over the whole history, median of five; ratio: to the three seconds it may take."""
    Warehouse(spark, settings.paths.warehouse).register_views()
    for name in QUERIES:
        median = _of_query(spark, name, REPEATS)
        yield Figure(f"query {name}", 1, median, median / 3)


def layouts(spark: SparkSession, settings: Settings) -> Iterator[Figure]:
    """All named queries on the same rows laid out otherwise; ratio: to the layout that nights write."""
    root = settings.paths.warehouse
    as_written = _of_all_queries(spark, root)
    yield Figure("one file a day", 1, as_written, 1.0)
    for name, files, columns in (
        ("four files a day, by day", 4, ["log_date"]),
        ("one file, all days", 1, []),
    ):
        with tempfile.TemporaryDirectory(prefix="layout-", dir=Path(root).parent) as other:
            for table in TABLES.values():
                rows = Warehouse(spark, root).read(table)
                if table.name != RANK_STEPS:
                    _save(rows.repartition(files), columns, f"{other}/{table.name}")
            took = _of_all_queries(spark, other)
        yield Figure(name, 1, took, took / as_written)


def _of_all_queries(spark: SparkSession, root: str) -> float:
    Warehouse(spark, root).register_views()
    return sum(_of_query(spark, name, 3) for name in QUERIES)


def _of_query(spark: SparkSession, name: str, repeats: int) -> float:
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        spark.sql(QUERIES[name].over(None, None)).collect()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


def _save(rows: DataFrame, partition_by: Sequence[str], path: str) -> None:
    rows.write.format("delta").partitionBy(*partition_by).save(path)


def main() -> None:
    """Run all of it and print the tables."""
    parser = argparse.ArgumentParser(prog="tests.benchmarks.history", description=__doc__)
    parser.add_argument("--ops", type=positive, default=300_000_000)
    parser.add_argument("--jobs", type=positive, default=3079)
    parser.add_argument("--days", type=positive, default=150)
    parser.add_argument("--landing", type=Path, help="a history generated before; made here where not given")
    args = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="history-benchmark-"))
    try:
        landing = args.landing or root / "landing"
        generate(landing, args.days, args.jobs, args.ops)
        settings = load_settings(None, str(landing), str(root / "warehouse"))
        with session(settings, "benchmark") as spark:
            measure(spark, settings, args.days)
    finally:
        shutil.rmtree(root)


def measure(spark: SparkSession, settings: Settings, all_days: int) -> None:
    """Measure everything on a landing of `days` days, and print the tables."""
    done = list(show("Backfill", "the smaller one: exponent of growth", backfills(spark, settings, all_days)))
    days = first_days(min(settings.history.block_days, all_days))
    ops = done[-1].ops * len(days) // all_days
    list(show("One block, warm", "the plain read and write of its rows", block(spark, settings, days, ops)))
    list(show("A night", "the same on one day of history", nights(spark, settings, all_days)))
    list(show("Named queries", "3 seconds", queries(spark, settings)))
    list(show("All of them, on the same rows", "the first layout", layouts(spark, settings)))


if __name__ == "__main__":
    main()
