"""Diff: explain why run B is slower than run A; a run is a folder of logs, or units of the warehouse.

`straggler diff RUN_A RUN_B` prints how much longer a step of B takes, and how much of that each cause, op
type, stage, host and exposed communication accounts for. `straggler diff JOB --date DAY` compares the days
before DAY with those from DAY on. With `--fail-above 3%`, for CI, the exit status is 4 if B is more than 3 %
slower. Only `--page FILE` writes a file.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, astuple, fields
from pathlib import Path
from typing import ClassVar, Final

import click

from jobs.entry_points.command import ENGINE, reader_of, settings_entry_point
from jobs.reading.difference import CONFIDENCE, ORDER, SAME, SMALLEST, TOO_FEW, Found, Part, find
from jobs.reading.side import Side
from jobs.reading.sides import Sources, around, by_ops, folder_side, warehouse_side
from jobs.reading.unit import Asked, asked
from jobs.reading.usual_step import slowest, usual_step
from jobs.report import wording
from jobs.report.diff_page import Step, diff_page
from jobs.runtime.arguments import AS_LISTS, FORMAT, Arguments, log_date, option, positive, probability
from jobs.runtime.errors import PlainError
from jobs.runtime.printing import Result, is_for_people, write
from jobs.runtime.progress import working
from jobs.runtime.settings import Settings, write_named
from jobs.runtime.terminal import say
from jobs.warehouse.reader import QuestionError, Reader
from schemas.vocabulary import Exit
from udfs.errors import NothingToReplayError, TraceError
from udfs.kernel.replay.other_times import Match
from udfs.what_if import SimulationSettings

WINDOW_DAYS: Final = 7
_SHOWN: Final = 0.02
"""A table for people leaves out parts below this share of the difference; other formats have all parts."""


class SlowerError(PlainError):
    """Raised when run B is slower than --fail-above allows."""

    exit_status: ClassVar[int] = Exit.SLOWER


def run(a: Sources, b: Sources, confidence: float) -> tuple[Found, list[str]]:
    """Return the difference of two runs' step times, in parts, and sentences on limits of the comparison."""
    divided, why_not = by_ops(a, b)
    notes = [*a.left_out, *b.left_out]
    if divided is None:
        notes.append(f"Not divided by op type, stage and host: {why_not}")
    elif divided.match is not Match.WORKERS:
        notes.append(f"The layouts differ: times of ops are compared by {divided.match.value}; see {ORDER!r}")
    for name, what in (("simulator_version", "versions of the simulator"), ("world_size", "numbers of GPUs")):
        values = [sorted({str(day.job[name]) for day in side.days}) for side in (a.side, b.side)]
        if values[0] != values[1]:
            notes.append(f"Different {what}: {', '.join(values[0])} and {', '.join(values[1])}")
    notes += [*course("A", a.side), *course("B", b.side)]
    return find(a.side, b.side, confidence, divided), notes


def course(letter: str, side: Side) -> Iterator[str]:
    """Yield a sentence if a run's step time drifted or changed over its steps or days; otherwise nothing."""
    noise = side.noise()
    if noise is None or len(noise.levels) == 1:
        return
    (_, first_s), *others = noise.levels
    if noise.is_drift:
        then = f"{wording.seconds(others[-1][1])} in its last: it drifts"
        course = f"{wording.seconds(first_s)} a step in its first third, and {then}"
    else:
        what, count = ("day", len(side.days)) if side.is_by_day else ("recorded step", side.steps)
        later = [f"{wording.seconds(level_s)} from {what} {at + 1} on" for at, level_s in others]
        course = f"{wording.seconds(first_s)} a step, then {', then '.join(later)}, of {count}"
    yield f"{letter} takes {course}. The interval takes these changes into account."


def says(found: Found) -> str:
    """Return a sentence with the verdict, both step times, their relative difference and its interval."""
    interval = ""
    if found.reach_s:
        low, high = ((found.difference_s + sign * found.reach_s) / found.a.step_s for sign in (-1, 1))
        interval = f" (between {100 * low:+.2f} % and {100 * high:+.2f} %)"
    step = f"a step takes {wording.seconds(found.b.step_s)} instead of {wording.seconds(found.a.step_s)}"
    share = f"{'+' if found.relative > 0 else ''}{wording.percent(found.relative)}{interval}"
    return f"B against A: {found.verdict}: {step}, {share}"


def page(found: Found, notes: Sequence[str], a: Sources, b: Sources) -> bytes:
    """Return the comparison as HTML, with a step of each run drawn if both runs can be replayed."""
    steps: list[Step] = []
    try:
        read = [each.ops[-1]() for each in (a, b)] if found.a.is_replayed and found.b.is_replayed else []
        drawn = slowest(read[-1]) if read else None
        for sources, ops in zip((a, b), read, strict=False):
            steps.append(usual_step(ops, sources.side.days[-1].unit.words, drawn))
    except (NothingToReplayError, TraceError):
        steps = []
    return diff_page(says(found), notes, [asdict(part) for part in found.parts], steps)


