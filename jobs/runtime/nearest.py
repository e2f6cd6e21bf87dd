"""Suggestions of the closest existing name for an unknown name."""

import difflib
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

_LIKE: Final = 0.6
"""Least similarity of a suggestion: one typing error in short names, a few in long ones."""
_FEW: Final = 12
"""If no name is close, all names are listed, up to this number of names."""
_MOST: Final = 10
"""Number of names listed, the most similar ones, if there are more than _FEW."""


def suggestion(name: str, names: Collection[str], others: str = "") -> str:
    """Return `did you mean x?`; if no name is close, list all names, or some and the number of others.

    others : command that lists all names
    """
    if close := close_match(name, names):
        return close
    if len(names) <= _FEW:
        return f"choose from {', '.join(names)}"
    by_lower = {each.lower(): each for each in names}
    nearest = difflib.get_close_matches(name.lower(), by_lower, n=_MOST, cutoff=0.0)
    listed = ", ".join(by_lower[each] for each in nearest)
    return f"choose from {listed} and {len(by_lower) - len(nearest)} more{others and f' ({others})'}"


def missing_folder(path: str) -> str:
    """Describe how far a path exists, and suggest the closest name for its next folder.

    For example: `/data/landng does not exist: did you mean landing?`
    """
    parts = Path(path)
    if parts.exists():
        return f"{path} is not a folder"
    missing = next(each for each in (*reversed(parts.parents), parts) if not each.exists())
    beside: list[str] = []
    with suppress(OSError):
        beside = [each.name for each in missing.parent.iterdir() if each.is_dir()]
    end = "" if missing == parts else f", because {missing} does not"
    close = close_match(missing.name, beside)
    hint = (
        f": {close}"
        if close
        else f": {missing.parent} has {', '.join(sorted(beside))}" * (len(beside) <= _FEW)
    )
    return f"{path} does not exist{end}{hint}"


def close_match(name: str, names: Collection[str]) -> str:
    """Return `did you mean x?`; empty if no name is close.

    If no name is similar, those are close that contain `name`, or that make up more than half of it.
    """
    by_lower = {each.lower(): each for each in names}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=_LIKE)
    if close:
        return f"did you mean {by_lower[close[0]]}?"
    wanted = name.lower()
    inside = [
        each
        for low, each in by_lower.items()
        if wanted and (wanted in low or (low in wanted and 2 * len(low) > len(wanted)))
    ]
    return f"did you mean {' or '.join(sorted(inside))}?" if 0 < len(inside) <= _FEW else ""
