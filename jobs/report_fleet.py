"""Write the fleet's report: the period up to a log date, and a page for each of its straggling jobs."""

import sys

from jobs.entry_points.command import reader_entry_point
from jobs.report.links import INDEX_NAME
from jobs.report.write import write_report
from jobs.runtime.arguments import LOG_DATE, Arguments
from jobs.runtime.settings import Settings
from jobs.runtime.terminal import say
from jobs.warehouse.reader import Reader


@reader_entry_point("report_fleet", LOG_DATE, in_order=True)
def main(reader: Reader, settings: Settings, args: Arguments) -> None:
    """Write the report of the period up to a log date, as HTML pages; print the path of its first page."""
    say(f"{write_report(reader, settings, args.log_date)}/{INDEX_NAME}")


if __name__ == "__main__":
    sys.exit(main())
