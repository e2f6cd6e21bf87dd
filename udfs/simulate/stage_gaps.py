"""Gaps between a compute and the compute on the next stage that uses its output."""

from typing import Final

import numpy as np

from udfs.kernel.arrays import Floats, Mask
from udfs.kernel.graph.graph import Layout
from udfs.kernel.recorded.rows import US
from udfs.simulate.recorded_computes import Computes, Row

DIRECTIONS: Final = ("forward", "backward")
MOST_NAMED: Final = 20


def sender_of(direction: int, receiver: int, layout: Layout) -> int:
    """Stage whose output a stage uses; in a virtual pipeline the first stage's is the last."""
    return (receiver + (1 if direction else -1)) % layout.pp_size


def least_gaps_us(computes: Computes, layout: Layout, rows: int) -> Floats:
    """Shortest time within a step from a compute's end to the start of the one using its output. [us]

    The least, because most computes also wait for their worker: in each step some find theirs idle.

    rows    : number of (step, dp_rank).
    returns : float64, shape (direction, receiving stage, row); inf where nothing is passed on. [us]
    """
    source_us = computes.end_of_source_us(layout.pp_size * layout.vpp_size)
    least_us = np.full((2, layout.pp_size, rows), np.inf)
    np.minimum.at(least_us, (computes.direction, computes.stage, computes.row), computes.start_us - source_us)
    return least_us


def gap_rows(least_us: Floats, layout: Layout) -> list[Row]:
    """Mean gap of each stage boundary and direction, largest first.

    least_us : as least_gaps_us gives it, by one clock.
    """
    joined: Mask = np.all(np.isfinite(least_us), axis=2)
    gap_s = np.where(joined[:, :, None], np.maximum(least_us, 0.0), 0.0).mean(axis=2) * US
    found: list[Row] = [
        {
            "direction": DIRECTIONS[direction],
            "pp_rank": sender_of(direction, receiver, layout),
            "next_pp_rank": receiver,
            "gap_s": float(gap_s[direction, receiver]),
            "usual_s": _lower_median(gap_s[joined]),
        }
        for direction, receiver in np.argwhere(joined).tolist()
    ]
    found.sort(key=lambda each: -float(str(each["gap_s"])))
    return found[:MOST_NAMED]


def gap_text(largest: Row) -> str:
    """Sentence that names the largest gap."""
    own_ms, usual_ms = (1e3 * float(str(largest[name])) for name in ("gap_s", "usual_s"))
    return (
        f"largest gap: {largest['direction']}, stage {largest['pp_rank']} to {largest['next_pp_rank']}, "
        f"{own_ms:.3g} ms, usual are {usual_ms:.3g} ms"
    )


def _lower_median(values: Floats) -> float:
    return float(np.sort(values)[(len(values) - 1) // 2])
