"""Backfill: run phases over a range of days, in batches of days that are checked and committed together.

A phase skips units whose published results have the same inputs, settings and version, so a backfill that was
interrupted goes on where it stopped. history.plan finds the work that is left, night.do_batches does it.
"""

import logging
import sys
from collections.abc import Collection
from datetime import date, timedelta
from functools import partial
from typing import Final

from pyspark.sql import SparkSession

from jobs.entry_points import inputs
from jobs.entry_points.cli import entry_point
from jobs.entry_points.command import tables_of
from jobs.entry_points.run_log import work_of_phases
from jobs.entry_points.run_summary import SUMMARY, leave, of_history
from jobs.gates.write_audit_publish import publish
from jobs.history.plan import Plan, in_batches, plan, rates, seconds_for
from jobs.history.records import Records
from jobs.landing.files import Landing
from jobs.landing.read_landing import digests_by
from jobs.night.do_batches import do_batches
from jobs.night.whole_night import not_complete
from jobs.runtime.arguments import Arguments, log_date, option
from jobs.runtime.nearest import suggestion
from jobs.runtime.plural import plural
from jobs.runtime.printing import Result, write
from jobs.runtime.progress import working
from jobs.runtime.settings import Settings, SettingsError, with_new_warehouse
from jobs.runtime.terminal import say
from jobs.warehouse.reader import TableReader
from jobs.warehouse.stored import is_stored
from jobs.warehouse.tables import Warehouse
from schemas.vocabulary import PHASE_NAMES, PIPELINE_RUNS, Phase

_LOG: Final = logging.getLogger(__name__)
_MOST_NAMED: Final = 5
"""Warnings name at most this many days without the producers' _SUCCESS; further days are counted."""


def run(spark: SparkSession, settings: Settings, todo: Plan) -> dict[str, int]:
    """Do the work of the plan; return rows written per table, and units, ops, bytes and seconds per phase."""
    if todo.retouched:
        days = sorted({each.unit[0] for each in todo.retouched})
        units = {each.unit for each in todo.retouched}
        publish(Phase.INGEST, Warehouse.of(spark, settings), {}, days, (), units, todo.retouched)
    return do_batches(spark, settings, todo.batches, todo.wants) if todo.batches else {}


def print_plan(tables: TableReader, todo: Plan) -> None:
    """Print a row for each batch and phase of the plan, and the expected time by the rates of recent runs."""
    rate = rates(tables)
    rows = []
    for batch in todo.batches:
        for phase in todo.wants:
            work = batch.work(phase)
            if batch.of(phase):
                size = work.units, round(work.ops / 1e6, 1), round(work.bytes / 1e6, 1)
                seconds = seconds_for(work, phase, rate)
                rows.append((batch.range, phase, *size, None if seconds is None else round(seconds, 1)))
    if rows:
        columns = ("days", "phase", "units", "million_ops", "megabytes", "seconds")
        write(Result(columns, rows), "table", sys.stdout)
    units = {unit for batch in todo.batches for some in batch.units.values() for unit in some}
    jobs = len({unit.job_id for unit in units if not unit.is_of_day})
    said = f"{plural(jobs, 'job')} on {plural(len(todo.log_dates), 'day')} to do"
    known = [seconds for *_, seconds in rows if seconds is not None]
    unknown = dict.fromkeys(phase for _, phase, *_, seconds in rows if seconds is None)
    if known:
        rest = f", without {', '.join(unknown)}, which no run has measured" if unknown else ""
        said += f", about {_duration(sum(known))}{rest}"
    elif rows:
        said += "; no run was measured here yet, so the time is not known"
    say(said)


def print_summary(counts: dict[str, int], asked: Collection[date], todo: Plan) -> None:
    """Print how many of the requested days had work, and how much each phase did in what time."""
    done = {*todo.log_dates}
    others = {0: "", 1: "; the other was done and unchanged, or has no logs"}.get(
        len({*asked} - done), "; the others were done and unchanged, or have no logs"
    )
    say(f"{len(done.intersection(asked))} of {plural(len(asked), 'day')} had something to do{others}")
    for each in work_of_phases(counts):
        units = plural(each["units"], "unit")
        size = f"{units}, {each['ops'] / 1e6:,.1f} million ops, {each['bytes'] / 1e6:,.1f} MB"
        say(f"{each['phase']}: {size} in {_duration(each['seconds'])}")
    if done:
        say(f"no report was written: `straggler report --log-date {max(done)}` writes it")


