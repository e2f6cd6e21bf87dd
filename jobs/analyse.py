"""Analyse one run straight from its folder: how slow it is, why, and what each fix saves.

`straggler analyse FOLDER` needs no warehouse, no settings and no Spark. A night over the same folder computes
the same figures, but can also decide causes by comparison with other jobs and earlier days.
"""

import re
import sys
import webbrowser
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import click

from jobs.landing.one_run import NoRunError, Run, check_known, runs_in
from jobs.reading.analysis import (
    Analysis,
    analysis,
    ignored_files,
    manifest_template,
    other_day,
    recorded_day,
    unread_files,
)
from jobs.reading.rejects import reject_texts
from jobs.reading.unit import asked_one
from jobs.report import loss, wording
from jobs.report.cause_list import cause_list
from jobs.report.files import alone, cache_folder, chart_library
from jobs.report.job_page import job_page, trust
from jobs.report.sections import effective_time
from jobs.runtime.arguments import AS_JSON, Arguments, called, command, log_date, option
from jobs.runtime.fitting import say_fitting
from jobs.runtime.nearest import suggestion
from jobs.runtime.printing import Result, fit, write
from jobs.runtime.terminal import complain, say
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN, REJECTS, UNIT_KEY, Exit, Status

_MOST_RUNS: Final = 20
"""If the arguments leave several runs of a folder, the error lists at most this many."""


@command(
    "analyse",
    option(
        "folder FOLDER",
        "folder or file with a run's logs: rank-*.jsonl and job.json, a published trace, or another tool's",
        Path,
    ),
    option("--job-id JOB", "if the folder holds several runs: the job, or JOB/RUN, either also with @DAY"),
    option("--run-id RUN", "the run, if the folder holds several"),
    option("--log-date DATE", "the log date, such as 2026-01-05", log_date),
    option(
        "--page FILE",
        "file for the page; default: JOB-RUN-DATE.html beside FOLDER, or beside the landing that holds it",
        Path,
    ),
    option("--open", "also open the page in a browser"),
    AS_JSON,
)
def main(args: Arguments) -> int:
    """Print how slow one run is, why, and the time that fixes save; write the run's page.

    Exits with 1 if the run cannot be replayed.
    """
    if args.page is not None and (args.page.is_dir() or not args.page.parent.is_dir()):
        raise click.UsageError(f"--page: {args.page} is not a file in an existing folder")
    with ThreadPoolExecutor(1) as beside:
        library = beside.submit(chart_library, cache_folder())
        run = _chosen(runs_in(args.folder), args)
        found = analysis(run)
        unit = found.unit
        check_known(run, found.read)
        name = re.sub(r"[^\w.-]+", "_", "-".join((unit.job_id, unit.run_id, str(unit.log_date))))[:200]
        beside_logs = args.folder.resolve()
        beside_logs = beside_logs if beside_logs.is_dir() else beside_logs.parent
        while "=" in beside_logs.name:  # up to the landing around the logs
            beside_logs = beside_logs.parent
        page = args.page or beside_logs.parent / f"{name}.html"
        if not args.format:
            say_fitting(*_answer(run, found))
            _write_causes(found)
            say_fitting(*_trust(found), *reject_texts(found.read))
        content = alone(job_page(found.tables, None), library.result())
    failure = ""
    try:
        page.write_bytes(content)
    except OSError as error:
        failure = f"{page}: {error.strerror}"
    if failure and args.page:
        complain(f"{called()}: error: --page: {failure}")
        return Exit.WRONG_SETTINGS
    if args.format:
        write(_for_programs(found, None if failure else page), args.format, sys.stdout)
    if failure:
        complain(f"{called()}: no page written ({failure}): --page names another place")
    elif not args.format:
        say("", f"Page: {page.resolve()}")
    if args.open and not failure:
        webbrowser.open(page.resolve().as_uri())
    return Exit.DONE if found.tables.workers else Exit.FAILED


def _for_programs(found: Analysis, page: Path | None) -> Result:
    """Return a run for `--format json`: job_slowdown's columns, causes, rejects, and the page's path."""
    (row,) = found.results[JOB_SLOWDOWN].to_pylist(maps_as_pydicts="strict")
    causes = [
        {name: value for name, value in each.items() if name not in UNIT_KEY} for each in found.tables.causes
    ]
    rejects = found.read.rejects.select(["source_file", "line", "reason", "detail"]).to_pylist()
    beside = {JOB_CAUSES: causes, REJECTS: rejects, "page": str(page.resolve()) if page else None}
    values = {**found.unit._asdict(), **row, **beside}
    return Result([*values], [[*values.values()]])


