"""Replies of the tools: one short JSON object, safe whatever names the logs contain."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jobs.runtime.printing import shown

MOST_CHARACTERS: Final = 8_000
"""Longest reply: what an agent reads costs it attention."""

_MOST_TEXT: Final = 400
"""Longest text of one value."""

_MOST_LISTED: Final = 5
"""Most entries of a list within a row."""

_ROOM: Final = 400
"""Characters kept for what says how much was left out."""


def reply(rows: Sequence[Mapping[str, Any]], *, first: int = 0, **about: object) -> str:
    """Return the facts `about` an answer and as many rows from `first` on as fit, as JSON.

    Values that are null are left out; long texts and lists are cut, and say so.
    """
    said = {name: _short(value) for name, value in about.items() if value is not None}
    kept: list[object] = []
    size = len(shown(said)) + _ROOM
    for row in rows[first:]:
        short = {name: _short(value) for name, value in row.items() if value is not None}
        size += len(shown(short)) + 2
        if size > MOST_CHARACTERS:
            break
        kept.append(short)
    return shown(said | {"rows": kept} | _left_out(len(rows), first, len(kept)))


def _left_out(total: int, first: int, kept: int) -> dict[str, object]:
    following = first + kept
    if following >= total:
        return {"all_rows": total}
    how = (
        f"ask again with first={following}"
        if kept
        else "one row alone is too long: ask for fewer columns by the tool sql"
    )
    return {"all_rows": total, "left_out": total - following, "how_to_get_them": how}


def _short(value: object) -> object:
    """Return a value for JSON, with long texts and lists truncated."""
    if isinstance(value, str):
        return value if len(value) <= _MOST_TEXT else f"{value[:_MOST_TEXT]}... ({len(value):,} characters)"
    if isinstance(value, Mapping):
        return {str(_short(str(name))): _short(each) for name, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        short = [_short(each) for each in value[:_MOST_LISTED]]
        return (
            short if len(value) <= _MOST_LISTED else [*short, f"... and {len(value) - _MOST_LISTED:,} more"]
        )
    return float(f"{value:.6g}") if isinstance(value, float) else value
