"""Convert another tool's logs to rank logs in a landing; `--check` only prints a summary.

`straggler convert FOLDER --check` needs no Spark. A job.json beside the logs supplies fields that they lack.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any, Final

import click

from jobs.emitter.rank_log_writer import SAFE_NAME
from jobs.landing.conversion import Conversion, ConversionError, NothingToConvertError
from jobs.landing.files import EVENTS, MANIFEST, META
from jobs.landing.formats.manifest import SIZES
from jobs.landing.one_run import NoRunError, Run, run_of, runs_in
from jobs.reading.analysis import (
    Analysis,
    analysed,
    analysis,
    manifest_template,
    recorded_day,
    unread_files,
)
from jobs.report.loss import headline, not_used
from jobs.runtime.arguments import AS_JSON, Arguments, called, command, log_date, option
from jobs.runtime.nearest import missing_folder
from jobs.runtime.plural import plural
from jobs.runtime.printing import Result, write
from jobs.runtime.terminal import complain, say
from schemas.vocabulary import Exit, Status
from udfs.simulate.implausible import implausible_times
from udfs.simulate.odd_records import of_log_date
from udfs.what_if import SimulationSettings

_SAID: Final = ("source_format", "transfers", *SIZES, "manifest_status", "manifest_detail", "warm_up_steps")
"""Columns of the table jobs that `--format json` prints."""
_NOT_CONVERTED: Final = dict.fromkeys((*_SAID, "ops", "rows", "ranks", "steps", "broken", "left_out"))
"""Values that `--format json` prints for logs that a landing takes as they are: all null."""
_MOST_LAST: Final = 3
_MOST_RUNS: Final = 5


@command(
    "convert",
    option("path PATH", "the run's files, or its folder", Path, nargs=-1, required=True),
    option("--check", "only print what would be written"),
    option("--landing DIR", "landing to write to", Path),
    option("--job-id JOB", "the job"),
    option("--run-id RUN", "its run"),
    option("--log-date DATE", "log date to write under, such as 2026-01-05", log_date),
    AS_JSON,
)
def main(args: Arguments) -> int:
    """Convert one run's logs from another tool's format to rank logs, or print a summary of the logs.

    Exits with 1 if a log cannot be converted. --check also accepts logs that need no conversion, and exits
    with 1 if the run cannot be replayed, as `analyse` does.
    """
    if args.format and not args.check:
        raise click.UsageError("--format json goes with --check")
    if not args.check and None in (args.landing, args.job_id, args.run_id, args.log_date):
        raise click.UsageError("--landing, --job-id, --run-id and --log-date are required, or else --check")
    for name in filter(None, (args.job_id, args.run_id)):
        if not SAFE_NAME.fullmatch(name):
            raise click.UsageError(f"{name!r} cannot name a job or run: letters, digits and ._+@=~- can")
    try:
        return _converted(args)
    except (ConversionError, OSError) as error:
        said = f"{error}"
        if isinstance(error, OSError) and error.strerror:
            said = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
        complain(f"{called()}: error: {said}")
        return Exit.FAILED


def _converted(args: Arguments) -> int:
    run, beside = _run(args.path)
    unit = run.unit._replace(job_id=args.job_id or run.unit.job_id, run_id=args.run_id or run.unit.run_id)
    given = _given([Path(file.path) for file in run.files])
    own = {"job_id": unit.job_id, "run_id": unit.run_id} if args.job_id or args.run_id else {}
    logs = [Path(file.path) for file in run.files if not file.is_one_of(MANIFEST, META, *EVENTS)]
    try:
        found = Conversion(logs, {**given, **own}, unit)
    except NothingToConvertError as error:
        if not args.check:
            raise
        if not args.format:
            say(str(error))
        outcome = analysis(run._replace(unit=unit))
        return _judged(outcome, args.format, _NOT_CONVERTED, *unread_files(outcome.read))
    found.left_out.update(f"files: {name}, not a name of a log" for name in beside)
    if not args.format:
        say(*_report(found))
    if args.check:
        outcome = analysed(unit, found.read, has_day=run.has_day)
        facts = {
            **{name: found.job[name] for name in _SAID},
            "ops": found.ops,
            "rows": found.rows.num_rows,
            "ranks": _distinct(found, "rank"),
            "steps": _distinct(found, "step"),
            "broken": dict(found.broken),
            "left_out": dict(found.left_out),
        }
        return _judged(outcome, args.format, facts)
    if (wrong := implausible_times(found.rows)) is not None:
        say(f"status: implausible_times; {wrong}")
    _refuse_other_day(found, args.log_date)
    say(f"written: {found.write(args.landing, args.log_date)}")
    return Exit.DONE


def _run(paths: Sequence[Path]) -> tuple[Run, list[str]]:
    """Return the run in a folder, or a run made of the given files, and the names of files that are not read.

    Raises NoRunError for a folder that has no run or several runs, and for a path that does not exist.
    """
    for path in paths:
        if not path.exists():
            raise NoRunError(missing_folder(str(path)))
    if len(paths) > 1 or not paths[0].is_dir():
        return run_of(paths[0].resolve().parent, [file for path in paths for file in _files(path)]), []
    runs = runs_in(paths[0])
    if len(runs) > 1:
        listed = ", ".join(run.folder for run in runs[:_MOST_RUNS])
        raise NoRunError(f"{len(runs)} runs in {paths[0]}; name the folder of one: {listed}")
    taken = {file.name for file in runs[0].files}
    return runs[0], [file.name for file in _files(Path(runs[0].folder)) if file.name not in taken]


def _files(path: Path) -> list[Path]:
    """Return the file itself for a file, or all files that are not hidden for a folder."""
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))


def _given(files: Sequence[Path]) -> dict[str, Any]:
    """Return the fields of the first job.json among the files; empty without one."""
    for file in files:
        if file.name == MANIFEST:
            try:
                found = json.loads(file.read_bytes())
            except (ValueError, RecursionError) as error:
                raise click.UsageError(f"{file} is not JSON: {error}") from None
            if not isinstance(found, dict):
                raise click.UsageError(f"{file} is not a JSON object")
            return found
    return {}


def _judged(outcome: Analysis, how: str | None, facts: Mapping[str, object], *unread: str) -> int:
    """Print the status that a night would give the run; return the exit status that `analyse` would have.

    how : the format for programs; None prints sentences
    facts : further values to print for programs
    unread : sentences on files from which nothing was read
    """
    job = outcome.tables.job
    if how:
        values = {
            **outcome.unit._asdict(),
            **facts,
            **{name: job[name] for name in ("status", "status_detail")},
        }
        write(Result([*values], [[*values.values()]]), how, sys.stdout)
    else:
        say(headline(job), *unread, *manifest_template(outcome))
    return Exit.DONE if outcome.tables.workers else Exit.FAILED


def _report(found: Conversion) -> Iterator[str]:
    job = found.job
    sizes = ", ".join(f"{name} {job[name]}" for name in SIZES if job[name] is not None)
    yield f"format: {job['source_format']}; transfers {job['transfers']}"
    yield f"layout: {sizes or 'unknown'}"
    if job["manifest_status"] in (Status.NO_MANIFEST, Status.BAD_LAYOUT):
        yield f"job.json must say: {job['manifest_detail']}"
    for claim in not_used(job):
        yield f"not used: {claim}"
    yield (
        f"understood: {plural(found.ops, 'op')} of {plural(_distinct(found, 'rank'), 'rank')} "
        f"in {plural(_distinct(found, 'step'), 'step')}, {plural(found.rows.num_rows, 'row')}"
    )
    if job["warm_up_steps"]:
        yield f"not replayed: the first {job['warm_up_steps']} steps, which are warm-up"
    for row in sorted(found.arrivals.to_pylist(), key=lambda row: -row["times_last"])[:_MOST_LAST]:
        where = f"{row['collectives']} collectives of {row['communicator']}"
        yield f"came last: rank {row['rank']}, to {row['times_last']} of {where}"
    for name, why in found.broken.items():
        yield f"broken: {name}: {why}"
    for what, count in found.left_out.most_common():
        yield f"left out: {count:,} x {what}"


def _refuse_other_day(found: Conversion, log_date: date) -> None:
    """Raise ConversionError if no line has a time of that date: a night would leave out all lines."""
    kept, _ = of_log_date(found.rows, {"log_date": log_date}, SimulationSettings().log_day_margin_s)
    if found.rows.num_rows and not kept.num_rows:
        day, leaves = recorded_day(found.rows), f"a night of {log_date} leaves all of them out"
        if day is not None:
            raise ConversionError(f"its lines are of {day}: {leaves}. Use --log-date {day}")
        first_us = min(found.rows["t0_us"].drop_null().to_pylist())
        raise ConversionError(
            f"its lines state no day: t0_us is {first_us}, not in microseconds since 1970: {leaves}. "
            "`straggler analyse` reads the log as it is"
        )


def _distinct(found: Conversion, name: str) -> int:
    return len(found.rows[name].unique())


if __name__ == "__main__":
    sys.exit(main())