def _duration(seconds: float) -> str:
    minutes, rest_s = divmod(round(seconds), 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h {rest} min" if hours else f"{minutes} min {rest_s} s"


def _phases(text: str) -> list[str]:
    """Parse phases separated by commas; return them in the order in which a night runs them."""
    named = text.split(",")
    unknown = [name for name in named if name not in PHASE_NAMES]
    if unknown:
        raise ValueError(f"{unknown[0]!r} is not a phase; phases are {', '.join(PHASE_NAMES)}")
    return [name for name in PHASE_NAMES if name in named]


def days_between(first: date, last: date) -> list[date]:
    """Return the days from first to last, both included. Raises SettingsError if last is before first."""
    if last < first:
        raise SettingsError(f"--to {last} lies before --from {first}")
    return [first + timedelta(days=day) for day in range((last - first).days + 1)]


def _asked(settings: Settings, args: Arguments) -> tuple[Settings, list[date], list[str]]:
    """Return settings for the target warehouse, days and phases. Raises SettingsError if they conflict."""
    log_dates, phases = days_between(args.first, args.last), args.phases or list(PHASE_NAMES)
    if args.warehouse_new is None:
        return settings, log_dates, phases
    if args.phases and Phase.INGEST in args.phases:
        raise SettingsError(
            "--phases: ingest cannot run with --warehouse-new, which shares the ingested tables: omit it"
        )
    phases = [phase for phase in phases if phase != Phase.INGEST]
    return with_new_warehouse(settings, args.warehouse_new), log_dates, phases


def dry_run(settings: Settings, args: Arguments) -> None:
    """Print the plan and the expected time, without Spark if DuckDB can read the warehouse."""
    settings, log_dates, phases = _asked(settings, args)
    with tables_of(settings) as tables:
        todo = plan(tables, settings, log_dates, phases, args.job_id)
        print_plan(tables, todo)
    if said := _without_logs(settings, log_dates, phases):
        say(said)
    leave(of_history(todo.log_dates, {}, dry_run=True), args.summary)


def _without_logs(settings: Settings, log_dates: list[date], phases: list[str]) -> str:
    """Return a sentence with the nearest days with logs if none of these days has logs; empty if one has.

    It is also empty if ingest is not among the phases.
    """
    if Phase.INGEST not in phases:
        return ""
    landing = Landing(settings.paths.landing, log_dates)
    if not set(log_dates).isdisjoint(landing.all_days):
        return ""
    first, last = log_dates[0], log_dates[-1]
    near = landing.nearest_days(first, last)
    return f"no day from {first} to {last} has logs in {landing.root}: {near}"


def warn_not_complete(settings: Settings, log_dates: list[date], phases: list[str]) -> None:
    """Log a warning for each day to ingest without the producers' _SUCCESS, up to _MOST_NAMED days."""
    notices = not_complete(settings, log_dates) if Phase.INGEST in phases else []
    for notice in notices[:_MOST_NAMED]:
        _LOG.warning("%s", notice.text)
    if (more := len(notices) - _MOST_NAMED) > 0:
        are = "is" if more == 1 else "are"
        _LOG.warning("and %s %s not marked complete", plural(more, "more day"), are)


def _reads(settings: Settings, args: Arguments) -> str | None:
    """Return why a backfill into a new warehouse would do nothing; None if it may do something.

    Raises SettingsError or NoLandingError if an input named by the arguments does not exist, or if a
    requested job has no unit on these days but other jobs have.
    """
    asked, log_dates, phases = _asked(settings, args)
    if Phase.INGEST in phases:
        inputs.a_landing(settings, args)
    else:
        inputs.a_warehouse(settings, args)
    inputs.room_for(asked.paths.warehouse)
    left, names = {*args.job_id}, set[str]()
    for some in in_batches(log_dates, asked) if left else ():
        units = set(Landing(asked.paths.landing, some).units) if Phase.INGEST in phases else set()
        if not left <= {unit.job_id for unit in units}:
            with tables_of(asked) as tables:
                units |= Records(tables.ingested, asked, some).jobs
        found = {unit.job_id for unit in units if not unit.is_of_day}
        left, names = left - found, names | found
    if left and names:
        wrong = next(each for each in args.job_id if each in left)
        there = suggestion(wrong, sorted(names))
        raise SettingsError(f"--job-id: no job {wrong} from {log_dates[0]} to {log_dates[-1]}: {there}")
    if args.dry_run or is_stored(f"{asked.paths.warehouse}/{PIPELINE_RUNS}"):
        return None
    if said := _without_logs(asked, log_dates, phases):
        leave(of_history([], {}), args.summary)
    return said or None


@entry_point(
    "backfill",
    option("--from DATE", "first day", log_date, dest="first", required=True),
    option("--to DATE", "last day", log_date, dest="last", required=True),
    option(
        "--phases A,B",
        f"some of {','.join(PHASE_NAMES)}; default: all",
        _phases,
        also="--stages",
        dest="phases",
    ),
    option(
        "--job-id JOB", "only this job, and the aggregates of its days; repeatable", multiple=True, default=[]
    ),
    option("--dry-run", "only print what would be done"),
    option(
        "--warehouse-new DIR",
        "write results to this warehouse, but read ingested tables from --warehouse; see `straggler compare`",
    ),
    SUMMARY,
    reads=_reads,
    writes_to=lambda settings, args: _asked(settings, args)[0].paths.warehouse,
    dry_run=dry_run,
    begins_empty=False,
)
def main(spark: SparkSession, settings: Settings, args: Arguments) -> dict[str, int]:
    """Run phases over a range of log dates; units whose results are up to date are skipped."""
    settings, log_dates, phases = _asked(settings, args)
    warn_not_complete(settings, log_dates, phases)  # first: a marker may be written while the plan is made
    tables, by_workers = Warehouse.of(spark, settings), partial(digests_by, spark)
    with working("backfill: looking for work"):
        todo = plan(tables, settings, log_dates, phases, args.job_id, digest=by_workers)
    counts = run(spark, settings, todo)
    print_summary(counts, log_dates, todo)
    if said := _without_logs(settings, log_dates, phases):
        say(said)
    leave(of_history(todo.log_dates, counts, is_beside=args.warehouse_new is not None), args.summary)
    return counts


if __name__ == "__main__":
    sys.exit(main())
