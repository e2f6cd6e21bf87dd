"""Search for misspelt fields of a job.json: unknown fields whose names resemble those of missing fields."""

from collections.abc import Collection, Iterable, Iterator
from difflib import get_close_matches
from itertools import islice
from typing import Final

from jobs.landing.formats.rows import plain
from jobs.landing.formats.strict_json import shown
from jobs.runtime.plural import plural
from schemas.ingested_tables import JOBS
from schemas.vocabulary import UNIT_KEY

_KNOWN: Final = frozenset(("dsp_size", *UNIT_KEY, *JOBS.value_schema.names))
_MOST_UNKNOWN: Final = 1000
"""Most unknown names that are compared with known ones."""
_MOST_NAMED: Final = 20
_LIKE_A_MISSING: Final = 0.85
"""Least similarity to the name of a missing required field; with less, one size would pass for another."""
_LIKE: Final = 0.9
"""Least similarity to the name of a missing optional field. It is higher, because producers have fields of
their own: mp_size has a similarity of 0.86 to ep_size."""


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
