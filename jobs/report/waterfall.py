"""The waterfall from recorded to productive time, as pages draw it."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from jobs.report import wording

_WORDS: Final = {
    "recorded": "recorded",
    "nothing_lost": "with nothing lost",
    "to_paper_ideal": "to the paper's ideal",
    "ideal": "at the paper's ideal",
    "outside_steps": "outside steps that stayed: outages, start-ups, checkpoints, steps done again",
    "not_known": "not known, as no event says it",
    "productive": "productive",
}
"""Figures of the view that are no cause; those have words of their own."""
_LEAST_SHOWN: Final = 0.0005
"""Share of what was recorded from which a part has a row: less rounds to 0.0 %."""
_WIDTH: Final = 100.0
"""Of the drawing, in its own units: bars are per cent of what was recorded."""


def waterfall(rows: Iterable[Mapping[str, Any]], amounts: str) -> list[dict[str, Any]]:
    """Return the bars to draw: name, amount and share in words, start and length.

    rows    : ordered by place, with figure, is_total and the amounts.
    amounts : their column, gpu_hours or seconds. Without events the chain ends at the ideal.
    """
    known = {row["figure"]: row for row in rows if row[amounts] is not None}
    recorded = known["recorded"][amounts] if "recorded" in known else None
    if not recorded:
        return []
    if "productive" not in known:
        known = {name: row for name, row in known.items() if name not in {"outside_steps", "not_known"}}
    drawn = []
    left = 1.0
    for name, row in known.items():
        share = row[amounts] / recorded
        if not row["is_total"] and abs(share) < _LEAST_SHOWN:
            left -= share
            continue
        ends = (0.0, share) if row["is_total"] else (left - share, left)
        left = share if row["is_total"] else left - share
        is_more = not row["is_total"] and share < 0
        low, high = (min(max(each, 0.0), 1.0) for each in sorted(ends))
        drawn.append(
            {
                "figure": name,
                "title": _title(name),
                "is_total": row["is_total"],
                "amount": wording.hours(row[amounts]) if row["is_total"] else _signed(row[amounts]),
                "share": f"{'+' if is_more else ''}{wording.percent(share if row['is_total'] else -share)}",
                "x": round(_WIDTH * low, 2),
                "width": round(max(_WIDTH * (high - low), 0.3), 2),
            }
        )
    return drawn


def _title(name: str) -> str:
    return _WORDS[name] if name in _WORDS else wording.short_title(name)


def _signed(less: float) -> str:
    """Return a change along the waterfall, with a minus sign if it reduces."""
    return f"+{wording.hours(-less)}" if less < 0 else f"-{wording.hours(less)}"
