"""Steps in which all transfers of one traffic were slow at once: a congested network, not one bad link."""

from typing import Final

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats
from udfs.kernel.selection import median, median_of_all, medians_along

TRAFFIC: Final = (ot.TRANSFERS, (ot.PARAMS_ALL_GATHER, ot.GRADS_REDUCE_SCATTER, ot.SEPARATE_GRADS_ALL_REDUCE))
"""Op types that share a network: along the pipeline, and between replicas."""

LEAST_LOG: Final = float(np.log(1.3))
LEAST_LOG_OF_FEW: Final = float(np.log(1.8))
"""Slower by this log factor is congested; of few kinds, and against a single step, it must be slower."""

ENOUGH_KINDS: Final = 3
ENOUGH_STEPS: Final = 0.1
"""Share of steps that must be uncongested alike, and at least two, unless they are far from the others."""

ERRORS: Final = 5.0
MAD_TO_ERROR: Final = 1.4826 * 1.2533
"""From a median absolute deviation to the standard error of a median, but for the root of the number."""


def step_factors(median_s: Floats) -> Floats:
    """By how much the transfers of each step took longer than in steps without congestion; 1 where not.

    Steps are compared with the fastest that agree with each other, because most of them may be congested.

    median_s : float64, shape (kind, step); median transfer of each kind, nan where a step has none. [s]
    returns  : float64, shape (step,).
    """
    steps = median_s.shape[1]
    known = median_s[np.isfinite(median_s).all(axis=1)]
    if not len(known) or steps < 2:
        return np.ones(steps)
    logs = np.log(known)
    relative = logs - medians_along(logs, 1)[:, None]
    slow = medians_along(relative, 0)
    scatter = median_of_all(np.abs(relative - slow).reshape(-1))
    error = MAD_TO_ERROR * scatter / np.sqrt(len(known))
    least = LEAST_LOG if len(known) >= ENOUGH_KINDS else LEAST_LOG_OF_FEW
    limit = max(least, ERRORS * error)
    slow = slow - _uncongested(slow, limit)
    return np.where(slow > limit, np.exp(slow), 1.0)


def _uncongested(slow: Floats, limit: float) -> float:
    """Log time of a step without congestion: the middle of the lowest steps that agree."""
    ordered = np.sort(slow)
    enough = max(2, int(np.ceil(ENOUGH_STEPS * len(ordered))))
    first = 0
    while True:
        end = int(np.searchsorted(ordered, ordered[first] + limit, side="right"))
        is_far = end == len(ordered) or ordered[end] - ordered[end - 1] > LEAST_LOG_OF_FEW
        if end - first >= enough or is_far:
            return float(median(ordered[first:end]))
        first += 1
