"""Divide the time that a unit loses among its causes, in the same way for tables, pages and commands."""

from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any

from schemas.vocabulary import CAUSE_UNEXPLAINED
from udfs.intervals import around, half_width, in_gpu_hours


def lost_fractions(causes: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return the share of T_actual that each row of a unit's job_causes loses, in the order of the rows.

    causes  : all rows of one unit; of each its cause, is_cause, attributed_fraction and time_saved_fraction.
    returns : shares from 0 on. Their sum is the share that all fixes together save (0 if that is negative),
              plus time_saved_fraction of `unexplained`, which no fix saves. A cause that holds gets its
              attributed_fraction, scaled down if the causes that hold exceed what all fixes save. Other
              causes get 0, and `unexplained` gets the rest.
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
    """Return lost_fraction and lost_gpu_hours with their intervals, for all rows of a unit's job_causes.

    All are null if the unit is not analysed. A row whose attributed_fraction has no interval gets none.

    gpu_hours : of the unit, None where its manifest does not say. [GPU h]
    """
    lost = lost_fractions(causes) if is_analysed else [None] * len(causes)
    halves = [half_width(row, "attributed_fraction") for row in causes]
    # Time of causes that do not hold goes to `unexplained`.
    left = [half or 0.0 for row, half in zip(causes, halves, strict=True) if not row["is_cause"]]
    found: list[dict[str, float | None]] = []
    for row, each, half in zip(causes, lost, halves, strict=True):
        width = None if half is None else 0.0
        if row["cause"] == CAUSE_UNEXPLAINED:
            own = half_width(row, "time_saved_fraction")
            # Added linearly, because the errors of a unit's causes come from the same steps.
            width = None if own is None else own + fsum(left)
        elif each and half is not None:
            width = half * min(1.0, each / row["attributed_fraction"])
        columns = {"lost_fraction": each, **around("lost_fraction", each, width)}
        found.append(columns | in_gpu_hours(columns, "lost_fraction", gpu_hours))
    return found
