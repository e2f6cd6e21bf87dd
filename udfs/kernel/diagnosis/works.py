"""Work of the computes with stages, or microbatches, balanced.

Axes p, k, c, m, s, d: stage, direction, chunk, microbatch, step, dp rank.
"""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.factors import TINY_S, Factors
from udfs.kernel.diagnosis.levels import MAD_TO_SIGMA
from udfs.kernel.selection import median_of_all

MOST_SIGMAS: Final = 4.0
"""Larger measurement errors are misfits of the work, not noise."""


class Works(NamedTuple):
    """Compute durations on usual workers without pauses, for each combination of balancing fixes. [s]"""

    as_is: Tensor
    data: Tensor
    stage: Tensor
    both: Tensor


def works(factors: Factors) -> Works:
    """Work as recorded, balanced over microbatches, balanced over stages and chunks, and both.

    A fix keeps the sum of each stage, direction and chunk, or of each direction.
    """
    work_s, noise = factors.work_s, factors.noise
    as_is_s = work_s * noise
    by_kind_s = as_is_s.mean(axis=(3, 4, 5), keepdims=True)
    of_all_s = by_kind_s.mean(axis=(0, 2), keepdims=True)
    over_stages_s = as_is_s
    if by_kind_s.shape[0] * by_kind_s.shape[2] > 1:
        even_s = work_s.mean(axis=(0, 2), keepdims=True) * noise
        over_stages_s = _with_mean(even_s, (0, 2, 3, 4, 5), of_all_s)
    if not factors.data.is_real:
        return Works(as_is_s, as_is_s, over_stages_s, over_stages_s)
    slowness = slowness_in_weights(factors)
    own_s = work_s / slowness
    balanced_s = own_s.mean(axis=(3, 5), keepdims=True)
    # What is left of a light microbatch is small beside the work that it gets, however large beside its own.
    left = as_is_s / slowness - own_s
    left /= np.maximum(np.maximum(own_s, balanced_s), TINY_S)
    left += 1.0
    left *= slowness * error_of_weights(left / lasting_of_slow(factors), factors.data.weight)
    both_s = balanced_s.mean(axis=(0, 2), keepdims=True)
    return Works(
        as_is_s,
        _with_mean(balanced_s * left, (3, 4, 5), by_kind_s),
        over_stages_s,
        _with_mean(both_s * left, (0, 2, 3, 4, 5), of_all_s),
    )


def lasting_of_slow(factors: Factors) -> Floats:
    """What dp ranks with a slow worker have left for good, 1 elsewhere; shape (p, k, 1, 1, 1, d)."""
    has_slow = (factors.worker != 1.0).any(axis=(0, 1, 2, 3, 4))
    found: Floats = np.exp(np.where(has_slow, _lasting(factors), 0.0))
    return found


def slowness_in_weights(factors: Factors) -> Floats:
    """Part of the weights of microbatches that is the slowness of workers, shape (1, k, 1, 1, 1, d).

    A worker that is slow without being found, or in more steps than it was found in, made the microbatches of
    its dp rank look heavy: most other stages of that dp rank seem quicker by as much.
    """
    is_slow, lasting = (factors.worker != 1.0).any(axis=(1, 2, 3, 4)), _lasting(factors)
    # A dp rank of one stage, or that is slow in all, has no other that tells.
    lasting = np.where(is_slow.all(axis=0) | (len(lasting) == 1), 0.0, lasting)
    says_so = ~is_slow | is_slow.all(axis=0)
    peers = np.where(says_so[:, None, None, None, None], lasting, np.nan)
    found: Floats = np.exp(-np.nanmedian(peers, axis=0, keepdims=True))
    return found


def _lasting(factors: Factors) -> Floats:
    """Mean log of what each worker has left, shape (p, k, 1, 1, 1, d)."""
    found: Floats = factors.log_noise.mean(axis=(2, 3, 4), keepdims=True)
    return found


def _with_mean(times_s: Tensor, axes: tuple[int, ...], mean_s: Tensor) -> Tensor:
    """Scale times so that their mean over the given axes equals mean_s; overwrites times_s. [s]"""
    scale = mean_s / np.maximum(times_s.mean(axis=axes, keepdims=True), TINY_S)
    scaled_s: Tensor = np.multiply(times_s, scale, out=times_s)
    return scaled_s


def error_of_weights(left: Tensor, weight: Floats) -> Floats:
    """Factors that scatter like the error of microbatch weights, from the difference of two halves.

    The weights took with them their share of the noise, which a fix of the data does not take away: steps end
    with the slowest. Equal weights of a step took none.

    left    : what is left beside work; Tensor.
    weight  : of the microbatches, shape (direction, microbatch, step, dp_rank).
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
    is_weighed = (weight != weight[:, :1, :, :1]).any(axis=(1, 3), keepdims=True)
    return np.asarray(np.exp(np.clip(error, -most, most) * is_weighed)[None, :, None])
