"""Parse the manifest fields with many values: `labels`, and `iterations`, the iteration of each step."""

import re
from itertools import islice
from typing import Final

from jobs.landing.formats.strict_json import NotANumber, is_integer, is_name, is_text, shown

MOST_LABELS: Final = 1000
MOST_LABEL_BYTES: Final = 64_000
"""Most bytes of all names and values together."""
_STEP: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
"""A step number as a key: every number has exactly one valid spelling."""
_LARGEST: Final = 2**63 - 1
_MOST_NAMED: Final = 20
"""Most wrong pairs that are named one by one."""


def labels_of(given: object) -> tuple[dict[str, str] | None, list[str]]:
    """Return the valid labels as text (None if there are too many), and one sentence for each defect.

    given : the JSON value; numbers and truth values in it are stored as JSON spells them
    """
    if not isinstance(given, dict):
        return None, [f"labels is {shown(given)}, not an object"]
    if len(given) > MOST_LABELS:
        return None, [f"labels are {len(given)}, more than {MOST_LABELS}"]
    texts: dict[str, str] = {}
    left, defects = MOST_LABEL_BYTES, []
    for name, value in given.items():
        is_number = isinstance(value, int | float) and not isinstance(value, NotANumber)
        is_label = value is None or is_number or is_name(value, MOST_LABEL_BYTES)
        if not is_text(name) or not is_label:
            defects.append(f"label {shown(name)} is {shown(value)}, not text")
        elif value is not None:
            text = value if isinstance(value, str) else shown(value)
            left -= len(name.encode()) + len(text.encode())
            if left < 0:
                return None, [f"labels have more than {MOST_LABEL_BYTES} bytes"]
            texts[name] = text
    return texts, defects


def iterations_of(given: object) -> tuple[dict[int, int] | None, list[str]]:
    """Return the iteration of each step (None if any is wrong), and one sentence for each defect.

    given : the JSON value; valid is an object of step numbers, each with an integer of at least 0
    """
    if not isinstance(given, dict):
        return None, [f"iterations is {shown(given)}, not an object"]
    defects = (
        f"iterations {shown(step)} is {shown(iteration)}, not a step number with an integer from 0"
        for step, iteration in given.items()
        if not (_STEP.fullmatch(step) and abs(int(step)) <= _LARGEST and is_integer(iteration, 0, _LARGEST))
    )
    wrong = list(islice(defects, _MOST_NAMED))
    if next(defects, None) is not None:
        wrong.append("and more iterations")
    return None if wrong else {int(step): iteration for step, iteration in given.items()}, wrong
