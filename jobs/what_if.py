"""What if: a custom scenario of one unit, read from the warehouse and answered at once.

`python -m jobs.what_if --job-id J --fix "op_type = 'forward-compute' AND pp_rank = 3"`: these ops ideal; with
`--set 0.9` each takes 0.9 times as long as it did. Nothing is written.
"""

import sys
from dataclasses import astuple, fields
from typing import Final

from jobs.arguments import FORMAT, OF_UNIT, Arguments, not_negative_number, option
from jobs.printing import FORMATS, Result, shown, write
from jobs.reading.command import reader_entry_point
from jobs.reading.reader import Reader
from jobs.reading.unit import unit_to_replay
from jobs.settings import Settings
from schemas.unit import Unit
from udfs.custom_scenario import Answer, Answers, replay_scenarios
from udfs.errors import PredicateError
from udfs.op_columns import COLUMNS
from udfs.op_predicate import OpPredicate, parse_predicate

_TEXT_COLUMNS: Final = 2
"""Of the answer: scenario and change; all others are numbers."""


def _heading(unit: Unit, answers: Answers) -> str:
    """What the answers are measured against, on two lines."""
    return (
        f"{unit.job_id}, run {unit.run_id}, {unit.log_date}: {answers.steps} steps, {answers.ops:,} ops\n"
        f"step time: {shown(answers.actual_step_s)} s recorded (T_actual), "
        f"{shown(answers.simulated_step_s)} s replayed (T), {shown(answers.ideal_step_s)} s ideal (T_ideal, "
        f"{answers.ideal}); slowdown {shown(answers.slowdown)}\n"
    )


def _result(answers: Answers, factor: float | None) -> Result:
    """One row per answer."""
    scenario, *figures = (field.name for field in fields(Answer))
    change = "ideal" if factor is None else f"x {factor:g}"
    rows = [(each.scenario, change, *astuple(each)[1:]) for each in answers.answers]
    columns = (scenario, "change", *figures)
    return Result(columns, [place >= _TEXT_COLUMNS for place in range(len(columns))], rows)


def _predicate(text: str) -> OpPredicate:
    try:
        return parse_predicate(text)
    except PredicateError as error:
        raise ValueError(str(error)) from None


@reader_entry_point(
    "what_if",
    *OF_UNIT,
    option(
        "--fix PREDICATE",
        f"which ops, as SQL over {', '.join(COLUMNS)}; given again: another scenario, and all together",
        _predicate,
        multiple=True,
        required=True,
    ),
    option(
        "--set FACTOR",
        "these ops take FACTOR times as long as they did, instead of the ideal",
        not_negative_number,
        dest="factor",
    ),
    FORMAT,
)
def main(reader: Reader, settings: Settings, args: Arguments) -> None:
    """Replay one unit with some of its ops ideal, or scaled, and all others as recorded."""
    with unit_to_replay("what_if", reader, args) as (unit, rank_steps, manifest):
        how = settings.simulation
        answers = replay_scenarios(rank_steps, manifest, args.fix, args.factor, how.ideal, how.ops_together)
    # A program that reads csv or json finds nothing but rows on standard output.
    (sys.stdout if args.format == FORMATS[0] else sys.stderr).write(_heading(unit, answers))
    write(_result(answers, args.factor), args.format, sys.stdout)
    for each in answers.answers:
        if not each.ops:
            sys.stderr.write(f"what_if: no op of this unit is chosen by: {each.scenario}\n")


if __name__ == "__main__":
    sys.exit(main())
