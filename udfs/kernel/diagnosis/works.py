"""Balance the work over stages or microbatches, and say whether a log separates work from slow workers.

Axes p, k, c, m, s, d: stage, direction, chunk, microbatch, step, dp rank.
"""

import math
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.factors import Factors
from udfs.kernel.diagnosis.levels import MAD_TO_SIGMA
from udfs.kernel.diagnosis.totals import TINY_S
from udfs.kernel.selection import median_of_all

MOST_SIGMAS: Final = 4.0
"""Errors of weights are limited to this number of standard deviations: larger ones are misfits, not noise."""

MOST_UNKNOWN: Final = 0.004
"""Largest relative standard error of a worker's speed at which the saving by balanced data is known."""

MOST_HIDDEN: Final = 0.02
"""If by chance more than this share of the pauses counts as heavy data, weights and pauses are not known."""


class Works(NamedTuple):
    """Durations of computes on usual workers without pauses, and with balanced data, stages, or both. [s]"""

    as_is: Tensor
    data: Tensor
    stage: Tensor
    both: Tensor


def works(factors: Factors) -> Works:
    """Return the work as recorded, and balanced over microbatches, over stages and chunks, and over both.

    Balancing microbatches keeps the mean work of each stage, direction and chunk, and does not change steps
    with even microbatches. Balancing stages keeps the mean work of each direction.
    """
    as_is_s = factors.work_s * factors.noise
    by_kind_s = as_is_s.mean(axis=(3, 4, 5), keepdims=True)
    of_all_s = by_kind_s.mean(axis=(0, 2), keepdims=True)
    over_stages_s = as_is_s
    if by_kind_s.shape[0] * by_kind_s.shape[2] > 1:
        even_s = factors.work_s.mean(axis=(0, 2), keepdims=True) * factors.noise
        over_stages_s = _with_mean(even_s, (0, 2, 3, 4, 5), of_all_s)
    weighed = weighed_steps(factors)
    if not weighed.size:
        return Works(as_is_s, as_is_s, over_stages_s, over_stages_s)
    part, slowness = in_steps(factors, weighed), slowness_in_weights(factors)
    part_s = (part.work_s * part.noise).mean(axis=(3, 4, 5), keepdims=True)
    own_s = part.work_s / slowness
    mean_s = own_s.mean(axis=(3, 5), keepdims=True)
    left = left_beside(part, own_s, mean_s)
    left *= slowness * error_of_weights(left / lasting_of_slow(part))
    balanced_s = _with_mean(mean_s * left, (3, 4, 5), part_s)
    both_s = mean_s.mean(axis=(0, 2), keepdims=True) * left
    both_s = _with_mean(both_s, (0, 2, 3, 4, 5), part_s.mean(axis=(0, 2), keepdims=True))
    if weighed.size == as_is_s.shape[4]:
        return Works(as_is_s, balanced_s, over_stages_s, both_s)
    of_data_s, of_both_s = as_is_s.copy(), over_stages_s.copy()
    of_data_s[:, :, :, :, weighed], of_both_s[:, :, :, :, weighed] = balanced_s, both_s
    return Works(as_is_s, of_data_s, over_stages_s, of_both_s)


def left_beside(factors: Factors, own_s: Tensor, given_s: Tensor) -> Tensor:
    """Return the noise factors of computes after their work has changed; noise in seconds stays the same.

    A compute keeps its residual in seconds. It is divided by the larger of the old and the new work, because
    the residual of a light microbatch may be a large multiple of its own work.

    own_s   : old work, without the slowness that is contained in weights. [s]
    given_s : new work, broadcastable to own_s. [s]
    """
    left = own_s * (factors.noise - 1.0)
    left /= np.maximum(np.maximum(own_s, given_s), TINY_S)
    left += 1.0
    return left


def weighed_steps(factors: Factors) -> Ints:
    """Return the steps with unequal microbatches."""
    weight = factors.data.weight
    return np.flatnonzero((weight != weight[:, :1, :, :1]).any(axis=(0, 1, 3)))


def in_steps(factors: Factors, steps: Ints) -> Factors:
    """Restrict all factors that depend on the step, except pauses, to the given steps."""
    if steps.size == factors.noise.shape[4]:
        return factors
    return factors._replace(
        work_s=factors.work_s[:, :, :, :, steps],
        worker=factors.worker[:, :, :, :, steps],
        noise=factors.noise[:, :, :, :, steps],
        log_noise=factors.log_noise[:, :, :, :, steps],
    )


def lasting_of_slow(factors: Factors) -> Floats:
    """Return for dp ranks with a slow worker what the factors leave unexplained over all steps; else 1.

    returns : shape (p, k, 1, 1, 1, d).
    """
    has_slow = (factors.worker != 1.0).any(axis=(0, 1, 2, 3, 4))
    return np.where(has_slow, _lasting(factors), 1.0)


