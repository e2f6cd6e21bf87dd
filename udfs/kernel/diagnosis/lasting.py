"""Lasting excess of dp ranks: more than chance in their data explains.

Axes s, d: step, dp rank. All values are logs of times.
"""

from typing import Final

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.diagnosis.levels import ERRORS
from udfs.kernel.diagnosis.variation import LEAST_STEPS, MEDIAN_ERROR
from udfs.kernel.selection import median_of_all, medians_along

ENOUGH_DP_RANKS: Final = 6
"""With fewer dp ranks their scatter says nothing about what is healthy."""

LEAST_WORKER: Final = 0.015
LEAST_DP_RANK: Final = 0.03
ERRORS_OF_DP_RANK: Final = 3.5
"""Log of the least factor, and standard errors, by which a dp rank is slow and not unlucky in its data."""


def lasting_levels(shared: Floats, may_be_luck: Mask, luck: Floats, *, is_one_stage: bool) -> Floats:
    """Lasting log excess of dp ranks over all steps, or from or until one step; shape (s, d).

    shared      : by which all a dp rank does takes longer than its peers, in the order of time, shape (s, d).
    may_be_luck : bool, of the same shape; other steps are known already.
    luck        : standard error of what its data give, of the same shape.
    """
    steps, dp_ranks = shared.shape
    error = MEDIAN_ERROR * medians_along(luck, 0)
    first, end = _stretch(np.where(may_be_luck, shared, 0.0), may_be_luck, error)
    at = np.arange(steps)[:, None]
    inside = (at >= first) & (at < end)
    told = [shared[inside[:, d] & may_be_luck[:, d], d] for d in range(dp_ranks)]
    level = np.array([median_of_all(each) if each.size else 0.0 for each in told])
    number = np.array([max(each.size, 1) for each in told])
    errors = np.where(end - first == steps, ERRORS_OF_DP_RANK, ERRORS)
    least = np.maximum(LEAST_WORKER if is_one_stage else LEAST_DP_RANK, errors * error / np.sqrt(number))
    if dp_ranks >= ENOUGH_DP_RANKS:
        deviation = float(medians_along(np.abs(level - medians_along(level, 0)), 0))
        least = np.maximum(least, ERRORS * deviation)
    found: Floats = np.where(inside & (level > least), level, 0.0)
    return found


def _stretch(shared: Floats, counts: Mask, error: Floats) -> tuple[Ints, Ints]:
    """Steps [first, end) in which each dp rank's excess lasts: all steps, or from or until one.

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
