"""A whole night in one session: ingest, simulate, aggregate, publish."""

import argparse
import sys
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from jobs import aggregate_fleet, ingest_rank_logs, simulate_what_if
from jobs.cli import LOG_DATE, entry_point
from jobs.progress import steps
from jobs.publish_night import run as publish_night
from jobs.settings import Settings

Stage = Callable[[SparkSession, Settings, Sequence[date]], dict[str, int]]

STAGES: Final[dict[str, Stage]] = {
    "ingest": ingest_rank_logs.run,
    "simulate": simulate_what_if.run,
    "aggregate": aggregate_fleet.run,
}
"""Each stage gates and publishes its own tables; what earlier ones published stays where one fails."""


def run(spark: SparkSession, settings: Settings, log_dates: Sequence[date]) -> dict[str, int]:
    """Run every stage over these days; returns rows per table."""
    rows: dict[str, int] = {}
    parts: dict[str, Stage] = {
        **STAGES,
        "publish": partial(publish_night, rows=rows),
    }  # of what is there by then
    with steps(f"night of {', '.join(map(str, log_dates))}", list(parts)) as names:
        for name in names:
            rows |= parts[name](spark, settings, log_dates)
    return rows


@entry_point("run_nightly", LOG_DATE)
def main(spark: SparkSession, settings: Settings, args: argparse.Namespace) -> dict[str, int]:
    """Run a night: ingest, simulate, aggregate and publish one log date."""
    return run(spark, settings, [args.log_date])


if __name__ == "__main__":
    sys.exit(main())
