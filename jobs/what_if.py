"""What if: a cause or a custom scenario of one unit, read from the warehouse and answered at once.

`straggler what-if --job-id J --fix slow_worker`: this cause fixed, as in job_causes and the report.
`--fix "op_type = 'forward-compute' AND pp_rank = 3"`: these ops ideal; with `--set 0.9` each takes 0.9 times
as long. Nothing is written.
"""

import sys
from collections.abc import Sequence
from dataclasses import astuple, fields
from typing import Final

from jobs.reading.command import reader_entry_point
from jobs.reading.printing import FORMATS, Result, shown, write
from jobs.reading.reader import Reader
from jobs.reading.unit import unit_to_replay
from jobs.runtime.arguments import FORMAT, OF_UNIT, Arguments, called, not_negative_number, option
from jobs.runtime.nearest import suggestion
from jobs.runtime.settings import Settings, SettingsError
from schemas.unit import Unit
from schemas.vocabulary import CAUSE_UNEXPLAINED, CAUSES
from udfs.custom_scenario import Answer, Answers, replay_causes, replay_scenarios
from udfs.errors import PredicateError
from udfs.scenario.op_columns import COLUMNS
from udfs.scenario.op_predicate import OpPredicate, parse_predicate
from udfs.what_if import SimulationSettings

FIXABLE: Final = tuple(cause for cause in CAUSES if cause != CAUSE_UNEXPLAINED)
"""Causes that have a fix to replay."""
_TEXT_COLUMNS: Final = 2
"""Text columns of the answer: scenario and change; all others are numbers."""


def _heading(unit: Unit, answers: Answers) -> str:
    """What the answers are measured against, on three lines."""
    return (
        f"{unit.job_id}, run {unit.run_id}, {unit.log_date}: {answers.steps} steps, {answers.ops:,} ops\n"
        f"step time: {shown(answers.actual_step_s)} s recorded (T_actual), "
        f"{shown(answers.simulated_step_s)} s replayed (T), {shown(answers.ideal_step_s)} s ideal (T_ideal, "
        f"{answers.ideal}); slowdown {shown(answers.slowdown)}\n"
        "slowdown: step time / ideal; a fix can go below 1, because slow ops count in the ideal\n"
    )


def _result(answers: Sequence[Answer], factor: float | None) -> Result:
    """One row per answer."""
    scenario, *figures = (field.name for field in fields(Answer))
    change = "ideal" if factor is None else f"x {factor:g}"
    rows = [(each.scenario, "fixed" if each.ops is None else change, *astuple(each)[1:]) for each in answers]
    columns = (scenario, "change", *figures)
    return Result(columns, [place >= _TEXT_COLUMNS for place in range(len(columns))], rows)


def _fix(text: str) -> OpPredicate | str:
    """A predicate over ops, or the name of a cause."""
    if text in FIXABLE:
        return text
    try:
        return parse_predicate(text)
    except PredicateError as error:
        if text.replace("-", "_").isidentifier():  # one word: a cause was meant, no condition
            raise ValueError(f"{text} is no cause and no condition: {suggestion(text, FIXABLE)}") from None
        raise ValueError(str(error)) from None


@reader_entry_point(
    "what_if",
    *OF_UNIT,
    option(
        "--fix CAUSE|PREDICATE",
        f"a cause ({', '.join(FIXABLE)}), or which ops, as SQL over {', '.join(COLUMNS)}; given again: "
        "another scenario, and all these ops together",
        _fix,
        multiple=True,
        required=True,
    ),
    option(
        "--set FACTOR",
        "these ops take FACTOR times as long, instead of the ideal",
        not_negative_number,
        dest="factor",
    ),
    FORMAT,
)
def main(reader: Reader, settings: Settings, args: Arguments) -> None:
    """Replay one unit with a cause fixed, or some of its ops ideal or scaled, and all others as recorded."""
    causes = [each for each in args.fix if isinstance(each, str)]
    predicates = [each for each in args.fix if not isinstance(each, str)]
    if causes and args.factor is not None:
        raise SettingsError(f"--set: scales the ops of a predicate, and {causes[0]} is a cause")
    how = settings.simulation
    found = []
    with unit_to_replay("what_if", reader, args) as (unit, rank_steps, manifest):
        if causes:
            found.append(replay_causes(rank_steps, manifest, causes, SimulationSettings(**how.model_dump())))
        if predicates:
            found.append(
                replay_scenarios(rank_steps, manifest, predicates, args.factor, how.ideal, how.ops_together)
            )
    # A program that reads csv or json finds only rows on standard output.
    (sys.stdout if args.format == FORMATS[0] else sys.stderr).write(_heading(unit, found[0]))
    answers = [answer for each in found for answer in each.answers]
    write(_result(answers, args.factor), args.format, sys.stdout)
    for each in answers:
        if each.ops == 0:
            sys.stderr.write(f"{called()}: no op of this unit is chosen by: {each.scenario}\n")


if __name__ == "__main__":
    sys.exit(main())
