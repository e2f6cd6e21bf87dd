"""What-if of one unit, for the command and notebooks: replays with a cause or some ops fixed."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.reading.unit import StoredCauses
from jobs.runtime.nearest import close_match, suggestion
from jobs.runtime.settings_sections import SimulationSettings
from jobs.warehouse.reader import QuestionError
from schemas.vocabulary import FIXABLE_CAUSES, OP_TYPES
from udfs import what_if
from udfs.custom_scenario import Answers, cause_answers, replay_causes, replay_scenarios
from udfs.errors import PredicateError
from udfs.scenario.op_columns import TEXT_COLUMNS
from udfs.scenario.op_predicate import OpPredicate, parse_predicate

_FEW: Final = 12
"""Most hosts or op types of a unit that an error lists; of more, it gives the number."""
_TEXT: Final = re.compile(r"'((?:[^']|'')*)'")

Fix = OpPredicate | str
"""A predicate over ops, or the name of a cause."""


def read_fix(text: str) -> Fix:
    """Return the name of a cause unchanged, or parse a predicate. Raises PredicateError for other texts."""
    if text in FIXABLE_CAUSES:
        return text
    try:
        return parse_predicate(text)
    except PredicateError:
        if not text.replace("-", "_").isidentifier():
            raise
        # A text of a single word was meant as a cause, not as a condition.
        message = f"{text} is neither a cause nor a condition: {suggestion(text, FIXABLE_CAUSES)}"
        raise PredicateError(message) from None


def replay_fixes(
    rank_steps: pa.Table,
    manifest: Mapping[str, object],
    fixes: Sequence[Fix],
    factor: float | None,
    how: SimulationSettings,
    stored: StoredCauses | None,
) -> list[Answers]:
    """Replay a unit with each cause fixed, and with the ops of each predicate made ideal or scaled.

    rank_steps, manifest, factor : as udfs.custom_scenario.replay_scenarios takes them
    stored : the unit's results in the warehouse; they answer for causes, because a night may have revised
             them by other days and jobs. None: replay the causes
    Raises QuestionError for a factor beside a cause and for a predicate that no op matches, and the errors of
    replay_scenarios.
    """
    causes = [each for each in fixes if isinstance(each, str)]
    predicates = [each for each in fixes if not isinstance(each, str)]
    if causes and factor is not None:
        raise QuestionError(f"--set (factor) scales the ops of a predicate, but {causes[0]} is a cause")
    found = []
    settings = what_if.SimulationSettings(**how.model_dump())
    if causes and stored is not None:
        found.append(cause_answers(*stored, causes))
    elif causes:
        found.append(replay_causes(rank_steps, manifest, causes, settings))
    if predicates:
        found.append(replay_scenarios(rank_steps, manifest, predicates, factor, settings))
        by_text = {each.text: each for each in predicates}
        for answer in found[-1].answers:
            if not answer.ops and answer.scenario in by_text:
                has = "; ".join(_has(by_text[answer.scenario], rank_steps))
                raise QuestionError(f"no op of this unit matches {answer.scenario}" + (has and f": {has}"))
    return found


def _has(predicate: OpPredicate, rank_steps: pa.Table) -> Iterator[str]:
    """Yield the values that a unit has in a predicate's columns, for a predicate that matches no op."""
    texts = [text.replace("''", "'") for text in _TEXT.findall(predicate.sql)]
    for name in predicate.names:
        column = rank_steps["op" if name == "op_type" else name]
        values = pc.list_flatten(column) if pa.types.is_list(column.type) else column
        found = sorted(each for each in pc.unique(values).to_pylist() if each is not None)
        if name in TEXT_COLUMNS:
            known = [OP_TYPES[code] for code in found] if name == "op_type" else found
            for text in texts:
                if text not in known and (name == "op_type") == (text in OP_TYPES):
                    others = ", ".join(known) or "none" if len(known) <= _FEW else f"{len(known):,} others"
                    yield f"no {name} {text}: {close_match(text, known) or f'it has {others}'}"
        elif numbers := [each for each in found if each >= 0]:  # -1: ops that have no such number
            yield f"its {name} is {numbers[0]} to {numbers[-1]}"
