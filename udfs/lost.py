"""Time that a unit loses, split among its causes: the one figure for tables, pages and commands."""

from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any

from schemas.vocabulary import CAUSE_UNEXPLAINED


def lost_fractions(causes: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the share of T_actual lost to each row of a unit's job_causes, in their order.

    causes  : all rows of one unit; of each its cause, is_cause, attributed_fraction and time_saved_fraction.
    returns : never negative. They sum to what all fixes together save, or to 0 where that is less than
              nothing, and what is slow beyond them and beyond the job's noise, the time saved of
              `unexplained`. Causes that hold have what is attributed to them, less where they exceed what
              fixes save; `unexplained` has the rest, other causes nothing.
    """
    # Exact sums: rows in another order give the same bits.
    fixed = max(0.0, fsum(row["attributed_fraction"] for row in causes))
    beyond = fsum(max(0.0, row["time_saved_fraction"]) for row in causes if row["cause"] == CAUSE_UNEXPLAINED)
    fractions = [
        max(0.0, row["attributed_fraction"]) if row["is_cause"] and row["cause"] != CAUSE_UNEXPLAINED else 0.0
        for row in causes
    ]
    total = fsum(fractions)
    scale = fixed / total if total > fixed else 1.0
    rest = beyond + max(0.0, fixed - total)
    return [
        rest if row["cause"] == CAUSE_UNEXPLAINED else each * scale
        for row, each in zip(causes, fractions, strict=True)
    ]


def lost_columns(
    causes: Sequence[Mapping[str, Any]], gpu_hours: float | None, *, is_analysed: bool
) -> list[dict[str, float | None]]:
    """Return lost_fraction and lost_gpu_hours for all rows of a unit; null if it is not analysed.

    gpu_hours : of the unit, None where its manifest does not say. [GPU h]
    """
    if not is_analysed:
        return [{"lost_fraction": None, "lost_gpu_hours": None}] * len(causes)
    return [
        {"lost_fraction": each, "lost_gpu_hours": None if gpu_hours is None else gpu_hours * each}
        for each in lost_fractions(causes)
    ]
