"""Dp ranks that are slow for long; in a single step, uneven data may be the reason instead.

Axes s, d: step in the order of time, dp rank. All values are logs of times.
"""

from typing import Final

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.diagnosis.levels import ERRORS, MAD_TO_SIGMA
from udfs.kernel.diagnosis.variation import LEAST_STEPS, MEDIAN_ERROR
from udfs.kernel.selection import deviation_of_all, median_of_all, medians_along

ENOUGH_DP_RANKS: Final = 6
"""With fewer dp ranks, their scatter says nothing about what is healthy."""

ENOUGH_STEPS: Final = 10
ENOUGH_PEERS: Final = 3
MOST_OF_SEEN: Final = 2.0
"""From these steps and dp ranks on, data give by chance at most this many times the scatter over steps."""

LEAST_WORKER: Final = 0.015
LEAST_DP_RANK: Final = 0.03
ERRORS_OF_DP_RANK: Final = 3.5
"""Log of the least factor, and standard errors, from which a dp rank is slow and not unlucky in its data."""


def peers_of(beyond: Floats) -> Ints:
    """Return the faster half of the dp ranks over all steps; in one step, data decide who is faster."""
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
    """Return log excess that dp ranks have in all steps, or from or until one step on; shape (s, d).

    shared      : by which all a dp rank does takes longer than its peers, shape (s, d).
    may_be_luck : bool, of the same shape; other steps are known already.
    luck        : standard error of what its data give, of the same shape.
    peers       : dp ranks whose mean is 0 in each step.
    within      : as luck, by the middle half of its microbatches, shape (d,); None: they are few.
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
    # Over all steps a single peer has luck too, and no other shows how much.
    luckier = np.sqrt(2.0) if peers.size == 1 else 1.0
    of_all = np.minimum(luckier * error, seen)
    if within is not None:
        # Where microbatches and steps say so, each by itself, the scatter of few steps is no chance.
        of_all = np.minimum(of_all, np.maximum(luckier * MEDIAN_ERROR * within, seen / MOST_OF_SEEN))
    elif np.isfinite(seen).all():
        # Few microbatches hardly show what data give: as much, at least, as a dp rank scatters.
        of_all = np.maximum(of_all, seen / MOST_OF_SEEN)
    is_whole = end - first == steps
    # Data may be uneven in those steps alone.
    of_some = np.maximum(error, MEDIAN_ERROR * _typical(luck, counted))
    sure = np.where(is_whole, ERRORS_OF_DP_RANK * of_all, ERRORS * of_some)
    least = np.maximum(LEAST_WORKER if is_one_stage else LEAST_DP_RANK, sure / np.sqrt(number))
    # Peers were chosen for being fast: the slowest of them shows how far chance goes.
    least += level[peers[is_whole[peers]]].max(initial=0.0)
    if dp_ranks >= ENOUGH_DP_RANKS:
        # Of all, or of the faster half, whose deviation is half as large: up to half may be slow.
        apart = min(deviation_of_all(level), 2.0 * deviation_of_all(level[peers]))
        least = np.maximum(least, ERRORS * apart)
    return np.where(inside & (level > least), level, 0.0)


def _typical(values: Floats, counted: Mask) -> Floats:
    """Return each dp rank's median over the steps that count, shape (d,), or 0; both arguments are (s, d)."""
    each_of = zip(values.T, counted.T, strict=True)
    return np.array([median_of_all(each[of]) if of.any() else 0.0 for each, of in each_of])


def _seen(shared: Floats) -> Floats:
    """Return the largest error of a dp rank's excess in a step, by how it scatters over steps; shape (d,).

    Few microbatches far heavier than all others scatter widely, and move no median.
    """
    steps, dp_ranks = shared.shape
    if steps < ENOUGH_STEPS or dp_ranks < ENOUGH_PEERS:
        return np.full(dp_ranks, np.inf)
    deviation = MAD_TO_SIGMA * medians_along(np.abs(shared - medians_along(shared, 0)), 0)
    # The dp rank that is the peer of the others in most steps has none.
    return MEDIAN_ERROR * MOST_OF_SEEN * np.maximum(deviation, median_of_all(deviation))


def _stretch(shared: Floats, counts: Mask, error: Floats) -> tuple[Ints, Ints]:
    """Return the steps [first, end) in which each dp rank's excess lasts: all, or from or until one step.

    shared : 0 where a step does not count, shape (s, d). counts: of the same shape.
    error  : of one step, shape (d,).
    """
    steps = len(shared)
    until, number = np.cumsum(shared, axis=0), np.cumsum(counts, axis=0)
    since, number_since = until[-1] - until + shared, number[-1] - number + counts
    # Squares that a level explains; that of all steps, unless another explains clearly more.
    of_until = np.square(np.maximum(until, 0.0)) / np.maximum(number, LEAST_STEPS)
    of_since = np.square(np.maximum(since, 0.0)) / np.maximum(number_since, LEAST_STEPS)
    clearly = np.square(ERRORS * error) + of_until[-1]
    last, first = of_until.argmax(axis=0), of_since.argmax(axis=0)
    is_until = (of_until.max(axis=0) > clearly) & (of_until.max(axis=0) >= of_since.max(axis=0))
    is_since = (of_since.max(axis=0) > clearly) & ~is_until
    return np.where(is_since, first, 0), np.where(is_until, last + 1, steps)
