"""What if: replay one unit with a cause fixed, or with ops that match a predicate ideal or scaled.

`straggler what-if --job-id J --fix slow_worker`: this cause fixed, as in job_causes and the report.
`--fix "op_type = 'forward-compute' AND pp_rank = 3"`: these ops ideal; with `--set 0.9` each takes 0.9 times
as long. Nothing is written.
"""

import re
import sys
from collections.abc import Sequence
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
from schemas.unit import Unit
from schemas.vocabulary import FIXABLE_CAUSES
from udfs.custom_scenario import Answer, Answers
from udfs.scenario.op_columns import COLUMNS

_TRANSFER: Final = re.compile(r"\b(forward|backward)-(send|recv)\b")
_SAME: Final = 1e-3
"""Part by which a sum may differ from what all save together without a remark."""


def _heading(unit: Unit, answers: Answers) -> str:
    """Return three lines with the baseline that the answers are compared with."""
    return (
        f"{unit.words}: {plural(answers.steps, 'step')}, {plural(answers.ops, 'op')}\n"
        f"step time: {shown(answers.actual_step_s)} s recorded (T_actual), "
        f"{shown(answers.simulated_step_s)} s replayed (T), {shown(answers.ideal_step_s)} s ideal (T_ideal, "
        f"{answers.ideal}); slowdown {shown(answers.slowdown)}\n"
        "slowdown: step time / ideal; a fix can go below 1, because slow ops count in the ideal\n"
    )


def _overlap(answers: Answers, factor: float | None) -> str:
    """Compare the saving of several fixes together with the sum of each alone; empty for a single fix."""
    *single, together = answers.answers
    if not single:
        return ""
    alone_s = fsum(each.time_saved_s for each in single)
    said = f"{together.scenario}: {shown(together.time_saved_s)} s saved"
    if abs(alone_s - together.time_saved_s) <= _SAME * abs(alone_s):
        return f"{said}, as much as the sum of each alone\n"
    if together.ops is None:  # all causes, also those not asked for
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
    """Note that a transfer has two ends, if only one of them is fixed; empty otherwise."""
    named = {end for each in answers.answers for end in _TRANSFER.findall(each.scenario)}
    for direction, end in sorted(named):
        other = "recv" if end == "send" else "send"
        if (direction, other) not in named:
            return (
                f"{direction}-{end} and {direction}-{other} are the ends of one transfer, which takes as "
                "long as the longer: name both\n"
            )
    return ""


def _result(answers: Sequence[Answer], factor: float | None) -> Result:
    """Return a table of answers, one row each."""
    scenario, *figures = (field.name for field in fields(Answer))
    change = "ideal" if factor is None else f"x {factor:g}"
    rows = [(each.scenario, "fixed" if each.ops is None else change, *astuple(each)[1:]) for each in answers]
    columns = (scenario, "change", *figures)
    return Result(columns, rows)


@reader_entry_point(
    "what_if",
    *OF_UNIT,
    option(
        "--fix CAUSE|PREDICATE",
        f"a cause ({', '.join(FIXABLE_CAUSES)}), or which ops, as SQL over {', '.join(COLUMNS)}; given "
        "again: another scenario, and all these ops together",
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
    # A program that reads csv, json or tabs finds only rows on standard output.
    about = _heading(unit, found[0]) + "".join(_overlap(each, args.factor) + _one_end(each) for each in found)
    (sys.stdout if is_for_people(args.format, sys.stdout) else sys.stderr).write(about)
    result = _result([answer for each in found for answer in each.answers], args.factor)
    write(result, args.format, sys.stdout, as_lists=args.as_lists)


if __name__ == "__main__":
    sys.exit(main())
