"""Find computes that are longer than known causes and noise explain.

Axes p, k, c, m, s, d: stage, direction, chunk, microbatch, step in the order of time, dp rank.
"""

from functools import cache
from statistics import NormalDist
from typing import Final

import numpy as np

from udfs.kernel.arrays import Floats
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.factors import Factors
from udfs.kernel.diagnosis.levels import (
    ERRORS,
    LEAST_STEP,
    MAD_TO_SIGMA,
    QUIET_STEPS,
    Doubt,
    scatter_over_steps,
    slow_series,
)
from udfs.kernel.selection import median_of_all, medians_along

LEAST_OP: Final = 0.05
ERRORS_OF_OP: Final = 6.0
MANY_OPS: Final = 0.05
LEAST_MANY: Final = 4
"""An op is long if its log residual exceeds LEAST_OP and ERRORS_OF_OP MADs. Long ops count in steps in which
at least a share MANY_OPS of the ops, and LEAST_MANY ops, are long; fewer long ops are noise."""

SIGMAS_WITHIN: Final = 6.0
"""Steps up to this number of standard deviations above the fastest step may be usual."""

BENT: Final = 2
"""Order of the differences that show the noise: second differences contain no steady drift."""

BLOM: Final = 0.375
"""The i-th of n normal values is expected at the quantile (i - BLOM) / (n + 1 - 2 BLOM)."""


def rest_of(factors: Factors) -> Floats | None:
    """Return the log excess of computes over work, known causes and noise, broadcastable to a Tensor.

    None if there is no such excess.
    """
    p, k, c, m, s, d = factors.noise.shape
    left = factors.log_noise.copy()
    workers = factors.workers
    # First, the excess of all workers over quiet steps; only in even steps, as others differ in their data.
    even = ~workers.is_uneven
    common = np.zeros_like(workers.common)
    if even.any():
        common[:, even] = _slow_in_time(workers.common[:, even], workers.error)
    # Second, the excess of one worker in single steps.
    level = medians_along(left.reshape(p, k, c * m, s, d), 2)
    # The median of the steps that are not slow; 0 if all or none are.
    usual = np.zeros((p, k))
    for kind, is_usual in enumerate(common == 0.0):
        if is_usual.any() and not is_usual.all():
            usual[:, kind] = medians_along(level[:, kind, is_usual].reshape(p, -1), 1)
    of_all = np.minimum(common[:, :, None], np.maximum(level - usual[..., None, None], 0.0))
    # The work was fitted to all steps, so that slow or fast ones shift the usual residual from 0.
    usual = usual + medians_along((level - usual[..., None, None] - of_all).reshape(p, k, -1), 2)
    level = level - usual[..., None, None] - of_all
    scatter = MAD_TO_SIGMA * medians_along(np.abs(level).swapaxes(0, 1).reshape(k, -1), 1)
    least = np.maximum(LEAST_STEP, ERRORS * np.maximum(workers.error, scatter))
    single = np.where(level > least[:, None, None], level, 0.0)
    in_steps = (single + of_all)[:, :, None, None]
    left -= usual[..., None, None, None, None]
    # In a step with many long ops, the other ops are not long: their part of the step's excess is removed.
    is_clear = in_steps > (ERRORS_OF_OP * np.sqrt(c * m) * workers.error)[:, None, None, None, None]
    if is_clear.any():
        in_steps = np.where(is_clear & (left < in_steps / 2.0), 0.0, in_steps)
    # Third, the excess of one microbatch of a stage in all steps, which the fitted work does not explain.
    left -= in_steps
    place = medians_along(left.reshape(p, k, c * m, s * d), 3).reshape(p, k, c, m, 1, 1)
    place = place - medians_along(place.reshape(p, k, c * m), 2, low=True)[..., None, None, None, None]
    least = np.maximum(LEAST_STEP, ERRORS * workers.error * np.sqrt(c * m / (s * d)))
    in_places = np.where(place > least[:, None, None, None, None], place, 0.0)
    found: Floats = in_steps + in_places + _of_ops(left - in_places)
    return found if found.any() else None


def _of_ops(left: Tensor) -> Tensor:
    """Return the log excess of long ops in steps with many long ops, and 0 elsewhere."""
    k, steps = left.shape[1], left.shape[4]
    found = np.zeros_like(left)
    for kind in range(k):
        own = left[:, kind]
        least = max(MANY_OPS * own[..., 0, :].size, LEAST_MANY)
        # If too few ops exceed even the lower limit, the scatter need not be computed.
        if not (np.count_nonzero(own > LEAST_OP, axis=(0, 1, 2, 4)) >= least).any():
            continue
        scatter = MAD_TO_SIGMA * median_of_all(np.abs(own).reshape(-1))
        limit = max(LEAST_OP, ERRORS_OF_OP * scatter)
        many = np.count_nonzero(own > limit, axis=(0, 1, 2, 4)) >= least
        if many.any():
            in_step = np.where(many, 1.0, 0.0).reshape(1, 1, 1, steps, 1)
            found[:, kind] = np.where(own > limit, own, 0.0) * in_step
    return found


def _slow_in_time(common: Floats, error: Floats) -> Floats:
    """Return the significant log excess of steps over quiet steps, else 0; shape (k, s).

    common : log excess of each step that all workers have, shape (k, s).
    error  : standard error of a worker's level in a step, shape (k,).
    """
    steps = common.shape[1]
    if steps > BENT:
        # Noise from first differences, or from second ones if lower, because a drift enlarges only the first.
        bends = np.abs(np.diff(common, BENT, axis=1))
        of_bends = MAD_TO_SIGMA / np.sqrt(6.0) * medians_along(bends, 1)
        error = np.maximum(error, np.minimum(scatter_over_steps(common[None, :, :, None]), of_bends))
    # Usual is the mean of the fastest steps plus the amount by which they are fast by chance. That amount is
    # the distance of the lowest of `near` normal values from their mean, where `near` steps are close to the
    # fastest.
    ordered = np.sort(common, axis=1)
    quietest = max(1, round(QUIET_STEPS * steps / 2.0))
    near = np.count_nonzero(ordered <= ordered[:, :1] + SIGMAS_WITHIN * error[:, None], axis=1)
    below = np.array([_sigmas_below(min(quietest, number), number) for number in near.tolist()])
    usual = ordered[:, :quietest].mean(axis=1) + below * error
    series = (common - usual[:, None])[None, :, :, None]
    return slow_series(series, Doubt(error[:, None] * np.ones(steps), np.zeros(len(common))))[0, ..., 0]


@cache
def _sigmas_below(lowest: int, number: int) -> float:
    """Return by how many standard deviations the mean of the lowest of `number` normal values is below 0."""
    normal = NormalDist()
    places = [(rank + 1 - BLOM) / (number + 1 - 2 * BLOM) for rank in range(lowest)]
    return -sum(map(normal.inv_cdf, places)) / lowest