def _of_side(side: Side) -> dict[str, object]:
    units = [dict(zip(day.unit._fields, map(str, day.unit), strict=True)) for day in side.days]
    return {"name": side.name, "units": units, "steps": side.steps, "step_s": side.step_s}


def _print(found: Found, notes: list[str], args: Arguments) -> None:
    """Print the comparison: as one JSON object, or as sentences and a table of parts.

    With csv and tab, the sentences go to standard error, so that programs read only the table.
    """
    if args.format == "json":
        answer = {
            "a": _of_side(found.a),
            "b": _of_side(found.b),
            "difference_s": found.difference_s,
            "relative": found.relative,
            "reach_s": found.reach_s,
            "confidence": args.confidence,
            "verdict": found.verdict,
            "notes": notes,
            "parts": [asdict(part) for part in found.parts],
        }
        say(*json.dumps(answer, indent=1, allow_nan=False).splitlines())
        return
    is_table = is_for_people(args.format, sys.stdout)
    beside = sys.stdout if is_table else sys.stderr
    sides = zip("AB", (found.a, found.b), strict=True)
    lines = [f"{letter}: {side.name}, {wording.counted(side.steps, 'step')}" for letter, side in sides]
    beside.write("\n".join([*lines, says(found), *notes]) + "\n")
    least_s = 0.0
    if is_table:
        is_same = found.verdict == SAME
        least_s = SMALLEST * found.a.step_s if is_same else _SHOWN * abs(found.difference_s)
    parts = [each for each in found.parts if each.of == each.part or abs(each.difference_s) >= least_s]
    write(
        Result([each.name for each in fields(Part)], [astuple(part) for part in parts]),
        args.format,
        sys.stdout,
        as_lists=args.as_lists,
    )


def limit(text: str) -> float:
    """Parse a share such as 3% or 0.03. Raises ValueError for other texts."""
    number = text.removesuffix("%").strip()
    try:
        value = float(number) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise ValueError(f"{text!r} is not a share such as 3% or 0.03")
    return value


def _asked(args: Arguments) -> tuple[str | Asked, str | Asked]:
    """Return both sides: each a path that exists, or else the units of the warehouse that the text names."""
    if (args.b is None) == (args.date is None):
        raise click.UsageError("give either B, or --date for before and after it")
    try:
        if args.date is not None:
            return around(args.a, args.date, args.days)
        a, b = (text if Path(text).exists() else asked(text) for text in (args.a, args.b))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return a, b


@settings_entry_point(
    "diff",
    ENGINE,
    option("a A", "a folder of logs, or JOB or JOB/RUN in the warehouse, optionally with @DAY or @DAY..DAY"),
    option("b B", "run to compare with A, named in the same way", required=False),
    option(
        "--date DATE", "instead of B: compare A before this day and from it on, such as 2026-01-05", log_date
    ),
    option("--days N", "number of days on each side of --date", positive, default=WINDOW_DAYS),
    option("--fail-above SHARE", "exit with status 4 if B is slower by more than this, such as 3%", limit),
    option("--page FILE", "also write a page with one step of each run, one above the other", Path),
    option("--confidence P", "confidence level of the interval", probability, default=CONFIDENCE),
    FORMAT,
    AS_LISTS,
)
def main(settings: Settings, args: Arguments) -> None:
    """Print how much slower run B is than run A, and which causes, op types, stages and hosts make it so."""
    with ExitStack() as stack:
        readers: list[Reader] = []
        how = SimulationSettings(**settings.simulation.model_dump())

        def source(of: str | Asked) -> Sources:
            if isinstance(of, str):
                return folder_side(of)
            if not readers:
                try:
                    readers.append(stack.enter_context(reader_of(settings, "diff", args.engine)))
                except QuestionError as error:
                    raise QuestionError(f"{of.text} is neither a folder nor a run: {error}") from None
            return warehouse_side(readers[0], of, how)

        with working("diff: reading both sides"):
            a, b = (source(each) for each in _asked(args))
            found, notes = run(a, b, args.confidence)
            if args.date is not None:
                job_id = a.side.days[0].unit.job_id
                notes.append(f"Days on which causes came or went: straggler changes --job-id {job_id}")
            if args.page is not None:
                write_named("--page", args.page, page(found, notes, a, b))
    _print(found, notes, args)
    if args.fail_above is not None and found.exceeds(args.fail_above):
        unsure = f" ({TOO_FEW}: by the means alone)" if found.verdict == TOO_FEW else ""
        raise SlowerError(
            f"B is slower than A by {wording.percent(found.relative)}, more than "
            f"{wording.percent(args.fail_above)}{unsure}"
        )


if __name__ == "__main__":
    sys.exit(main())
