"""Run a night in one Spark session: ingest, simulate, revise, aggregate and publish one log date."""

import sys

from pyspark.sql import SparkSession

from jobs.entry_points import inputs
from jobs.entry_points.cli import entry_point
from jobs.night.whole_night import run
from jobs.runtime.arguments import LOG_DATE, Arguments
from jobs.runtime.settings import Settings


@entry_point("run_nightly", LOG_DATE, reads=inputs.logs_of_a_day, begins_empty=False)
def main(spark: SparkSession, settings: Settings, args: Arguments) -> dict[str, int]:
    """Run a night: ingest, simulate, revise, aggregate and publish one log date."""
    return run(spark, settings, [args.log_date])


if __name__ == "__main__":
    sys.exit(main())
