"""Slowness of computes beyond the job's noise that no known cause explains.

Axes p, k, c, m, s, d: stage, direction, chunk, microbatch, step, dp rank.
"""

from typing import Final

import numpy as np

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.factors import Factors
from udfs.kernel.diagnosis.levels import (
    ERRORS,
    LEAST_STEP,
    MAD_TO_SIGMA,
    QUIET_STEPS,
    scatter_over_steps,
    slow_series,
)
from udfs.kernel.selection import median_of_all, medians_along

TINY: Final = 1e-9

LEAST_OP: Final = 0.05
ERRORS_OF_OP: Final = 6.0
MANY_OPS: Final = 0.05
"""Ops count as long beyond this log and so many times the usual scatter, where more than this share of
a step's are: a few long ops in every step are the job's noise."""


def rest_of(factors: Factors, order: Ints) -> Floats | None:
    """Log excess of computes over work, causes and noise; None if there is none.

    order   : positions of the steps in the order of time.
    returns : broadcastable to a Tensor.
    """
    p, k, c, m, s, d = factors.noise.shape
    left = np.log(np.maximum(factors.noise, TINY))
    workers = factors.workers
    # Of all workers at once: beyond the quiet steps. Microbatches that differ may be longer in all steps.
    even = order[~workers.is_uneven[order]]
    common = np.zeros_like(workers.common)
    if even.size:
        common[:, even] = _slow_in_time(workers.common[:, even], workers.error)
    # Of one worker, in single steps.
    level = medians_along(left.reshape(p, k, c * m, s, d), 2)
    # The work was fitted to all steps, and is longer than usual where some are.
    level = level + np.log(np.exp(common).mean(axis=1))[:, None, None]
    of_all = np.minimum(common[:, :, None], np.maximum(level, 0.0))
    level = level - of_all
    # The work was fitted to all, and is longer than usual where some are.
    level = level - np.minimum(medians_along(level.reshape(p, k, -1), 2), 0.0)[:, :, None, None]
    scatter = MAD_TO_SIGMA * medians_along(np.abs(level).swapaxes(0, 1).reshape(k, -1), 1)
    least = np.maximum(LEAST_STEP, ERRORS * np.maximum(workers.error, scatter))
    single = np.where(level > least[:, None, None], level, 0.0)
    in_steps = (single + of_all)[:, :, None, None]
    # In all steps, of one microbatch of a stage: the work of others does not explain it.
    left -= in_steps
    place = medians_along(left.reshape(p, k, c * m, s * d), 3).reshape(p, k, c, m, 1, 1)
    place = place - medians_along(place.reshape(p, k, c * m), 2, low=True)[..., None, None, None, None]
    least = np.maximum(LEAST_STEP, ERRORS * workers.error * np.sqrt(c * m / (s * d)))
    in_places = np.where(place > least[:, None, None, None, None], place, 0.0)
    found: Floats = in_steps + in_places + _of_ops(left - in_places)
    return found if found.any() else None


def _of_ops(left: Tensor) -> Tensor:
    """Log excess of single long ops, in steps that have many of them; 0 elsewhere."""
    k, steps = left.shape[1], left.shape[4]
    found = np.zeros_like(left)
    for kind in range(k):
        own = left[:, kind]
        scatter = MAD_TO_SIGMA * median_of_all(np.abs(own).reshape(-1))
        is_long = own > max(LEAST_OP, ERRORS_OF_OP * scatter)
        many = is_long.mean(axis=(0, 1, 2, 4)) > MANY_OPS
        if many.any():
            in_step = np.where(many, 1.0, 0.0).reshape(1, 1, 1, steps, 1)
            found[:, kind] = np.where(is_long, own, 0.0) * in_step
    return found


def _slow_in_time(common: Floats, error: Floats) -> Floats:
    """Log excess of steps over the quiet ones, where significant; shape (k, s)."""
    steps = common.shape[1]
    # What drifts has few quiet steps.
    quiet = np.sort(common, axis=1)[:, : max(1, round(QUIET_STEPS * steps / 2.0))].mean(axis=1)
    series = (common - quiet[:, None])[None, :, :, None]
    error = np.maximum(error, scatter_over_steps(series))[:, None] * np.ones(steps)
    return slow_series(series, error, np.zeros(len(common)), np.arange(steps))[0, ..., 0]