def slowness_in_weights(factors: Factors) -> Floats:
    """Return the factor by which slow workers enlarge the weights of a dp rank, shape (1, k, 1, 1, 1, d).

    A worker that was not found slow in all its slow steps makes the microbatches of its dp rank look heavy.
    The other stages of that dp rank are then faster than the weights predict, by the same factor. With one
    stage, the factor is computed from the worker's speed in steps with even microbatches.
    """
    weighed = weighed_steps(factors)
    if len(factors.noise) == 1:
        even = np.setdiff1d(np.arange(factors.noise.shape[4]), weighed)
        if not even.size:
            return np.ones((1, factors.noise.shape[1], 1, 1, 1, factors.noise.shape[5]))
        lasting = _lasting(in_steps(factors, even))
        return np.asarray(lasting / lasting.mean(axis=5, keepdims=True))
    is_slow = (factors.worker != 1.0).any(axis=(1, 2, 3, 4))
    # If a dp rank is slow in all stages, no healthy stage shows the factor, and it is taken as 1.
    lasting = np.where(is_slow.all(axis=0), 1.0, _lasting(in_steps(factors, weighed)))
    says_so = ~is_slow | is_slow.all(axis=0)
    peers = np.where(says_so[:, None, None, None, None], lasting, np.nan)
    return np.asarray(1.0 / np.nanmedian(peers, axis=0, keepdims=True))


def are_workers_known(factors: Factors) -> bool:
    """Return whether the speed of each worker is known from other stages, or from steps with even data."""
    stages, kinds, chunks, microbatches, steps, _ = factors.noise.shape
    even = steps - weighed_steps(factors).size
    computes = kinds * chunks * microbatches * even
    return stages > 1 or factors.scatter <= MOST_UNKNOWN * math.sqrt(computes)


def _lasting(factors: Factors) -> Floats:
    """Return each worker's total compute time over its total work; shape (p, k, 1, 1, 1, d).

    A ratio of sums, because the residual factors of very short microbatches may be large multiples. 1 for a
    worker whose computes take no time.
    """
    axes = (2, 3, 4)
    work_s = factors.work_s.sum(axis=axes, keepdims=True)
    of_all_s: Floats = (factors.work_s * factors.noise).sum(axis=axes, keepdims=True)
    return np.where(of_all_s > 0.0, of_all_s / np.maximum(work_s, TINY_S), 1.0)


def _with_mean(times_s: Tensor, axes: tuple[int, ...], mean_s: Tensor) -> Tensor:
    """Scale times in place so that their mean over the given axes is mean_s. [s]"""
    scale = mean_s / np.maximum(times_s.mean(axis=axes, keepdims=True), TINY_S)
    scaled_s: Tensor = np.multiply(times_s, scale, out=times_s)
    return scaled_s


def error_of_weights(left: Tensor) -> Floats:
    """Estimate the errors of microbatch weights, as factors, from two halves of the residuals.

    Fitted weights contain a part of the noise. After data are balanced, that noise must be put back, because
    a step ends with its slowest worker.

    left    : residual factors, a tensor.
    returns : shape (1, direction, 1, microbatch, step, dp_rank).
    """
    p, k, c, m, s, d = left.shape
    measured = np.maximum(left, TINY_S)
    measured = np.log(measured, out=measured).swapaxes(1, 2).reshape(p * c, k, m, s, d)
    if p * c > 1:
        error = (measured[::2].mean(axis=0) - measured[1::2].mean(axis=0)) / 2
    else:
        error = np.broadcast_to((measured[0, 0] - measured[0, -1]) / 2, (k, m, s, d))
    error = error - error.mean(axis=(1, 3), keepdims=True)
    most = MOST_SIGMAS * MAD_TO_SIGMA * median_of_all(np.abs(error).reshape(-1))
    return np.asarray(np.exp(np.clip(error, -most, most))[None, :, None])


def hide_pauses(factors: Factors) -> bool:
    """Return whether pauses are too frequent for the weights of uneven microbatches to be known.

    The weight of a microbatch is a median over stages and chunks, or with one of each, over both directions.
    If more than half of these computes pause, the microbatch looks heavy.
    """
    if not factors.data.is_real or factors.pause_s is None:
        return False
    stages, _, chunks = factors.noise.shape[:3]
    struck = np.mean(factors.pause_s > 0.0, axis=(0, 2, 3, 4, 5))
    is_one = stages * chunks == 1
    hidden = float(struck.min()) if is_one else _hidden_share(stages * chunks, float(struck.max()))
    return hidden > MOST_HIDDEN


def _hidden_share(places: int, struck: float) -> float:
    """Return the chance that over half of a microbatch's computes pause, given that one of them pauses.

    struck : share of computes that pause; places are taken to pause independently of each other.
    """
    others = places - 1
    together = np.arange(places // 2, places)
    # In logarithms, because binomial coefficients exceed all floats from about a thousand places on.
    ways = np.array(
        [
            math.lgamma(others + 1) - math.lgamma(each + 1) - math.lgamma(others - each + 1)
            for each in together.tolist()
        ]
    )
    share = min(max(struck, np.finfo(float).tiny), 1.0 - np.finfo(float).eps)
    return float(np.exp(ways + together * np.log(share) + (others - together) * np.log1p(-share)).sum())


def are_told_apart(factors: Factors) -> bool:
    """Return whether other stages and microbatches allow to separate heavy data from slow workers.

    They cannot if most stages of a dp rank, or all workers of a stage, are slow.
    """
    if not factors.data.is_real or not has_slow(factors):
        return True
    is_slow = (factors.worker != 1.0).any(axis=(1, 2, 3, 4))
    stages, dp_ranks = is_slow.shape
    is_hidden = 2 * is_slow.sum(axis=0).max() > stages or (dp_ranks > 1 and is_slow.all(axis=1).any())
    return min(stages, factors.noise.shape[3]) > 1 and not is_hidden


def has_slow(factors: Factors) -> bool:
    """Return whether any worker has slow computes."""
    return bool((factors.worker != 1.0).any())