def _chosen(runs: Sequence[Run], args: Arguments) -> Run:
    """Return the run that the arguments select.

    Raises NoRunError unless exactly one run matches, and NoSuchUnitError if JOB/RUN@DAY in --job-id
    contradicts --run-id or --log-date.
    """
    asked = (args.log_date, args.job_id, args.run_id)
    if args.job_id and all(run.unit.job_id != args.job_id for run in runs):
        of = asked_one(args.job_id, args.run_id, args.log_date)
        asked = (of.first, of.job_id, of.run_id)
    fitting = [
        run
        for run in runs
        if (run.has_day or asked[0] is None)
        and all(want in (None, has) for want, has in zip(asked, run.unit, strict=True))
    ]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        for run in fitting[:_MOST_RUNS]:
            complain(_listed(run))
        if len(fitting) > _MOST_RUNS:
            complain(f"and {len(fitting) - _MOST_RUNS} more")
        how = "name the folder of one, or choose by --job-id, --run-id, --log-date"
        raise NoRunError(f"{len(fitting)} runs; {how}")
    if asked[0] and not any(run.has_day for run in runs):
        raise NoRunError("no folder here names a log date: omit --log-date or @DAY")
    for place, what in enumerate(("log date", "job", "run")):
        names = sorted({str(run.unit[place]) for run in runs})
        want = None if asked[place] is None else str(asked[place])
        if want is not None and want not in names:
            there = suggestion(want, names) if place else f"choose from {', '.join(names[:_MOST_RUNS])}"
            raise NoRunError(f"no {what} {want} among {wording.counted(len(runs), 'run')}: {there}")
    raise NoRunError(f"no such run among {len(runs)}; {', '.join(map(_listed, runs[:5]))}")


def _listed(run: Run) -> str:
    unit, day = run.unit, run.unit.log_date if run.has_day else "no date"
    files = wording.counted(len(run.files), "file")
    return f"{run.folder}: job {unit.job_id}, run {unit.run_id}, {day}, {files}"


def _answer(run: Run, found: Analysis) -> Iterator[str]:
    job, account = found.tables.job, found.read.account
    manifest = account.job or {}
    lines = sum(file.lines or 0 for file in account.files)
    day, job_id, run_id = found.unit
    is_known = run.has_day or recorded_day(found.read.rows) is not None
    counts = [wording.counted(len(run.files), "file"), *([wording.counted(lines, "line")] if lines else [])]
    when = f"{day}" if is_known else "day not known"
    yield f"job {job_id}, run {run_id}, {when}: {', '.join(counts)}, {account.ops:,} ops"
    if not run.has_day:
        who = "The folder names no log date" if is_known else "Neither the folder nor t0_us names a day"
        yield f"{who}: lines of all days are analysed."
    known = (manifest.get(name) or "unknown" for name in ("source_format", "transfers"))
    yield "Format {}; transfers between stages: {}".format(*known)
    yield ""
    yield loss.headline(job)
    yield from unread_files(found.read)
    yield from ignored_files(run, found)
    yield from other_day(run, found)
    yield from (f"Not used: {claim}" for claim in loss.not_used(job))
    if advice := Status(job["status"]).advice:
        yield f"What to do: {advice.format(again='analyse them again')}."
    yield from manifest_template(found)
    if job["launch_slowdown"] is not None:
        names = ("actual", "simulated", "ideal")
        recorded, replayed, ideal = (wording.seconds(job[f"{name}_step_s"]) for name in names)
        yield (
            "Against the paper's ideal, one duration per op type with slow ops in its mean: slowdown "
            f"{wording.ratio(job['slowdown'])} ({recorded} recorded, {replayed} replayed, {ideal} ideal)"
        )
    yield ""


def _write_causes(found: Analysis) -> None:
    """Print what is slow, the time lost to each cause, and the time that each fix alone saves."""
    causes = found.tables.causes
    if not causes:
        return
    listed = cause_list(found.tables)
    if listed.rows:
        say(listed.heading)
        fit(Result(listed.columns, listed.rows, listed.is_number), sys.stdout)
    else:
        say("No cause holds: no single fix saves enough of the step time.")
    if unexplained := loss.unexplained(causes, found.tables.job["steps"]):
        say_fitting(f"Unexplained: {unexplained}")
    say_fitting(
        *(f"Workers of {name} (stage / dp rank): {workers}" for name, workers in listed.workers.items())
    )
    say("")


def _trust(found: Analysis) -> Iterator[str]:
    job = found.tables.job
    if (section := effective_time(found.tables)) is not None:
        yield section.says
        yield ""
    yield "How far to trust it:"
    if found.tables.workers:
        for name, value, meaning in trust(job):
            yield f"  {name}: {value}" + (f" ({meaning})" if meaning else "")
    else:
        yield f"  status: {job['status']}" + (f": {job['status_detail']}" if job["status_detail"] else "")


if __name__ == "__main__":
    sys.exit(main())
