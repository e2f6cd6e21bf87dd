"""Publish: hold the tables of the given days against each other, say what was found, write the report.

Every stage has gated its own tables before they became visible; what only all of them together can show is
checked here: that the fleet's counts are those of the units that were ingested, and its causes theirs.
"""

import argparse
import logging
import sys
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

from pyspark.sql import SparkSession

from jobs.cli import LOG_DATE, entry_point
from jobs.gates.quality_docs import Page, TableChecks, write_docs
from jobs.gates.result_rules import miscounted_causes, miscounted_units
from jobs.night_summary import night_summary, told
from jobs.progress import working
from jobs.report_fleet import run as write_report
from jobs.run_summary import SUMMARY, Summary, leave
from jobs.settings import Settings
from jobs.stage import publish
from jobs.warehouse.tables import Warehouse
from jobs.watch import RULE_BROKEN, Notice, night_warnings
from schemas.tables import TABLES
from schemas.vocabulary import CAUSE_DAY, FLEET_DAY, JOB_CAUSES, JOBS

_LOG: Final = logging.getLogger(__name__)
_STAGE: Final = "publish"


def run(
    spark: SparkSession, settings: Settings, log_dates: Sequence[date], rows: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Check these days across the stages, write the report of the last of them, log their summaries.

    Publishes no rows of its own.

    rows : that the stages have published of these days, by table, where they have all just done so
    """
    summaries(spark, settings, log_dates, rows)
    return {}


def summaries(
    spark: SparkSession, settings: Settings, log_dates: Sequence[date], rows: Mapping[str, int] | None = None
) -> list[Summary]:
    """Check these days across the stages, write the report, log and return what each night found."""
    warehouse = Warehouse.of(spark, settings)
    names = (FLEET_DAY, CAUSE_DAY, JOBS, JOB_CAUSES)
    tables = {name: warehouse.rows(TABLES[name], log_dates) for name in names}
    rules = [miscounted_units(tables), miscounted_causes(tables)]
    held = publish(_STAGE, warehouse, {}, log_dates, rules).checks
    if settings.report_folder is not None:
        write_report(spark, settings, max(log_dates))
    known = rows if len(log_dates) == 1 else None  # of several days they are told together
    return [_told(warehouse, settings, day, held, known) for day in sorted(log_dates)]


def _told(
    warehouse: Warehouse,
    settings: Settings,
    day: date,
    held: Sequence[TableChecks],
    rows: Mapping[str, int] | None,
) -> Summary:
    """Log what a night found, and put it on its page."""
    notices = night_warnings(warehouse, settings.watch, day)
    notices += [
        Notice(RULE_BROKEN, f"{day}: {check.meaning}: not for {check.rows} rows")
        for table in held
        for check in table.checks
        if check.outcome == "warning" and day in (check.log_dates or [day])
    ]
    summary = night_summary(warehouse, day, notices, settings.report_folder, rows)
    texts = [notice.text for notice in notices]
    figures = {name: value for name, value in summary.items() if name not in {"warnings", "rows", "stages"}}
    figures |= {f"rows of {name}": count for name, count in summary["rows"].items()}
    page = Page(_STAGE, [day], warehouse.root, held, figures=figures, warnings=texts)
    write_docs(warehouse.spark, page)
    for line in told(summary):
        _LOG.log(logging.WARNING if line.startswith("warning: ") else logging.INFO, line)
    return summary


@entry_point("publish_night", LOG_DATE, SUMMARY)
def main(spark: SparkSession, settings: Settings, args: argparse.Namespace) -> dict[str, int]:
    """Check a log date across its tables and say what the night found."""
    with working(f"publish_night: {args.log_date}"):
        (summary,) = summaries(spark, settings, [args.log_date])
    leave(summary, args.summary)
    return {}


if __name__ == "__main__":
    sys.exit(main())
