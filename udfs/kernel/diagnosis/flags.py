"""When not to trust an answer like others (diagnosis, section 4)."""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import cause
from udfs.kernel.diagnosis.culprits import Found
from udfs.kernel.graph import Layout

ENOUGH_STEPS: Final = 4
LARGEST_GAP: Final = 0.05
"""Share of T_actual by which the replay with kept delays may miss it."""

MANY_CELLS: Final = 0.3
"""Share of slow cells beyond which the usual cell is no measure any more."""

MOST_SKEW_S: Final = 1e-3
MOST_UNEXPLAINED: Final = 0.3
LEAST_WASTE: Final = 0.05
LEAST_CLAIM: Final = 0.01
"""A saving below says nothing that could be mistaken."""

FEW_MICROBATCHES: Final = 4


class Trust(NamedTuple):
    """What decides about flags.

    steps, microbatches, slow_cells (a share), skew_s; gap: replay against T_actual, unexplained: share of the waste.
    """

    layout: Layout
    steps: int
    microbatches: int
    slow_cells: float
    skew_s: float
    gap: float
    unexplained: float

    @classmethod
    def of(cls, found: Found, layout: Layout, replayed: float, together: float, rest: float) -> "Trust":
        """From what was found and what the fixes save."""
        slow_cells, microbatches = 0.0, 0
        if found.factors is not None:
            always, in_steps, dp_rank, _ = found.factors.workers
            slow_cells = float(
                ((always.mean(axis=1) > 0) | (in_steps > 0).any(axis=1) | (dp_rank > 0).any(axis=0)).mean()
            )
            microbatches = found.factors.work_s.shape[3]
        waste = together + rest
        skews = [block.skew_s for block in found.blocks if np.isfinite(block.skew_s)]
        return cls(
            layout=layout,
            steps=sum(block.number_of_steps for block in found.blocks),
            microbatches=microbatches,
            slow_cells=slow_cells,
            skew_s=max(skews, default=0.0),
            gap=abs(1.0 - replayed),
            unexplained=abs(rest) / waste if waste > LEAST_WASTE else 0.0,
        )


def flag_of(each: int, trust: Trust, alone: dict[int, float]) -> int:
    """The first reason that applies; NO_FLAG."""
    if trust.steps < ENOUGH_STEPS:
        return cause.FEW_STEPS
    if trust.gap > LARGEST_GAP:
        return cause.HIGH_DISCREPANCY
    if each == cause.COMMUNICATION and trust.skew_s > MOST_SKEW_S:
        return cause.CLOCK_SKEW
    flag = _want_of_peers(each, trust, alone)
    if flag:
        return flag
    if each == cause.SLOW_WORKER and trust.slow_cells > MANY_CELLS:
        return cause.MANY_SLOW_CELLS
    if each == cause.UNEXPLAINED and trust.unexplained > MOST_UNEXPLAINED:
        return cause.MOSTLY_UNEXPLAINED
    return cause.NO_FLAG


def _want_of_peers(each: int, trust: Trust, alone: dict[int, float]) -> int:
    dp_size, pp_size = trust.layout.dp_size, trust.layout.pp_size
    if dp_size == 1 and each in (cause.SLOW_WORKER, cause.STAGE_IMBALANCE):
        return cause.WORKER_OR_STAGE if pp_size > 1 else cause.FEW_PEERS
    is_worker_or_data = each in (cause.SLOW_WORKER, cause.DATA_IMBALANCE)
    claims = max(alone[cause.SLOW_WORKER], alone[cause.DATA_IMBALANCE]) > LEAST_CLAIM
    if pp_size == 1 and is_worker_or_data and claims and trust.microbatches < FEW_MICROBATCHES:
        return cause.WORKER_OR_DATA
    return cause.NO_FLAG
