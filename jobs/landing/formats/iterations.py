"""Parse the manifest field `iterations`: the iteration of a whole that each step belongs to."""

import re
from itertools import islice
from typing import Final

from jobs.landing.formats.strict_json import is_integer, shown

_STEP: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
"""How a key spells a step number: one way for each."""
_LARGEST: Final = 2**63 - 1
_MOST_NAMED: Final = 20
"""Most wrong pairs that are named one by one."""


def iterations_of(given: object) -> tuple[dict[int, int], list[str]]:
    """Return the iteration of each step, and one sentence for each defect.

    given : as JSON has it; good is an object of step numbers, each with an integer from 0
    """
    if not isinstance(given, dict):
        return {}, [f"iterations is {shown(given)}, not an object"]
    pairs = (each for each in given.items() if not (_is_step(each[0]) and is_integer(each[1], 0, _LARGEST)))
    wrong = [
        f"iterations {shown(step)} is {shown(iteration)}, not a step number with an integer from 0"
        for step, iteration in islice(pairs, _MOST_NAMED)
    ]
    if next(pairs, None) is not None:
        wrong.append("and more iterations")
    return {} if wrong else {int(step): iteration for step, iteration in given.items()}, wrong


def _is_step(text: str) -> bool:
    return _STEP.fullmatch(text) is not None and abs(int(text)) <= _LARGEST
