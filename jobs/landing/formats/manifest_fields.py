"""Check manifest fields with many values, `labels` and `iterations` of steps, and find misspelt fields."""

import re
from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Final

from jobs.landing.formats.rows import plain
from jobs.landing.formats.strict_json import NotANumber, is_integer, is_name, is_text, shown
from jobs.runtime.plural import plural
from schemas.ingested_tables import JOBS
from schemas.vocabulary import UNIT_KEY

MOST_LABELS: Final = 1000
MOST_LABEL_BYTES: Final = 64_000
"""Most bytes of all names and values together."""
_STEP: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
"""A step number as a key: every number has exactly one valid spelling."""
_LARGEST: Final = 2**63 - 1
_MOST_NAMED: Final = 20
"""Most wrong values, and most misspelt fields, that are named one by one."""

_KNOWN: Final = frozenset(("dsp_size", *UNIT_KEY, *JOBS.value_schema.names))
_MOST_UNKNOWN: Final = 1000
"""Most unknown names that are compared with known ones."""
_LIKE_A_MISSING: Final = 0.85
"""Least similarity to the name of a missing required field; with less, one size would pass for another."""
_LIKE: Final = 0.9
"""Least similarity to the name of a missing optional field. It is higher, because producers have fields of
their own: mp_size has a similarity of 0.86 to ep_size."""


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


def meant_for(name: str, fields: Iterable[str]) -> str | None:
    """Return the unknown field that resembles a missing field; None if no unknown field resembles it."""
    return next(iter(get_close_matches(name, [*_unknown(fields)], n=1, cutoff=_LIKE_A_MISSING)), None)


def misspelt(fields: Iterable[str], absent: Collection[str]) -> list[str]:
    """Return one sentence for each unknown field whose name resembles one of the absent fields.

    fields : names in the manifest; unknown ones that resemble no absent field are ignored
    """
    by_letters = {_letters(each): each for each in absent}
    near = {
        each: get_close_matches(_letters(each), by_letters, n=1, cutoff=_LIKE) for each in _unknown(fields)
    }
    said = [
        plain(f"{shown(each)} is not a field of job.json: did you mean {by_letters[meant[0]]}?")
        for each, meant in near.items()
        if meant
    ]
    more = len(said) - _MOST_NAMED
    return said if more <= 0 else [*said[:_MOST_NAMED], f"and {plural(more, 'more such field')}"]


def _unknown(fields: Iterable[str]) -> Iterator[str]:
    return islice((each for each in fields if each not in _KNOWN), _MOST_UNKNOWN)


def _letters(name: str) -> str:
    """Return a name without separators, because gpuHours, gpu-hours and gpu_hours mean the same field."""
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")
