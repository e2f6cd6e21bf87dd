"""Divide log compute times into a level per worker and step, weights of microbatches, and noise.

Axes p, k, c, m, s, d: stage, direction, chunk, microbatch, step in the order of time, dp rank. All values are
logs of times.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from udfs.kernel.arrays import Floats, Mask
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.levels import MAD_TO_SIGMA, QUANTILE_TO_SIGMA, USUAL_STEPS
from udfs.kernel.selection import median_of_all, medians_along, quantile, quantile_of_all

LEAST_STEPS: Final = 4
"""With fewer steps, the scatter of single ops is not estimated."""

MEDIAN_ERROR: Final = 1.25
"""Standard error of a median over that of a mean."""

LEAST_UNEVEN: Final = 0.012
UNEVEN_ERRORS: Final = 2.5
"""A step is uneven if the standard deviation of its microbatches' log weights exceeds LEAST_UNEVEN, and
UNEVEN_ERRORS standard errors of a weight."""

LEAST_SHARED: Final = 0.3
"""Two halves of the measurements must agree on this share of the variance of microbatches within a step."""

LEAST_SPREAD: Final = 0.01
ERRORS_OF_SHARED: Final = 3.0
"""If no single step is uneven, all steps together are uneven if the halves' covariance exceeds both
LEAST_SPREAD^2 and this number of its standard errors."""

ONE_SIGMA: Final = 0.1587
"""Quantile of normal values one standard deviation below their mean."""

LEAST_LONG: Final = 0.03
ERRORS_OF_LONG: Final = 5.0
MOST_LONG: Final = 0.5
"""Microbatches are rarely heavy if they exceed their peers by LEAST_LONG, and ERRORS_OF_LONG standard errors,
in at most the share MOST_LONG of the steps."""

RESTLESS: Final = 2.0
TINY: Final = 1e-9
"""A step is restless if its ops scatter by more than RESTLESS times the scatter in the median step."""

CLEARLY_LESS: Final = 2.0
"""If the noise from a low quantile of differences is smaller than that from their median by this factor, most
differences contain a long op."""

MOSTLY: Final = 2.0 / 3.0
"""If more than this share of the steps is uneven, all steps are treated as uneven."""

FEW_MICROBATCHES: Final = 4
"""Up to this number of microbatches, levels are lower medians, which one long op does not raise."""


@dataclass(frozen=True)
class Variation:
    """Levels of workers in each step, and the variation of microbatches within a step.

    chunk    : usual log time of a chunk minus the mean over its stage's chunks, shape (p, k, c, 1, 1, 1).
    level    : log time of a worker in a step, without `chunk`, shape (p, k, s, d).
    weight   : log weight of each microbatch relative to level and chunk, 0 in even steps; (1, k, 1, m, s, d).
    error    : standard error of a level due to the scatter of ops, shape (k,).
    restless : factor by which that error is larger in steps in which ops scatter far more, shape (k, s).
    data     : standard error of a level due to the microbatches that a step has, shape (k, s).
    luck     : the same for each dp rank, by its own microbatches, shape (k, s, d).
    is_uneven : bool, shape (s,); steps whose microbatches differ.
    is_single : whether a level is that of one op.
    """

    chunk: Tensor
    level: Floats
    weight: Tensor
    error: Floats
    restless: Floats
    data: Floats
    luck: Floats
    is_uneven: Mask
    is_single: bool = False

    @cached_property
    def error_of_step(self) -> Floats:
        """Standard error of a worker's level in a step, due to ops and microbatches together; (k, s)."""
        return np.hypot(self.error[:, None] * self.restless, medians_along(self.luck, 2))


