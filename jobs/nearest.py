"""Which of the names there are may be meant by one that there is not."""

import difflib
from collections.abc import Collection
from typing import Final

_LIKE: Final = 0.6
"""Similarity from which on a name is suggested: one typing error in short names, a few in long ones."""
_FEW: Final = 12
"""Up to so many names are all listed where none is like the one asked for."""


def suggestion(name: str, names: Collection[str]) -> str:
    """Return `did you mean x?`, or what there is where nothing is like the name."""
    by_lower = {each.lower(): each for each in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=_LIKE)
    if close:
        return f"did you mean {by_lower[close[0]]}?"
    inside = [each for low, each in by_lower.items() if name and (name.lower() in low or low in name.lower())]
    if inside and len(inside) <= _FEW:
        return f"did you mean {' or '.join(sorted(inside))}?"
    return f"there are {', '.join(names)}"
