"""Benchmark months of history: a backfill from rank logs to aggregates, then nights and queries.

`python -m tests.benchmarks.history` generates logs of five months (300 million ops, 13 GB), and takes an
hour. With --landing DIR, it uses the logs in DIR, or generates them there and keeps them.
"""

import argparse
import math
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from jobs import backfill
from jobs.entry_points.run_log import work_of_phases
from jobs.history.plan import plan
from jobs.night import aggregate, ingest, publish, simulate
from jobs.runtime.arguments import positive
from jobs.runtime.project import PROJECT
from jobs.runtime.session import session
from jobs.runtime.settings import Settings, load_settings
from jobs.synthetic.fleet import FIRST_DAY
from jobs.warehouse.tables import Warehouse
from schemas.queries import QUERIES
from tests.benchmarks.figures import Figure, Measured, show, watch, watched

SHARES: Final = (1 / 30, 1 / 3, 1.0)
"""Shares of the history's days: a backfill of each share is timed, each time into an empty warehouse."""
REPEATS: Final = 5


def first_days(count: float) -> list[date]:
    return [FIRST_DAY + timedelta(days=day) for day in range(round(count))]


def generate(landing: Path, days: int, jobs: int, ops: int) -> None:
    """Generate the logs of a history, unless the landing exists."""
    if not landing.exists():
        size = ["--days", str(days), "--jobs", str(jobs), "--ops", str(ops), "--workers", "2"]
        command = [sys.executable, "-m", "jobs.make_fleet", "--history", "--landing", str(landing), *size]
        subprocess.run(command, check=True, cwd=PROJECT)


def backfills(spark: SparkSession, settings: Settings, all_days: int) -> Iterator[Figure]:
    """Time backfills of growing shares of the history: each as a whole, and each phase with its gates.

    ratio : exponent of the growth of the time with the number of ops, from the preceding backfill
    """
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


def nights(spark: SparkSession, settings: Settings, all_days: int) -> Iterator[Figure]:
    """Time one night in a warehouse without other days, and in a warehouse with all days.

    ratio : to the time in the warehouse of that day only
    """
    other = {"warehouse": f"{settings.paths.warehouse}-of-a-day"}
    alone = settings.model_copy(update={"paths": settings.paths.model_copy(update=other)})
    day = first_days(all_days)[-1:]
    shutil.rmtree(alone.paths.warehouse, ignore_errors=True)
    took: dict[str, list[float]] = {"1 day": [], f"{all_days} days": []}
    for _ in range(REPEATS):
        for name, where in zip(took, (alone, settings), strict=True):
            took[name].append(_night(spark, where, day)[0])
    of_a_day, *_ = (statistics.median(seconds[1:]) for seconds in took.values())  # skips the first, cold run
    for name, seconds in took.items():
        median = statistics.median(seconds[1:])
        yield Figure(f"a night on top of {name}", 1, median, median / of_a_day)


def _night(spark: SparkSession, settings: Settings, day: Sequence[date]) -> Measured:
    stages = (ingest, simulate, aggregate, publish)
    return watch(lambda: [stage.run(spark, settings, day) for stage in stages])


def queries(spark: SparkSession, settings: Settings) -> Iterator[Figure]:
    """Time every named query over the whole history.

    ratio : median of five runs, divided by the limit of 3 s
    """
    Warehouse(spark, settings.paths.warehouse).register_views()
    for name, query in QUERIES.items():
        seconds = []
        for _ in range(REPEATS):
            started = time.perf_counter()
            spark.sql(query.over(None, None)).collect()
            seconds.append(time.perf_counter() - started)
        median = statistics.median(seconds)
        yield Figure(f"query {name}", 1, median, median / 3)


def main() -> None:
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
            backfilled = backfills(spark, settings, args.days)
            list(show("Backfill", "the smaller one: exponent of growth", backfilled))
            list(show("A night", "the same on one day of history", nights(spark, settings, args.days)))
            list(show("Named queries", "3 seconds", queries(spark, settings)))
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