def levels_and_variation(logs: Tensor) -> Variation:
    """Divide log times of computes into levels of workers by step, and variation within steps."""
    p, k, c, m, s, d = logs.shape
    is_low = m <= FEW_MICROBATCHES
    by_step = medians_along(logs, 3, low=is_low)
    typical = medians_along(by_step.reshape(p, k, c, s * d), 3)
    chunk = (typical - typical.mean(axis=2, keepdims=True))[..., None, None, None]
    level = (by_step - chunk[..., 0, :, :]).mean(axis=2)
    if m * c == 1:
        return _single(level, chunk)
    varied = logs - (level[:, :, None, None] + chunk)
    weight, (scatter, restless) = _weight(varied), _scatter(varied)
    spread = weight[0, :, 0].std(axis=(1, 3))
    uneven = _uneven_steps(varied, weight, spread, scatter * MEDIAN_ERROR / np.sqrt(p * c))
    weight = np.where(uneven[:, None], weight, 0.0)
    beside = varied - weight if uneven.any() else varied
    apart = medians_along(beside, 3, low=is_low).mean(axis=2) if uneven.any() else np.zeros_like(level)
    is_restless = restless > RESTLESS
    if is_restless.any():
        # If about half of a worker's ops are long in a step, chance decides if their median is a long op. A
        # slow worker lengthens its light microbatches too, so their lower quartile shows its level.
        quarter = (m - 1) // 4
        light = np.partition(beside, quarter, axis=3)[:, :, :, quarter].mean(axis=2)
        for kind, steps in enumerate(is_restless):
            usual = medians_along((apart - light)[:, kind, ~steps], 1)
            apart[:, kind, steps] = light[:, kind, steps] + usual[:, None]
    level = level + apart
    error = MEDIAN_ERROR * scatter / np.sqrt(c * m)
    data = MEDIAN_ERROR * np.where(uneven, spread, 0.0) / np.sqrt(m)
    luck = np.broadcast_to(data[..., None], (k, s, d))
    if not is_low:
        # Computed for each rank, because a rank whose own microbatches are equal has no such error.
        own = MEDIAN_ERROR * weight[0, :, 0].std(axis=1) / np.sqrt(m)
        luck = np.maximum(own, medians_along(own, 2)[..., None])
    return Variation(chunk, level, weight, error, restless, data, luck, uneven)


def _single(level: Floats, chunk: Tensor) -> Variation:
    """Return the variation if each worker has one op a step: data if stages share it, otherwise noise."""
    p, k, s, d = level.shape
    weight, calm = np.zeros((1, k, 1, 1, s, d)), np.ones((k, s))
    if s < LEAST_STEPS:
        nothing, even = np.zeros((k, s)), np.zeros(s, dtype=bool)
        luck = np.zeros((k, s, d))
        return Variation(chunk, level, weight, np.zeros(k), calm, nothing, luck, even, is_single=True)
    apart = np.diff(level, axis=2)[:, :, None, None] / np.sqrt(2.0)
    error, _ = _scatter(apart, has_long=True)
    least = np.maximum(LEAST_UNEVEN, UNEVEN_ERRORS * error / np.sqrt(p))
    if d == 2:
        # With data, each rank is the slower one in some steps. If only one ever is, it is slow from time to
        # time. The difference of both is used, because the excess over their lower median is 0 for one.
        changes, between = (np.diff(each)[..., 0] / np.sqrt(2.0) for each in (apart, level[:, :, None, None]))
        of_changes = np.abs(_weight(changes[..., None])[0, :, 0, 0, :, 0])
        series = np.sort(_weight(between[..., None])[0, :, 0, 0, :, 0], axis=1)
        low, middle, high = (quantile(series, at) for at in (ONE_SIGMA, 0.5, 1.0 - ONE_SIGMA))
        is_both_ways = np.minimum(high - middle, middle - low) > least
        data = np.where(is_both_ways, MAD_TO_SIGMA * medians_along(of_changes, 1), 0.0)
    else:
        shared = _weight(apart - medians_along(apart, 5, low=True)[..., None])[0, :, 0, 0]
        data = MAD_TO_SIGMA * medians_along(np.abs(shared).reshape(k, -1), 1)
    if d > 1 and not (data > least).all():
        data = _of_few_long(level, error)
    is_uneven = bool((data > least).all()) and d > 1
    of_data = np.repeat((data if is_uneven else np.zeros(k))[:, None], s, axis=1)
    luck = np.broadcast_to(of_data[..., None], (k, s, d))
    return Variation(chunk, level, weight, error, calm, of_data, luck, np.full(s, is_uneven), is_single=True)


def _of_few_long(level: Floats, error: Floats) -> Floats:
    """Return the root mean square excess of microbatches that are long in few steps; shape (k,).

    Medians over steps do not show rarely heavy microbatches. Long computes are attributed to data if two dp
    ranks have them in different steps, on all stages and in both directions. Otherwise the result is 0,
    because a slow host or replica may be the reason.

    level : shape (p, k, s, d).
    error : standard error of one level, shape (k,).
    """
    over = (level - medians_along(level, 3, low=True)[..., None])[:, :, None, None]
    shared = _weight(over)[0, :, 0, 0]
    least = np.maximum(LEAST_LONG, ERRORS_OF_LONG * error)[:, None, None]
    is_long: Mask = np.asarray((shared > least).all(axis=0))
    number = np.count_nonzero(is_long, axis=0)
    often = is_long[:, (number > 0) & (number <= MOST_LONG * len(is_long))].astype(np.int64)
    both = often.T @ often
    own = np.diagonal(both)
    is_apart = (both < own[:, None]) & (both < own[None])
    if not is_apart.any():
        return np.zeros(len(error))
    found: Floats = np.sqrt(np.square(np.where(is_long, shared, 0.0)).mean(axis=(1, 2)))
    return found


