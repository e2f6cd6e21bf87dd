"""All causes of one job (diagnosis, sections 1 to 4)."""

from collections.abc import Sequence
from itertools import combinations
from typing import Final

import numpy as np

from udfs.kernel import cause
from udfs.kernel.cause import CauseFound, Diagnosis
from udfs.kernel.diagnosis.compute_times import BlockTimes, compute_times
from udfs.kernel.diagnosis.factors import decompose
from udfs.kernel.diagnosis.fixes import Fixable, Fixed, KeptDelays, Works, shapley, step_times, works
from udfs.kernel.diagnosis.transfers import slow_transfers

NOTHING: Final[Fixed] = frozenset()
ALL_FIXES: Final[Fixed] = frozenset(cause.FIXABLE)
LEAST_SAVED: Final = 0.025
"""A cause holds if its fix saves at least this share of the step time."""

LEAST_SHARED: Final = 0.002
"""Causes that save less alone are not played in every combination."""


def savings(
    blocks: Sequence[BlockTimes], delays: Sequence[KeptDelays], pp_size: int, dp_size: int, actual_s: float
):
    computes = compute_times(blocks, pp_size, dp_size)
    factors = decompose(computes.times_s) if computes is not None else None
    work: Works | None = works(factors) if factors is not None else None
    transfers = slow_transfers(blocks)
    where = {}
    first = 0
    if computes is not None:
        for number, ops in computes.blocks:
            size = len(blocks[number].steps)
            where[number] = (ops, slice(first, first + size))
            first += size
    fixable = [
        Fixable(block, *where.get(number, (None, None)), transfers[number], delays[number])
        for number, block in enumerate(blocks)
    ]

    def mean_s(fixes: Sequence[Fixed]) -> dict[Fixed, float]:
        total = np.concatenate([step_times(block, factors, work, fixes) for block in fixable], axis=1)
        return dict(zip(fixes, total.mean(axis=1).tolist(), strict=True))

    alone = [frozenset({each}) for each in cause.FIXABLE]
    times = mean_s([NOTHING, *alone, ALL_FIXES])
    saved = {each: (times[NOTHING] - times[frozenset({each})]) / actual_s for each in cause.FIXABLE}
    return saved, (times[NOTHING] - times[ALL_FIXES]) / actual_s, times, factors, mean_s
