"""Compare each worker's level (its median log op time in a step) with the levels of its peers in that step.

The *level* of a worker is the median log time of its ops over the microbatches of a step. A fault of a
worker, host or stage raises it. Because each step is compared separately, a fault may begin in any step. Axes
p, k, s, d: stage, kind of op (direction, or op type), step in the order of time, dp rank; all values are
logs.
"""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.cause import COMES_AND_GOES
from udfs.kernel.diagnosis.course import ENOUGH_STEPS, before_growth, course_of
from udfs.kernel.diagnosis.hosts import mostly_on_one_host
from udfs.kernel.selection import ascending, medians_along, quantile

USUAL_STEPS: Final = 0.3
"""Quantile over steps that counts as usual, so that more than half of the steps may be slow."""

QUIET_STEPS: Final = 1.0 / 6.0
LEAST_QUIET: Final = 3
"""The fastest steps, of this share and at least this number, define the usual level if they are clearly
faster than the quantile USUAL_STEPS."""

ERRORS_OF_BASE: Final = 6.0
"""The fastest steps are clearly faster if they are this number of standard errors below that quantile."""

LEAST_LEVEL: Final = 0.012
LEAST_STEP: Final = 0.03
"""Least log factors that count as slow: in the mean over steps, and in a single step."""

ERRORS: Final = 5.0
"""A slow level is this number of standard errors above the usual level."""

LEAST_HITS: Final = 2
"""A worker is slow by its single steps if this number of steps is significantly slow."""

SPREADS: Final = 4.5
SPREADS_OF_FEW: Final = 60.0
"""A slow level exceeds (SPREADS + SPREADS_OF_FEW / n) times the spread of the closest half of n workers. One
simulated healthy job in 100 has a worker above this."""

ENOUGH_CELLS: Final = 12
FEWEST_APART: Final = 3
"""With fewer than ENOUGH_CELLS workers, the limit from their spread is bounded below by LEAST_STEP; with
fewer than FEWEST_APART, it is LEAST_STEP."""

MOST_APART: Final = 0.15
MOST_APART_OF_FEW: Final = 0.06
"""Upper bounds of the limit from the spread of workers, with at least ENOUGH_CELLS workers and with fewer."""

SIGMAS_BETWEEN: Final = 2.07
"""Standard deviations between the quantiles 0.15 and 0.85 of a normal distribution."""

MAD_TO_SIGMA: Final = 1.4826
QUANTILE_TO_SIGMA: Final = 1.0 / (0.3853 * 2.0**0.5)
"""Standard deviation of normal values, over the quantile 0.3 of absolute differences between two of them."""

STEADY: Final = 1.5
TINY: Final = 1e-3
"""A level is steady if its standard deviation over slow steps is at most STEADY times its standard error, or
at most STEADY * TINY."""


class Usual(NamedTuple):
    """Usual level of each stage, and the deviation of each step from it: level = base + common + stage.

    base   : usual level of a stage over the steps, shape (p, k).
    common : excess of a step that all stages have, shape (k, s).
    stage  : excess of a step that only the stage has, shape (p, k, s).
    level  : usual level of a stage in a step, the lower median over dp ranks; shape (p, k, s).
    """

    base: Floats
    common: Floats
    stage: Floats
    level: Floats


def usual_levels(
    level: Floats, error: Floats, hosts: Ints, even: Mask, calm: Mask, uneven_error: Floats
) -> Usual:
    """Return the usual levels of stages: lower medians over dp ranks, because faults only lengthen ops.

    level : shape (p, k, s, d).
    error, uneven_error : standard error of a level, without and with chance effects of data; shape (k,).
    hosts : int, shape (p, d); -1 where unknown.
    even  : bool, shape (s,); steps of equal work, which define the base unless all steps give a lower one.
    calm  : bool, shape (s,); steps in which the levels of healthy workers differ only by `error`.
    """
    if np.count_nonzero(even) < LEAST_QUIET:
        even = np.ones_like(even)
    of_all = medians_along(level, 3, low=True)
    low = of_all.copy()
    for stage, is_elsewhere in mostly_on_one_host(hosts):
        # If a stage's main host is slow, workers on other hosts show what is usual.
        elsewhere = medians_along(level[stage][..., is_elsewhere], 2)
        is_slow = of_all[stage] - elsewhere > np.maximum(LEAST_STEP, ERRORS * error)[:, None]
        if (is_slow.sum(axis=1) >= LEAST_HITS).any():
            low[stage] = np.where(is_slow, elsewhere, low[stage])
    quiet = _base_of_even(low, error, even, uneven_error)
    low = _beside_most(level, low, quiet, error, calm)
    over = low - quiet[..., None]
    if len(level) == 1:
        return Usual(quiet, over[0], np.zeros_like(low), low)
    clearly = np.maximum(LEAST_STEP, ERRORS_OF_BASE * error)
    common, least = medians_along(over, 0, low=True), np.maximum(over.min(axis=0), 0.0)
    # An excess that one stage lacks is not common to all.
    common = np.where(common - least > clearly[:, None], least, common)
    base = _base_of_even(low - common, error, even, uneven_error)
    # A stage's base is never below its level in quiet steps: if it seems so, the other stages are slow.
    base = np.where(quiet - base > clearly, quiet, base)
    return Usual(base, common, low - common - base[..., None], low)


