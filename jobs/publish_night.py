"""Publish one log date: check rules across its tables, log a summary of the day, and write the report."""

import sys
from datetime import date

from pyspark.sql import SparkSession

from jobs.entry_points.cli import entry_point
from jobs.entry_points.run_summary import SUMMARY, leave
from jobs.night.phase_run import touched_days
from jobs.night.publish import summaries
from jobs.runtime.arguments import LOG_DATE, Arguments
from jobs.runtime.progress import working
from jobs.runtime.settings import Settings
from schemas.vocabulary import Phase


@entry_point("publish_night", LOG_DATE, SUMMARY)
def main(spark: SparkSession, settings: Settings, args: Arguments) -> dict[str, int]:
    """Check rules across the tables of a log date and of later days that depend on it; write the report."""
    day: date = args.log_date
    with working(f"publish_night: {day}"):
        days = touched_days(Phase.PUBLISH, spark, settings, [day])
        found = summaries(spark, settings, days, with_report=[day])
    leave(found[days.index(day)], args.summary)
    return {}


if __name__ == "__main__":
    sys.exit(main())
