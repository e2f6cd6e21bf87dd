"""Forward/backward correlation within each worker (model, section 5, last row of the table)."""

from typing import Final

import numpy as np
import numpy.typing as npt

from udfs.kernel.program import Floats, Ints

ALONE: Final = -1

CONSTANT: Final = 1e-12
"""Times that differ by less than this share of the largest do not vary: what is left is rounding."""


def backward_of_forward(microbatch: npt.NDArray[np.int32], chunks: Ints, forwards: int) -> Ints:
    """Which backward compute belongs to each forward compute: same microbatch, same model chunk.

    microbatch : int32, shape (compute op, row), forward before backward.
    chunks     : int64, shape (compute op,); model chunk of each.
    forwards   : number of forward computes.
    returns    : number among the backward computes, ALONE where there is none; shape (forward op, row), or
                 (forward op, 1) where all rows agree.
    """
    if (microbatch == microbatch[:, :1]).all():
        microbatch = microbatch[:, :1]
    if len(microbatch) == forwards:
        return np.full(microbatch[:forwards].shape, ALONE)
    key = (chunks[:, None] << 32) + microbatch
    same = key[:forwards, None] == key[None, forwards:]
    return np.where(same.any(axis=1), same.argmax(axis=1), ALONE)


def paired_times(compute_s: Floats, partner: Ints, forwards: int) -> tuple[Floats, Floats]:
    """Forward and backward times of the same microbatch; nan where one is missing.

    compute_s : float64, shape (compute op, row), forward before backward. [s]
    partner   : from `backward_of_forward`.
    returns   : two float64 arrays, shape (forward op, row). [s]
    """
    forward_s, backward_s = compute_s[:forwards], compute_s[forwards:]
    if (partner == ALONE).all():
        return forward_s, np.full_like(forward_s, np.nan)
    if partner.shape[1] == 1:
        paired_s = backward_s[partner[:, 0]]
    else:
        paired_s = np.take_along_axis(backward_s, partner, axis=0)
    missing = partner == ALONE
    return forward_s, np.where(missing, np.nan, paired_s) if missing.any() else paired_s


def worker_correlation(forward_s: Floats, backward_s: Floats) -> Floats:
    """Pearson correlation of each worker's pairs.

    forward_s, backward_s : float64, shape (pair, worker); nan in backward_s where a pair is incomplete. [s]
    returns               : float64, shape (worker,); nan where a side does not vary.
    """
    if len(forward_s) < 2:
        return np.full(forward_s.shape[1], np.nan)
    complete = ~np.isnan(backward_s)
    if complete.all():
        forward_dev = forward_s - forward_s.mean(axis=0)
        backward_dev = backward_s - backward_s.mean(axis=0)
    else:
        count = np.maximum(complete.sum(axis=0), 1)
        forward_s, backward_s = (np.where(complete, times_s, 0.0) for times_s in (forward_s, backward_s))
        forward_dev = np.where(complete, forward_s - forward_s.sum(axis=0) / count, 0.0)
        backward_dev = np.where(complete, backward_s - backward_s.sum(axis=0) / count, 0.0)
    forward_norm, backward_norm = (np.sqrt((dev**2).sum(axis=0)) for dev in (forward_dev, backward_dev))
    varies = (forward_norm > CONSTANT * forward_s.max(axis=0)) & (
        backward_norm > CONSTANT * backward_s.max(axis=0)
    )
    together = (forward_dev * backward_dev).sum(axis=0)
    correlation = np.full(together.shape, np.nan)
    np.divide(together, forward_norm * backward_norm, out=correlation, where=varies)
    return correlation