def _beside_most(level: Floats, low: Floats, quiet: Floats, error: Floats, calm: Mask) -> Floats:
    """Return usual levels (p, k, s), replaced by `quiet` in steps in which most workers of a stage are slow.

    Most workers are slow if the stage exceeds its quiet level, and some worker exceeds its own usual level by
    less than half as much.

    low, quiet : lower medians over dp ranks (p, k, s), and the stage's level in quiet steps (p, k).
    """
    over = low - quiet[..., None]
    is_slow = (over > np.maximum(LEAST_STEP, ERRORS_OF_BASE * error)[:, None]) & calm
    if level.shape[3] == 1 or not is_slow.any():
        return low
    p, k, s, d = level.shape
    of_each = _base(level.transpose(0, 3, 1, 2).reshape(p * d, k, s), error).reshape(p, d, k)
    least = (level - of_each.swapaxes(1, 2)[:, :, None]).min(axis=3)
    return np.where(is_slow & (least < over / 2.0), quiet[..., None], low)


def _base_of_even(levels: Floats, error: Floats, even: Mask, uneven_error: Floats) -> Floats:
    """Return the usual level over steps with even data, or over all if that is clearly lower; (p, k)."""
    if even.all():
        return _base(levels, error)
    found, of_all = _base(levels[..., even], error), _base(levels, uneven_error)
    is_slow = found - of_all > np.maximum(LEAST_STEP, ERRORS_OF_BASE * uneven_error)
    return np.where(is_slow, of_all, found)


def _base(levels: Floats, error: Floats) -> Floats:
    """Return the usual level over steps: a low quantile, or the level of the fastest steps if clearly lower.

    A level that grows until the last step counts as it was before it grew, if that is lower.

    levels  : shape (p, k, s).
    returns : shape (p, k).
    """
    ordered = np.sort(levels, axis=2)
    usual = quantile(ordered, USUAL_STEPS)
    steps = levels.shape[2]
    if steps < 2 * LEAST_QUIET:
        return usual
    quiet = quietest(ordered)
    found = np.where(usual - quiet > np.maximum(LEAST_STEP, ERRORS_OF_BASE * error), quiet, usual)
    third = steps // 3
    grown = levels[..., -third:].mean(axis=2) - levels[..., :third].mean(axis=2)
    for p, k in np.argwhere(grown > np.maximum(LEAST_LEVEL, ERRORS * error)).tolist():
        found[p, k] += min(before_growth(levels[p, k] - found[p, k], float(error[k])), 0.0)
    return found


def quietest(ordered: Floats) -> Floats:
    """Return the mean of the lowest QUIET_STEPS of the values on the last axis, which must be ascending."""
    number = max(LEAST_QUIET, round(QUIET_STEPS * ordered.shape[-1]))
    mean: Floats = ordered[..., :number].mean(axis=-1)
    return mean


def scatter_over_steps(own: Floats) -> Floats:
    """Return the typical standard deviation of a worker's level over steps, half of which may be slow.

    own     : excess over peers, shape (p, k, s, d).
    returns : shape (k,).
    """
    p, k, s, d = own.shape
    if s < 4:
        return np.zeros(k)
    # Slowness that begins, ends or grows adds little to differences between successive steps. Intermittent
    # slowness enlarges up to half of them, so a low quantile is used.
    apart = np.abs(np.diff(own, axis=2)).transpose(1, 0, 3, 2).reshape(k, p * d, s - 1)
    typical = quantile(np.sort(apart, axis=2), USUAL_STEPS)
    typical = typical[:, (typical > 0.0).any(axis=0)]
    if not typical.size:
        return np.zeros(k)
    scatter: Floats = QUANTILE_TO_SIGMA * medians_along(typical, 1, low=True)
    return scatter