def _weight(varied: Tensor) -> Tensor:
    """Return each microbatch's log excess over the step's level that all stages share, (1, k, 1, m, s, d)."""
    p, k, c, *lanes = varied.shape
    if p * c > 1:
        return medians_along(varied.swapaxes(1, 2).reshape(p * c, k, *lanes), 0, low=True)[None, :, None]
    if k == 1:
        return varied
    # With one measurement for each direction, only an excess that both have is taken as data.
    first, second = varied[0, 0, 0], varied[0, 1, 0]
    nearer = np.where(np.abs(first) < np.abs(second), first, second)
    both = np.where(first * second > 0.0, nearer, 0.0)
    return np.broadcast_to(both, (k, *lanes))[None, :, None]


def _scatter(varied: Tensor, *, has_long: bool = False) -> tuple[Floats, Floats]:
    """Return the noise of single ops, and the factors by which some steps are noisier than the median step.

    The noise is computed from differences between two places that have the same microbatch. These differences
    do not contain the effect of data, and their median does not depend on rare long ops.

    has_long : whether most differences may contain a long op, for example if each is made of four ops.
    returns  : standard deviation, shape (k,), and factors, 1 except in restless steps, shape (k, s).
    """
    p, k, c, *lanes = varied.shape
    by_place = varied.swapaxes(1, 2).reshape(p * c, k, *lanes)
    if p * c > 1:
        pairs = p * c // 2
        apart = np.abs(by_place[: 2 * pairs : 2] - by_place[1 : 2 * pairs : 2]).swapaxes(0, 1)
    else:
        apart = np.abs(by_place[:, :1] - by_place[:, -1:]).swapaxes(0, 1).repeat(k, axis=0)
    found = MAD_TO_SIGMA / np.sqrt(2.0) * np.array([median_of_all(each.reshape(-1)) for each in apart])
    if has_long:
        low = QUANTILE_TO_SIGMA * np.array([quantile_of_all(each.reshape(-1), USUAL_STEPS) for each in apart])
        found = np.where(low < found / CLEARLY_LESS, low, found)
    by_step = apart.mean(axis=(1, 2, 4))
    restless = by_step / np.maximum(medians_along(by_step, 1, low=True), TINY)[:, None]
    return found, np.where(restless > RESTLESS, restless, 1.0)


def _uneven_steps(varied: Tensor, weight: Tensor, spread: Floats, error: Floats) -> Mask:
    """Mark steps with uneven microbatches on which two halves of the measurements agree; bool, shape (s,).

    spread : standard deviation of the weights, shape (k, s).
    error  : standard error of a weight, shape (k,).
    """
    is_uneven: Mask = spread.min(axis=0) > max(LEAST_UNEVEN, UNEVEN_ERRORS * float(error.max()))
    halves = halves_of(varied)
    if halves is None:
        return is_uneven
    first, second = (half - half.mean(axis=(0, 2), keepdims=True) for half in halves)
    shared = (first * second).mean(axis=(0, 2))
    of_all = (np.square(first + second) / 4.0).mean(axis=(0, 2))
    is_uneven &= shared > LEAST_SHARED * of_all
    left = ~is_uneven
    if left.any():
        # Microbatches may be uneven over all steps together, even if no single step shows it.
        one, other, weight = first[:, left], second[:, left], weight[0, :, 0][:, :, left]
        together = float((one * other).mean())
        least = max(LEAST_SPREAD**2, LEAST_SHARED * float(np.square((one + other) / 2.0).mean()))
        least = max(least, ERRORS_OF_SHARED * float(one.std() * other.std()) / np.sqrt(one.size))
        weight = weight - weight.mean(axis=(1, 3), keepdims=True)
        both = LEAST_SHARED * float(np.square(weight).mean(axis=(1, 2, 3)).prod() ** 0.5)
        # Both directions must agree too, because data lengthen both.
        is_shared = len(weight) == 1 or float((weight[0] * weight[1]).mean()) > both
        is_uneven |= together > least and is_shared
    return np.ones_like(is_uneven) if is_uneven.mean() > MOSTLY else is_uneven


def halves_of(rest: Tensor) -> tuple[Floats, Floats] | None:
    """Return two independent measurements of microbatches: by even and odd stages, chunks or directions."""
    p, k, c, *_ = rest.shape
    if p > 1:
        return rest[::2].mean(axis=(0, 1, 2)), rest[1::2].mean(axis=(0, 1, 2))
    if c > 1:
        return rest[:, :, ::2].mean(axis=(0, 1, 2)), rest[:, :, 1::2].mean(axis=(0, 1, 2))
    return (rest[0, 0, 0], rest[0, 1, 0]) if k > 1 else None
