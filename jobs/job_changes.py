"""Changes: print since which day a job takes longer or loses more, by which cause, and what else changed.

`straggler changes --job-id gpt-175b` finds the days from which on the step time of the job, its loss, or its
loss to one cause stays on another level, over all runs of the job; without --job-id, of every job. --from
DATE prints only changes since that day, but compares them with earlier days too. Causes that come and go
within a few days are no new level: sentences below the table name the days on which a cause is new or gone,
as the view cause_news does. Nothing is written; the nights store the changes that they find in the table
job_changes.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, fields
from datetime import date
from typing import Any, Final

from jobs.entry_points.command import reader_entry_point
from jobs.reading.unit import job_ids
from jobs.report.news_words import news_text, with_onsets
from jobs.report.wording import counted, percent, seconds
from jobs.runtime.arguments import AS_LISTS, FORMAT, Arguments, log_date, option
from jobs.runtime.fitting import complain_fitting
from jobs.runtime.nearest import suggestion
from jobs.runtime.plural import plural
from jobs.runtime.printing import Result, write
from jobs.runtime.settings import Settings
from jobs.warehouse.reader import QuestionError, Reader, on_days
from schemas.causes import OF_CAUSE
from schemas.job_changes import OF_LOST, OF_STEP
from schemas.table import sql_strings
from schemas.vocabulary import CAUSE_UNEXPLAINED, JOB_CAUSES, UNIT_KEY
from udfs.changes import (
    LEAST_DAYS,
    READ,
    SMALLEST,
    Change,
    Point,
    by_job,
    changes_of,
    least_change,
    points_of,
    step_differences,
)

_SINGLE: Final = "diff JOB@DAY JOB@DAY compares two days"
_MOST_UNITS: Final = 14
"""If a job has no change, at most this many of its units are listed, the latest."""
_LEAST_SHOWN: Final = 0.01
"""A listed unit names the causes to which it loses at least this part of the step."""
_MOST_NEWS: Final = 10
"""At most this many new and gone causes are listed, the latest."""


def run(reader: Reader, args: Arguments) -> tuple[list[Change], Sequence[Point]]:
    """Return all changes, the latest first, and the units of the job that has the most units.

    Days before args.first are read too, because a change is found by comparison with the days before it.
    Raises QuestionError for an unknown job.
    """
    read = {
        table: f"SELECT {', '.join([*UNIT_KEY, *columns])} FROM {table} WHERE {_selected(args)}"
        for table, columns in READ.items()
    }
    points = points_of({table: reader.rows(sql) for table, sql in read.items()})
    if args.job_id is not None and not points:
        names = job_ids(reader)
        if args.job_id not in names:
            raise QuestionError(f"no job {args.job_id}: {suggestion(args.job_id, names)}")
    jobs: list[list[Point]] = list(by_job(points))
    first = args.first or date.min
    found = [change for of_job in jobs for change in changes_of(of_job) if change.since >= first]
    return sorted(found, key=lambda change: change.since, reverse=True), max(jobs, key=len, default=[])


def news(reader: Reader, args: Arguments) -> Iterator[str]:
    """Yield a sentence for each new cause, with its first slow step if known, and each gone cause."""
    since = f"log_date >= DATE'{args.first or date.min}'"
    rows = reader.rows(f"SELECT * FROM cause_news WHERE {since} AND {_selected(args)}").to_pylist()
    last = sorted(rows, key=lambda row: row["log_date"], reverse=True)[:_MOST_NEWS]
    culprits = {}
    if days := [row["log_date"] for row in last if row["change"] == "new"]:
        jobs = sql_strings(sorted({row["job_id"] for row in last}))
        where = f"is_cause AND job_id IN ({jobs}) AND {on_days(days)}"
        held = reader.rows(f"SELECT {', '.join(UNIT_KEY)}, cause, culprits FROM {JOB_CAUSES} WHERE {where}")
        culprits = {_of(row): row["culprits"] for row in held.to_pylist()}
    for row in last:
        said = with_onsets(row, culprits.get(_of(row)) or ()) if row["change"] == "new" else row
        yield f"{row['log_date']} {news_text(said)}"
    if len(rows) > len(last):
        yield f"and {plural(len(rows) - len(last), 'more new or gone cause')}: SELECT * FROM cause_news"


def _of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in (*UNIT_KEY, "cause"))


def _selected(args: Arguments) -> str:
    """Return the SQL condition for rows of the job and up to the day that the arguments name."""
    wanted = ["true"] if args.job_id is None else [f"job_id = {sql_strings([args.job_id])}"]
    wanted += [f"log_date <= DATE'{args.last}'"] if args.last is not None else []
    return " AND ".join(wanted)


def none_found(points: Sequence[Point], job_id: str | None, first: date | None = None) -> Iterator[str]:
    """Yield why no change is listed: none was found, or step times differ but too few units prove a change.

    The units of a named job follow, a line each.
    first : the argument --from, before which there may be changes
    """
    units = len(points)
    since = f" since {first}" if first else ""
    each = "one run on one day" if units == 1 else "each one run on one day"
    whose = "the job with most units" if job_id is None else f"job {job_id}"
    if job_id is not None and first is None and (unproven := _unproven(points)):
        yield f"no change is proven: {whose} has {counted(units, 'unit')} ({each}); {unproven}; {_SINGLE}"
        yield from map(_unit, points[-_MOST_UNITS:])
        return
    step, lost = (f"{100 * least_change(units, each):.1f} %" for each in (OF_STEP, OF_LOST))
    shows = (
        f", and fewer than {LEAST_DAYS} show none"
        if units < LEAST_DAYS
        else f", in which steps must differ by {step}, or losses by {lost} of the step, and by more than "
        "neighbouring days usually do: a step that grows from day to day shows none"
    )
    yield f"no change found{since}: {whose} has {counted(units, 'unit')} ({each}){shows}; {_SINGLE}"
    if job_id is not None:
        yield from map(_unit, points[-_MOST_UNITS:])


def _unproven(points: Sequence[Point]) -> str:
    """Return how far step times differ and why that proves no change; empty if they differ too little."""
    if not points:
        return ""
    low, high = (choose(points, key=lambda point: point.step_s) for choose in (min, max))
    usual = SMALLEST[OF_STEP] if len(points) < LEAST_DAYS else least_change(len(points), OF_STEP)
    differ = high.step_s / low.step_s - 1
    if differ < usual:
        return ""
    ordered = sorted((low, high), key=lambda point: point.unit)
    sides = (f"{seconds(each.step_s)} on {each.unit.log_date} ({each.unit.run_id})" for each in ordered)
    why = f"fewer than {LEAST_DAYS} units show no change"
    if len(points) >= LEAST_DAYS:
        between, shown = step_differences(points)
        why = (
            f"units differ by {100 * between:.0f} % from one to the next, beside which a change in the "
            f"middle of {len(points)} units shows only from {100 * shown:.0f} % on"
            if differ < shown
            else "too few units stay at another level"
        )
    return f"steps take {' and '.join(sides)}, but {why}; more days can show it"


def _unit(point: Point) -> str:
    """Return a line with a unit's day, run, step time, and the part of the step lost to each cause."""
    lost = {cause: part for cause, part in (point.lost or {}).items() if part >= _LEAST_SHOWN}
    parts = ", ".join(
        f"{percent(part)} {'' if cause == CAUSE_UNEXPLAINED else 'lost to '}{OF_CAUSE[cause].words}"
        for cause, part in lost.items()
    )
    unit = point.unit
    return f"  {unit.log_date} {unit.run_id}: {seconds(point.step_s)} a step{parts and f', {parts}'}"


@reader_entry_point(
    "job_changes",
    option("--job-id JOB", "only this job"),
    option(
        "--from DATE",
        "print only changes since this day; earlier days are compared too",
        log_date,
        dest="first",
    ),
    option("--to DATE", "ignore all days after this one", log_date, dest="last"),
    FORMAT,
    AS_LISTS,
)
def main(reader: Reader, _settings: Settings, args: Arguments) -> None:
    """Print since which day jobs take longer or lose more time, and what else changed on that day."""
    found, points = run(reader, args)
    result = Result([field.name for field in fields(Change)], [astuple(each) for each in found])
    write(result, args.format, sys.stdout, as_lists=args.as_lists)
    if not found:
        for line in none_found(points, args.job_id, args.first):
            complain_fitting(line)
    for line in news(reader, args):
        complain_fitting(line)


if __name__ == "__main__":
    sys.exit(main())