def apart_when_healthy(own: Floats) -> Floats:
    """Return the largest lasting log difference to expect between healthy workers of a stage; shape (k,).

    own : excess over the usual level of stage and step, shape (p, k, s, d).
    """
    k, d = own.shape[1], own.shape[3]
    typical = quantile(ascending(own, 2), USUAL_STEPS)
    if d < 2:
        return np.zeros(k)
    if d == 2:
        apart = (typical[..., 1] - typical[..., 0]).T / np.sqrt(2.0)
    else:
        apart = np.delete(np.sort(typical, axis=2), (d - 1) // 2, axis=2).swapaxes(0, 1).reshape(k, -1)
    number = apart.shape[1]
    if number < FEWEST_APART:
        return np.full(k, LEAST_STEP)
    # Up to half of the workers may be slow, so the half with the smallest spread is taken as healthy.
    apart = np.sort(apart, axis=1)
    half = max(number // 2 - 1, 1)
    spread = MAD_TO_SIGMA / 2.0 * (apart[:, half:] - apart[:, : number - half]).min(axis=1)
    limit: Floats = (SPREADS + SPREADS_OF_FEW / number) * spread
    if number >= ENOUGH_CELLS:
        return np.minimum(limit, MOST_APART)
    return np.clip(limit, LEAST_STEP, MOST_APART_OF_FEW)


class Doubt(NamedTuple):
    """Limits up to which an excess of levels may be due to chance.

    error   : standard error of a level in each step, shape (k, s).
    healthy : largest lasting difference between healthy workers, shape (k,).
    noise   : standard deviation over steps of a slow worker's level, shape (k,); None if equal to the error.
    known   : bool, shape (p, k, s, d); where the excess of a step is significant by itself.
    is_single : whether a level is that of a single op. Intermittent slowness of one kind of op, and slowness
                in only one step, then count as long ops, and not as a slow worker.
    """

    error: Floats
    healthy: Floats
    noise: Floats | None = None
    known: Mask | None = None
    is_single: bool = False

    @property
    def least_step(self) -> Floats:
        """Least significant excess of a single step, shape (k, s)."""
        return np.maximum(LEAST_STEP, np.maximum(ERRORS * self.error, self.healthy[:, None]))


def significant(own: Floats, doubt: Doubt) -> Mask:
    """Return which workers and kinds of op are significantly slow; bool, shape (p, k, d).

    One of these must hold. The mean over steps exceeds LEAST_LEVEL, ERRORS standard errors, and the
    difference between healthy workers. Two steps exceed LEAST_STEP, ERRORS standard errors of a step, and
    that difference. The known steps alone raise the mean above LEAST_LEVEL and that difference. Or the worker
    is slow in the other direction by one of these rules, and the mean exceeds LEAST_LEVEL and ERRORS standard
    errors.

    own : excess over peers, shape (p, k, s, d).
    """
    steps, healthy = own.shape[2], doubt.healthy
    if not own.max(initial=0.0) > LEAST_LEVEL:
        return np.zeros((*own.shape[:2], own.shape[3]), dtype=bool)
    mean = own.mean(axis=2)
    least_by_error = np.maximum(LEAST_LEVEL, ERRORS * np.sqrt(np.square(doubt.error).mean(axis=1) / steps))
    by_mean = mean > np.maximum(least_by_error, healthy)[None, :, None]
    by_steps = (own > doubt.least_step[None, :, :, None]).sum(axis=2) >= min(LEAST_HITS, steps)
    is_slow: Mask = by_mean | by_steps
    if doubt.known is not None:
        of_known = np.where(doubt.known, own, 0.0).mean(axis=2)
        is_slow |= of_known > np.maximum(LEAST_LEVEL, healthy)[None, :, None]
    is_slow |= is_slow.any(axis=1, keepdims=True) & (mean > least_by_error[None, :, None])
    return is_slow


def _has_trend(series: Floats) -> bool:
    """Return whether a line through the series rises or falls significantly, given the scatter about it."""
    if series.size < ENOUGH_STEPS:
        return False
    in_time = np.arange(series.size) - (series.size - 1) / 2.0
    own = series - series.mean()
    slope = float(in_time @ own) / float(in_time @ in_time)
    explained = slope**2 * float(in_time @ in_time)
    left = float(own @ own) - explained
    is_sure = explained * (series.size - 2) > ERRORS**2 * left
    return is_sure and abs(slope) * (series.size - 1) > LEAST_LEVEL


def slow_series(own: Floats, doubt: Doubt) -> Floats:
    """Return the log excess of significantly slow workers in their slow steps, and 0 elsewhere; (p, k, s, d).

    own : excess over the peers of the same step, shape (p, k, s, d).
    """
    found, least_step = np.zeros_like(own), doubt.least_step
    typical = np.sqrt(np.square(doubt.error).mean(axis=1))
    noise = typical if doubt.noise is None else doubt.noise
    for p, k, d in np.argwhere(significant(own, doubt)).tolist():
        series, least = own[p, k, :, d], least_step[k]
        course = course_of(series, float(noise[k]))
        is_slow = course.is_slow | (series > least)
        if doubt.is_single:
            if np.count_nonzero(is_slow) < min(LEAST_HITS, is_slow.size):
                continue
            beside = own[p, :, :, d].min(axis=0)
            is_apart = np.median(beside[is_slow]) < np.median(series[is_slow]) / 2.0
            if is_apart and course.kind == COMES_AND_GOES:
                continue
            # If a worker is slow in both directions, a step that is far longer in one has a long op.
            is_long = is_slow & (beside < series / 2.0)
            if np.count_nonzero(is_slow & ~is_long) >= LEAST_HITS:
                series = np.where(is_long, beside, series)
                is_slow &= ~is_long | (beside > least)
        slow = series[is_slow]
        level = float(np.sort(slow)[slow.size // 2])
        # A steady excess is one number, so that the steps keep their noise; any other differs by step.
        is_even = slow.size > 1 and slow.std() <= STEADY * max(float(typical[k]), TINY)
        is_steady = is_even and not _has_trend(slow)
        found[p, k, is_slow, d] = np.maximum(level if is_steady else slow, 0.0)
    return found
