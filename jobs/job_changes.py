"""Changes: since which day does a job take longer or lose more, to which cause, and what else changed?

`straggler changes --job-id gpt-175b` finds the days, over all runs of a job, from which on its step time,
what it loses or a cause is on another level. Without a job, of all. Nothing is written: the table job_changes
has what each night found of its own jobs.
"""

import sys
from collections.abc import Sequence
from dataclasses import astuple, fields
from typing import Final

from jobs.entry_points.command import reader_entry_point
from jobs.runtime.arguments import AS_LISTS, FORMAT, PERIOD, Arguments, option
from jobs.runtime.nearest import suggestion
from jobs.runtime.printing import Result, write
from jobs.runtime.settings import Settings
from jobs.runtime.terminal import complain
from jobs.warehouse.reader import QuestionError, Reader
from schemas.job_changes import OF_LOST, OF_STEP
from schemas.table import sql_strings
from schemas.vocabulary import JOBS, UNIT_KEY
from udfs.changes import LEAST_DAYS, READ, Change, Point, by_job, changes_of, least_change, points_of

_SINGLE: Final = "diff JOB@DAY JOB@DAY compares two days"


def run(reader: Reader, args: Arguments) -> tuple[list[Change], int]:
    """Find the changes of one job, or of all, the latest first; and the days of the job that has most.

    Raises QuestionError for an unknown job.
    """
    points = points_of({table: reader.rows(_asked(table, columns, args)) for table, columns in READ.items()})
    if args.job_id is not None and not points:
        names = reader.rows(f"SELECT DISTINCT job_id FROM {JOBS} ORDER BY job_id")["job_id"].to_pylist()
        if args.job_id not in names:
            raise QuestionError(f"no job {args.job_id}: {suggestion(args.job_id, names)}")
    jobs: list[list[Point]] = list(by_job(points))
    found = [change for of_job in jobs for change in changes_of(of_job)]
    return sorted(found, key=lambda change: change.since, reverse=True), max(map(len, jobs), default=0)


def _asked(table: str, columns: Sequence[str], args: Arguments) -> str:
    """SQL for the rows of a table that the arguments select."""
    wanted = ["true"] if args.job_id is None else [f"job_id = {sql_strings([args.job_id])}"]
    wanted += [f"log_date >= DATE'{args.first}'"] if args.first is not None else []
    wanted += [f"log_date <= DATE'{args.last}'"] if args.last is not None else []
    return f"SELECT {', '.join([*UNIT_KEY, *columns])} FROM {table} WHERE {' AND '.join(wanted)}"


def none_found(days: int) -> str:
    """Print that no change was found, and the least change that these days could show."""
    begins = f"no change found: the job with most days of runs has {days}"
    if days < LEAST_DAYS:
        return f"{begins}, and fewer than {LEAST_DAYS} show none; {_SINGLE}"
    step, lost = (f"{100 * least_change(days, each):.1f} %" for each in (OF_STEP, OF_LOST))
    return (
        f"{begins}, in which steps must differ by {step}, or losses by {lost} of the step, and by more than "
        f"neighbouring days usually do: a step that grows from day to day shows none; {_SINGLE}"
    )


@reader_entry_point(
    "job_changes",
    option("--job-id JOB", "only this job"),
    *PERIOD,
    FORMAT,
    AS_LISTS,
)
def main(reader: Reader, _settings: Settings, args: Arguments) -> None:
    """Print since which day jobs take longer or lose more, and what else changed then."""
    found, days = run(reader, args)
    result = Result([field.name for field in fields(Change)], [astuple(each) for each in found])
    write(result, args.format, sys.stdout, as_lists=args.as_lists)
    if not found:
        complain(none_found(days))


if __name__ == "__main__":
    sys.exit(main())
