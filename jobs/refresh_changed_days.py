"""Refresh: process units of earlier days again if their logs or manifests changed since their night.

A new version or other settings repeat nothing here: compare_versions and a backfill apply those. A day is
looked at only if its producers have written _SUCCESS.
"""

import logging
import sys
from datetime import date
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from jobs import backfill
from jobs.entry_points import inputs
from jobs.entry_points.cli import entry_point
from jobs.entry_points.run_summary import SUMMARY, leave, of_history
from jobs.history.plan import plan
from jobs.history.records import days_before
from jobs.landing.files import Landing
from jobs.landing.read_landing import digests_by
from jobs.runtime.arguments import LOG_DATE, Arguments
from jobs.runtime.plural import plural
from jobs.runtime.progress import working
from jobs.runtime.settings import Settings
from jobs.warehouse.tables import Warehouse

_LOG: Final = logging.getLogger(__name__)


def run(
    spark: SparkSession, settings: Settings, log_date: date, summary: str | None = None
) -> dict[str, int]:
    """Process changed units of the days before this day; return rows per table, and work and time per phase.

    summary : path of a JSON file to write, with the days and the work that was done
    """
    days = days_before([log_date], settings.history.look_back_days)  # the night processes log_date itself
    finished = sorted(Landing(settings.paths.landing, days).finished_days() & set(days))
    if not finished:
        _LOG.warning("no day of %s .. %s is finished in %s", days[0], days[-1], settings.paths.landing)
        leave(of_history([], {}), summary)
        return {}
    with working("refresh_changed_days: looking for changes"):
        tables, by_workers = Warehouse.of(spark, settings), partial(digests_by, spark)
        todo = plan(tables, settings, finished, data_only=True, digest=by_workers)
    for batch in todo.batches:
        for unit in sorted(set().union(*batch.units.values())):
            phases = [phase for phase, units in batch.units.items() if unit in units]
            _LOG.info("%s: %s", unit.words, ", ".join(phases))
    _LOG.info("changed: %d of %s", len(todo.log_dates), plural(len(finished), "finished day"))
    counts = backfill.run(spark, settings, todo)
    leave(of_history(todo.log_dates, counts), summary)
    return counts


@entry_point("refresh_changed_days", LOG_DATE, SUMMARY, reads=inputs.a_landing)
def main(spark: SparkSession, settings: Settings, args: Arguments) -> dict[str, int]:
    """Process units of the days before a log date again if their logs or manifests changed."""
    return run(spark, settings, args.log_date, args.summary)


if __name__ == "__main__":
    sys.exit(main())
