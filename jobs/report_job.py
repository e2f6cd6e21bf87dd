"""Write the page of one job, whether it straggles or not.

`straggler job-page --job-id J` writes the page of the job's latest day into the report of that day, or with
--out into one self-contained file.
"""

import sys
from pathlib import Path

from jobs.entry_points.command import reader_entry_point
from jobs.reading.unit import find_unit
from jobs.report.write import write_job_page
from jobs.runtime.arguments import OF_UNIT, Arguments, option
from jobs.runtime.settings import Settings
from jobs.runtime.terminal import say
from jobs.warehouse.reader import Reader


@reader_entry_point(
    "report_job", *OF_UNIT, option("--out FILE", "write one self-contained file instead", Path), in_order=True
)
def main(reader: Reader, settings: Settings, args: Arguments) -> None:
    """Write the page of one job on one of its days; print its headline, then its path."""
    unit = find_unit(reader, args.job_id, args.run_id, args.log_date)
    says, page = write_job_page(reader, settings, unit, args.out)
    say(f"{unit.words}: {says}", page)


if __name__ == "__main__":
    sys.exit(main())
