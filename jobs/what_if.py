"""What if: replay one unit with a cause fixed, or with ops that match a predicate ideal or scaled.

`straggler what-if --job-id J --fix slow_worker` fixes this cause, as job_causes and the report do. `--fix
"op_type = 'forward-compute' AND pp_rank = 3"` gives these ops their ideal durations, or with `--set 0.9` 0.9
times their recorded durations. Nothing is written.
"""

import re
import sys
from dataclasses import astuple, fields
from math import fsum
from typing import Final

from jobs.entry_points.command import reader_entry_point
from jobs.reading.scenarios import read_fix, replay_fixes
from jobs.reading.unit import read_causes, unit_to_replay
from jobs.runtime.arguments import AS_LISTS, FORMAT, OF_UNIT, Arguments, not_negative_number, option
from jobs.runtime.plural import plural
from jobs.runtime.printing import Result, is_for_people, shown, write
from jobs.runtime.settings import Settings
from jobs.warehouse.reader import Reader
from schemas.vocabulary import FIXABLE_CAUSES
from udfs.custom_scenario import Answer, Answers
from udfs.scenario.op_columns import COLUMNS

_TRANSFER: Final = re.compile(r"\b(forward|backward)-(send|recv)\b")
_SAME: Final = 1e-3
"""Up to this relative difference, the sum of single savings counts as equal to the saving of all fixes."""


def _overlap(answers: Answers, factor: float | None) -> str:
    """Return a line that compares the saving of all fixes with the sum of single ones; empty for one fix."""
    *single, together = answers.answers
    if not single:
        return ""
    alone_s = fsum(each.time_saved_s for each in single)
    said = f"{together.scenario}: {shown(together.time_saved_s)} s saved"
    if abs(alone_s - together.time_saved_s) <= _SAME * abs(alone_s):
        return f"{said}, as much as the sum of each alone\n"
    if together.ops is None:  # the scenario of all causes, including those not requested
        return (
            f"{said}, including those not requested; those requested save {shown(alone_s)} s in sum, each "
            "alone\n"
        )
    said += f", where each alone saves {shown(alone_s)} s in sum: "
    if together.time_saved_s > alone_s:
        return f"{said}slowness that one fix leaves hides the saving of another\n"
    said += "a saving of one fix cannot be saved again by another"
    both = sum(each.ops or 0 for each in single) - (together.ops or 0)
    said += f" (in more than one: {plural(both, 'op')})" if both else ""
    said += "" if factor is not None else "; ideal lengthens ops that are faster than usual for their type"
    return f"{said}\n"


def _one_end(answers: Answers) -> str:
    """Return a line that says to fix both ends of a transfer, if a fix names only one; else empty."""
    named = {end for each in answers.answers for end in _TRANSFER.findall(each.scenario)}
    for direction, end in sorted(named):
        other = "recv" if end == "send" else "send"
        if (direction, other) not in named:
            return (
                f"{direction}-{end} and {direction}-{other} are the ends of one transfer, which takes as "
                "long as the longer: name both\n"
            )
    return ""


@reader_entry_point(
    "what_if",
    *OF_UNIT,
    option(
        "--fix CAUSE|PREDICATE",
        f"a cause ({', '.join(FIXABLE_CAUSES)}), or an SQL condition on ops over {', '.join(COLUMNS)}; given "
        "again: one more scenario, and a scenario of all together",
        read_fix,
        multiple=True,
        required=True,
    ),
    option(
        "--set FACTOR",
        "let these ops take FACTOR times their own duration instead of the ideal",
        not_negative_number,
        dest="factor",
    ),
    FORMAT,
    AS_LISTS,
)
def main(reader: Reader, settings: Settings, args: Arguments) -> None:
    """Replay one unit with a cause fixed, or with some ops ideal or scaled and all other ops as recorded."""
    with unit_to_replay("what_if", reader, args) as (unit, rank_steps, manifest):
        stored = read_causes(reader, unit)
        found = replay_fixes(rank_steps, manifest, args.fix, args.factor, settings.simulation, stored)
    # Programs that read csv, json or tab get only rows on standard output.
    out, first = sys.stdout if is_for_people(args.format, sys.stdout) else sys.stderr, found[0]
    out.write(
        f"{unit.words}: {plural(first.steps, 'step')}, {plural(first.ops, 'op')}\n"
        f"step time: {shown(first.actual_step_s)} s recorded (T_actual), "
        f"{shown(first.simulated_step_s)} s replayed (T), {shown(first.ideal_step_s)} s ideal (T_ideal, "
        f"{first.ideal}); slowdown {shown(first.slowdown)}\n"
        "slowdown: step time / ideal; a fix can go below 1, because slow ops count in the ideal\n"
    )
    out.write("".join(_overlap(each, args.factor) + _one_end(each) for each in found))
    change = "ideal" if args.factor is None else f"x {args.factor:g}"
    rows = [
        (answer.scenario, "fixed" if answer.ops is None else change, *astuple(answer)[1:])
        for each in found
        for answer in each.answers
    ]
    scenario, *figures = (field.name for field in fields(Answer))
    write(Result((scenario, "change", *figures), rows), args.format, sys.stdout, as_lists=args.as_lists)


if __name__ == "__main__":
    sys.exit(main())
