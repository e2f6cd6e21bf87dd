"""Publish: hold the tables of the given days against each other, say what was found, write the report.

Every stage has gated its own tables before they became visible; what only all of them together can show is
checked here: that the fleet's counts are those of the units that were ingested, and its causes theirs.
"""

import argparse
import logging
import sys
from collections.abc import Sequence
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.cli import day_parser, run_entry_point
from jobs.gates import audit_absence
from jobs.progress import working
from jobs.report_fleet import run as write_report
from jobs.settings import Settings
from jobs.transforms.causes import miscounted_causes
from jobs.warehouse import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import CAUSE_DAY, FLEET_DAY, JOB_CAUSES, JOBS, REJECTS, STATUSES

_LOG = logging.getLogger(__name__)


def run(spark: SparkSession, settings: Settings, log_dates: Sequence[date]) -> dict[str, int]:
    """Check these days across the stages, log their summary, write the report of the last of them.

    Publishes no rows of its own.
    """
    warehouse = Warehouse(spark, settings.paths.warehouse, settings.paths.silver)
    fleet = warehouse.read(TABLES[FLEET_DAY], log_dates)
    miscounted = _miscounted_days(warehouse.read(TABLES[JOBS], log_dates), fleet)
    audit_absence(FLEET_DAY, "counts_every_unit", miscounted, "a day's jobs are the units that were ingested")
    causes = warehouse.read(TABLES[CAUSE_DAY], log_dates)
    contradictions = miscounted_causes(warehouse.read(TABLES[JOB_CAUSES], log_dates), causes, fleet)
    audit_absence(
        CAUSE_DAY, "sums_job_causes", contradictions, "a day's causes are those of its replayed units"
    )
    rejects = warehouse.read(TABLES[REJECTS], log_dates).groupBy("log_date").count()
    rejected = {row["log_date"]: row["count"] for row in rejects.collect()}
    for day in sorted(log_dates):
        found = fleet.where(F.col("log_date") == F.lit(day)).collect()
        _LOG.info("%s: %s", day, _summary(found[0].asDict(), rejected.get(day, 0)) if found else "no units")
    if settings.report_folder is not None:
        write_report(spark, settings, max(log_dates))
    return {}


def _miscounted_days(jobs: DataFrame, fleet: DataFrame) -> DataFrame:
    """Days whose fleet figures speak of another number of units than were ingested."""
    ingested = jobs.groupBy("log_date").agg(F.count("*").alias("ingested"))
    counted = fleet.select("log_date", F.col("jobs").alias("counted"))
    both = ingested.join(counted, "log_date", "full_outer")
    return both.where(~F.col("ingested").eqNullSafe(F.col("counted")))


def _summary(fleet: dict[str, object], rejected: int) -> str:
    by_status = ", ".join(f"{fleet[status]} {status}" for status in STATUSES if fleet[status])
    text = f"{fleet['jobs']} units ({by_status}); {fleet['straggling']} straggling; {rejected} rejects"
    if fleet["wasted_gpu_hours"] is None:
        return text
    return f"{text}; {fleet['wasted_gpu_hours']:.1f} of {fleet['analysed_gpu_hours']:.1f} GPU-hours wasted"


def main(argv: Sequence[str] | None = None) -> int:
    """Publish one log date; returns the exit status."""
    parser = day_parser("publish_night", "Check a log date across its tables and say what the night found.")

    def body(spark: SparkSession, settings: Settings, args: argparse.Namespace) -> dict[str, int]:
        with working(f"publish_night: {args.log_date}"):
            return run(spark, settings, [args.log_date])

    return run_entry_point("publish_night", parser, argv, body)


if __name__ == "__main__":
    sys.exit(main())
