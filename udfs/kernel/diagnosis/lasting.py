"""Find dp ranks that are slow in all steps, or from or until a step, by more than their data explain.

Axes s, d: step in the order of time, dp rank. All values are logs of times.
"""

from typing import Final

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.diagnosis.levels import ERRORS, MAD_TO_SIGMA
from udfs.kernel.diagnosis.variation import LEAST_STEPS, MEDIAN_ERROR
from udfs.kernel.selection import deviation_of_all, median_of_all, medians_along

ENOUGH_DP_RANKS: Final = 6
"""With fewer dp ranks, differences between healthy ranks are not estimated from their scatter."""

ENOUGH_STEPS: Final = 10
ENOUGH_PEERS: Final = 3
MOST_OF_SEEN: Final = 2.0
"""With at least these numbers of steps and of dp ranks, the error of a rank's level is taken to be at most
this multiple of the scatter over steps."""

LEAST_WORKER: Final = 0.015
LEAST_DP_RANK: Final = 0.03
ERRORS_OF_DP_RANK: Final = 3.5
"""Least log excess of a slow dp rank with one stage, with several stages, and in standard errors."""


def peers_of(beyond: Floats) -> Ints:
    """Return the half of the dp ranks that is faster over all steps; in one step, data decide which is fast.

    beyond : excess over the peers of the step, shape (p, k, s, d).
    """
    level = beyond.mean(axis=(0, 1))
    typical = medians_along(level - level.mean(axis=1, keepdims=True), 0)
    return np.argsort(typical, kind="stable")[: (typical.size + 1) // 2]


def lasting_levels(
    shared: Floats,
    may_be_luck: Mask,
    luck: Floats,
    peers: Ints,
    within: Floats | None = None,
    *,
    is_one_stage: bool,
) -> Floats:
    """Return the log excess of dp ranks over `peers` that lasts in all steps, or from or until one; (s, d).

    shared      : log excess of a dp rank over its peers that all its stages have, shape (s, d).
    may_be_luck : bool, shape (s, d); where data may explain the excess, which elsewhere is significant.
    luck        : standard error of a rank's level due to its microbatches, shape (s, d).
    peers       : dp ranks whose mean excess is 0 in each step.
    within      : the same error, by the middle half of the rank's microbatches, shape (d,); None if these are
                  few.
    """
    steps, dp_ranks = shared.shape
    error = MEDIAN_ERROR * medians_along(luck, 0)
    first, end = _stretch(np.where(may_be_luck, shared, 0.0), may_be_luck, error)
    at = np.arange(steps)[:, None]
    inside = (at >= first) & (at < end)
    counted = inside & may_be_luck
    level = _typical(shared, counted)
    number = np.maximum(counted.sum(axis=0), 1)
    seen = _seen(shared)
    # A single peer is as much affected by chance as the rank, which doubles the variance.
    luckier = np.sqrt(2.0) if peers.size == 1 else 1.0
    of_all = np.minimum(luckier * error, seen)
    if within is not None:
        # A few very heavy microbatches enlarge `error`; the middle half and the scatter over steps do not.
        of_all = np.minimum(of_all, np.maximum(luckier * MEDIAN_ERROR * within, seen / MOST_OF_SEEN))
    elif np.isfinite(seen).all():
        # Few microbatches hardly show the effect of data: the error is at least the scatter over steps.
        of_all = np.maximum(of_all, seen / MOST_OF_SEEN)
    is_whole = end - first == steps
    # Data may be uneven only in the steps of the excess.
    of_some = np.maximum(error, MEDIAN_ERROR * _typical(luck, counted))
    sure = np.where(is_whole, ERRORS_OF_DP_RANK * of_all, ERRORS * of_some)
    least = np.maximum(LEAST_WORKER if is_one_stage else LEAST_DP_RANK, sure / np.sqrt(number))
    # Peers were chosen because they are fast: the excess of the slowest is due to chance.
    least += level[peers[is_whole[peers]]].max(initial=0.0)
    if dp_ranks >= ENOUGH_DP_RANKS:
        # The deviation of all ranks, or twice that of the faster half, because up to half may be slow.
        apart = min(deviation_of_all(level), 2.0 * deviation_of_all(level[peers]))
        least = np.maximum(least, ERRORS * apart)
    return np.where(inside & (level > least), level, 0.0)


def _typical(values: Floats, counted: Mask) -> Floats:
    """Return each dp rank's median over the counted steps, or 0 without any; (d,). Both arguments: (s, d)."""
    each_of = zip(values.T, counted.T, strict=True)
    return np.array([median_of_all(each[of]) if of.any() else 0.0 for each, of in each_of])


def _seen(shared: Floats) -> Floats:
    """Return an upper bound for the error of the excess of each dp rank, from its scatter over steps; (d,).

    A few microbatches that are far heavier than others enlarge the computed error, but not this scatter.
    Infinite with few steps or dp ranks.
    """
    steps, dp_ranks = shared.shape
    if steps < ENOUGH_STEPS or dp_ranks < ENOUGH_PEERS:
        return np.full(dp_ranks, np.inf)
    deviation = MAD_TO_SIGMA * medians_along(np.abs(shared - medians_along(shared, 0)), 0)
    # A rank that is the peer of all others in most steps has no scatter, so the median rank's is used.
    return MEDIAN_ERROR * MOST_OF_SEEN * np.maximum(deviation, median_of_all(deviation))


def _stretch(shared: Floats, counts: Mask, error: Floats) -> tuple[Ints, Ints]:
    """Return the steps [first, end) in which each dp rank's excess lasts: all, or from or until one step.

    shared : log excess, 0 in steps that do not count, shape (s, d).
    counts : bool, shape (s, d); steps that count.
    error  : standard error of the excess in one step, shape (d,).
    """
    steps = len(shared)
    until, number = np.cumsum(shared, axis=0), np.cumsum(counts, axis=0)
    since, number_since = until[-1] - until + shared, number[-1] - number + counts
    # Sums of squares that a constant excess explains until, or since, each step. All steps are chosen unless
    # another stretch explains clearly more.
    of_until = np.square(np.maximum(until, 0.0)) / np.maximum(number, LEAST_STEPS)
    of_since = np.square(np.maximum(since, 0.0)) / np.maximum(number_since, LEAST_STEPS)
    clearly = np.square(ERRORS * error) + of_until[-1]
    last, first = of_until.argmax(axis=0), of_since.argmax(axis=0)
    is_until = (of_until.max(axis=0) > clearly) & (of_until.max(axis=0) >= of_since.max(axis=0))
    is_since = (of_since.max(axis=0) > clearly) & ~is_until
    return np.where(is_since, first, 0), np.where(is_until, last + 1, steps)
