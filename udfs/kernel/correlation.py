"""Correlation between forward and backward times of each worker (model, section 5, end of the table)."""

from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel.arrays import Floats, Ints, common

ALONE: Final = -1

CACHED: Final = 64
"""Most schedules whose pairs are cached."""

CONSTANT: Final = 1e-12
"""Times are constant if the root of their summed squared deviations is below this share of the longest."""


def backward_of_forward(microbatch: npt.NDArray[np.int32], chunks: Ints, forwards: int) -> Ints:
    """Find for each forward compute the backward compute of the same microbatch and model chunk.

    microbatch : int32, shape (compute op, row), forward before backward.
    chunks     : int64, shape (compute op,); model chunk of each.
    forwards   : number of forward computes.
    returns    : number among the backward computes, ALONE without one; shape (forward op, row), or
                 (forward op, 1) where all rows agree.
    """
    microbatch = common(microbatch)
    if microbatch.shape[1] == 1:
        return _partners_of_one(tuple(microbatch[:, 0].tolist()), tuple(chunks.tolist()), forwards)
    return _partners(microbatch, chunks, forwards)


@lru_cache(maxsize=CACHED)
def _partners_of_one(microbatch: tuple[int, ...], chunks: tuple[int, ...], forwards: int) -> Ints:
    """Return the backward computes of one schedule's forwards, cached; callers must not modify them."""
    of_row = np.array(microbatch, dtype=np.int32)[:, None]
    partners = _partners(of_row, np.array(chunks, dtype=np.int64), forwards)
    partners.flags.writeable = False
    return partners


def _partners(microbatch: npt.NDArray[np.int32], chunks: Ints, forwards: int) -> Ints:
    if len(microbatch) == forwards:
        return np.full(microbatch[:forwards].shape, ALONE)
    key = (chunks[:, None] << 32) + microbatch
    order = np.argsort(key, axis=0, kind="stable")
    ordered = np.take_along_axis(key, order, axis=0)
    is_pair = (ordered[1:] == ordered[:-1]) & (order[:-1] < forwards) & (order[1:] >= forwards)
    partner = np.full((forwards, key.shape[1]), ALONE)
    at, row = np.nonzero(is_pair)
    partner[order[at, row], row] = order[at + 1, row] - forwards
    return partner


def paired_times(compute_s: Floats, partner: Ints, forwards: int) -> tuple[Floats, Floats]:
    """Return the forward and backward times of each microbatch; nan where one of them is missing.

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


class Moments(NamedTuple):
    """Counts, means and sums of squares of each worker's pairs of forward and backward times.

    pairs     : float64, shape (worker,); number of complete pairs.
    mean_s    : float64, shape (2, worker); of forwards, and of backwards. [s]
    squares   : float64, shape (2, worker); sums of squared deviations. [s^2]
    together  : float64, shape (worker,); sum of the products of both deviations. [s^2]
    longest_s : float64, shape (2, worker); longest forward, and longest backward. [s]
    """

    pairs: Floats
    mean_s: Floats
    squares: Floats
    together: Floats
    longest_s: Floats

    def joined(self, other: "Moments") -> "Moments":
        """Pool two sets of moments, after Chan, Golub and LeVeque (The American Statistician 37, 1983)."""
        count = self.pairs + other.pairs
        weight = other.pairs / np.maximum(count, 1.0)
        apart_s, cross = other.mean_s - self.mean_s, self.pairs * weight
        return Moments(
            count,
            self.mean_s + apart_s * weight,
            self.squares + other.squares + apart_s**2 * cross,
            self.together + other.together + apart_s[0] * apart_s[1] * cross,
            np.maximum(self.longest_s, other.longest_s),
        )

    def correlation(self) -> Floats:
        """Return Pearson correlations, shape (worker,); nan for under two pairs or for constant values."""
        norm = np.sqrt(self.squares)
        varies = (self.pairs >= 2.0) & (norm > CONSTANT * self.longest_s).all(axis=0)
        correlation = np.full(varies.shape, np.nan)
        np.divide(self.together, norm[0] * norm[1], out=correlation, where=varies)
        return correlation


def worker_moments(forward_s: Floats, backward_s: Floats) -> Moments:
    """Compute the moments of each worker's pairs of forward and backward times.

    forward_s, backward_s : float64, shape (pair, step, worker); nan in backward_s for incomplete pairs. [s]
    """
    pairs, steps, workers = forward_s.shape
    count = np.full(workers, float(pairs * steps))
    if not forward_s.size:
        nothing = np.zeros((2, workers))
        return Moments(count, nothing, nothing, count, nothing)
    complete = ~np.isnan(backward_s)
    is_complete, both_s = bool(complete.all()), [forward_s, backward_s]
    if not is_complete:
        both_s = [np.where(complete, times_s, 0.0) for times_s in both_s]
        count = _per_worker(complete.astype(np.float64))
    mean_s = np.array([_per_worker(times_s) for times_s in both_s]) / np.maximum(count, 1.0)
    apart_s = [times_s - own_mean_s for times_s, own_mean_s in zip(both_s, mean_s, strict=True)]
    if not is_complete:
        apart_s = [each_s * complete for each_s in apart_s]
    return Moments(
        count,
        mean_s,
        np.array([_per_worker(each_s * each_s) for each_s in apart_s]),
        _per_worker(apart_s[0] * apart_s[1]),
        np.array([times_s.max(axis=0).max(axis=0) for times_s in both_s]),
    )


def _per_worker(values: Floats) -> Floats:
    """Sum over pairs and steps, along the longer axis first, which is fast in memory. Shape (worker,)."""
    summed: Floats = values.sum(axis=0).sum(axis=0)
    return summed
