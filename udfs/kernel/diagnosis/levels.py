"""Levels of workers in each step, and by how much they exceed those of peers in the same step.

A fault of a worker, host or stage lengthens all it does in a step: its *level*, the median over microbatches.
Every step has its own peers, so that an onset needs no model. Axes p, k, s, d: stage, kind of op (direction,
or op type), step in the order of time, dp rank; all values are logs of times.
"""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.cause import COMES_AND_GOES
from udfs.kernel.diagnosis.course import ENOUGH_STEPS, before_growth, course_of
from udfs.kernel.diagnosis.hosts import mostly_on_one_host
from udfs.kernel.selection import ascending, medians_along, quantile

USUAL_STEPS: Final = 0.3
"""Quantile over steps that counts as usual: more than half of them may be slow."""

QUIET_STEPS: Final = 1.0 / 6.0
LEAST_QUIET: Final = 3
"""Share of steps, and their least number, that define the usual level if they are clearly faster than the
quantile."""

ERRORS_OF_BASE: Final = 6.0
"""How many standard errors a few quiet steps must be below the level that is usual otherwise."""

LEAST_LEVEL: Final = 0.012
LEAST_STEP: Final = 0.03
"""Log of the least factor that counts as slow, in the mean over steps and in one step."""

ERRORS: Final = 5.0
"""How many standard errors a slow level must be above usual."""

LEAST_HITS: Final = 2
"""With fewer slow steps, none of them known by itself, a worker is not slow."""

SPREADS: Final = 4.5
SPREADS_OF_FEW: Final = 60.0
"""How many times the spread of the closest half of the workers a slow level must be, plus a multiple divided
by their number: with few workers, the closest half is narrow. One healthy job in 100 has a worker above this
(simulated)."""

ENOUGH_CELLS: Final = 12
FEWEST_APART: Final = 3
"""With fewer workers their spread alone does not show what is healthy, and with fewer still nothing does."""

MOST_APART: Final = 0.15
MOST_APART_OF_FEW: Final = 0.06
"""Log by which no healthy worker differs from others; with few workers, whose spread may be wide by chance
alone."""

SIGMAS_BETWEEN: Final = 2.07
"""Standard deviations between the quantiles 0.15 and 0.85 of a normal distribution."""

MAD_TO_SIGMA: Final = 1.4826
QUANTILE_TO_SIGMA: Final = 1.0 / (0.3853 * 2.0**0.5)
"""From the quantile 0.3 of absolute differences of two normal values to the standard deviation of one."""

STEADY: Final = 1.5
TINY: Final = 1e-3
"""A level is steady if its scatter is at most this multiple of its standard error, and at most this log."""


class Usual(NamedTuple):
    """Usual level of each stage, and how far each step is from it.

    base   : shape (p, k).
    common : by which all stages take longer in a step, shape (k, s).
    stage  : beyond both, shape (p, k, s).
    level  : usual level of each stage in each step, the lower median over dp ranks; shape (p, k, s).
    """

    base: Floats
    common: Floats
    stage: Floats
    level: Floats


def usual_levels(
    level: Floats, error: Floats, hosts: Ints, even: Mask, calm: Mask, uneven_error: Floats
) -> Usual:
    """Return the usual level per stage and step; of two peers it is the faster, as faults only lengthen.

    level : shape (p, k, s, d).
    error : standard error of a level, shape (k,). uneven_error : that of steps that are not even.
    hosts : int, shape (p, d); -1 where unknown.
    even  : bool, shape (s,); steps of equal work. They alone show what is usual, if they are enough.
    calm  : bool, shape (s,); steps in which levels scatter by their error alone.
    """
    if np.count_nonzero(even) < LEAST_QUIET:
        even = np.ones_like(even)
    low = _off_host(level, medians_along(level, 3, low=True), error, hosts)
    quiet = _base_of_even(low, error, even, uneven_error)
    low = _beside_most(level, low, quiet, error, calm)
    over = low - quiet[..., None]
    if len(level) == 1:
        return Usual(quiet, over[0], np.zeros_like(low), low)
    clearly = np.maximum(LEAST_STEP, ERRORS_OF_BASE * error)
    common, least = medians_along(over, 0, low=True), np.maximum(over.min(axis=0), 0.0)
    # What one stage does not have is not common, however many of the others do.
    common = np.where(common - least > clearly[:, None], least, common)
    base = _base_of_even(low - common, error, even, uneven_error)
    # A stage that is below its quiet steps is not fast: the others are slow.
    base = np.where(quiet - base > clearly, quiet, base)
    return Usual(base, common, low - common - base[..., None], low)


def _beside_most(level: Floats, low: Floats, quiet: Floats, error: Floats, calm: Mask) -> Floats:
    """If most workers of a stage are slow in a step, correct the usual level by those that are not."""
    over = low - quiet[..., None]
    is_slow = (over > np.maximum(LEAST_STEP, ERRORS_OF_BASE * error)[:, None]) & calm
    if level.shape[3] == 1 or not is_slow.any():
        return low
    p, k, s, d = level.shape
    of_each = _base(level.transpose(0, 3, 1, 2).reshape(p * d, k, s), error).reshape(p, d, k)
    least = (level - of_each.swapaxes(1, 2)[:, :, None]).min(axis=3)
    return np.where(is_slow & (least < over / 2.0), quiet[..., None], low)


def _base_of_even(levels: Floats, error: Floats, even: Mask, uneven_error: Floats) -> Floats:
    """Return the usual level of even steps, or of all steps if uneven ones are clearly faster; (p, k)."""
    if even.all():
        return _base(levels, error)
    found, of_all = _base(levels[..., even], error), _base(levels, uneven_error)
    is_slow = found - of_all > np.maximum(LEAST_STEP, ERRORS_OF_BASE * uneven_error)
    return np.where(is_slow, of_all, found)


def _base(levels: Floats, error: Floats) -> Floats:
    """Return the usual level: a low quantile, or that of a few quiet steps or before a growth; (p, k).

    levels : shape (p, k, s).
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
    """Return the mean of the quiet steps on the last axis, on which values must ascend."""
    number = max(LEAST_QUIET, round(QUIET_STEPS * ordered.shape[-1]))
    mean: Floats = ordered[..., :number].mean(axis=-1)
    return mean


def _off_host(level: Floats, low: Floats, error: Floats, hosts: Ints) -> Floats:
    """If a stage's main host is slow in a step, take the usual level from workers on other hosts."""
    found = low
    for stage, is_elsewhere in mostly_on_one_host(hosts):
        elsewhere = medians_along(level[stage][..., is_elsewhere], 2)
        over = low[stage] - elsewhere
        is_slow = over > np.maximum(LEAST_STEP, ERRORS * error)[:, None]
        if (is_slow.sum(axis=1) >= LEAST_HITS).any():
            found = found.copy() if found is low else found
            found[stage] = np.where(is_slow, elsewhere, found[stage])
    return found


def scatter_over_steps(own: Floats) -> Floats:
    """Return the typical standard deviation over steps, of which half may be slow; shape (k,).

    own : shape (p, k, s, d).
    """
    p, k, s, d = own.shape
    if s < 4:
        return np.zeros(k)
    # Differences from step to step: what begins, ends or grows adds little to them. Low ones, because what
    # comes and goes does so in up to half of the steps.
    apart = np.abs(np.diff(own, axis=2)).transpose(1, 0, 3, 2).reshape(k, p * d, s - 1)
    typical = quantile(np.sort(apart, axis=2), USUAL_STEPS)
    typical = typical[:, (typical > 0.0).any(axis=0)]
    if not typical.size:
        return np.zeros(k)
    scatter: Floats = QUANTILE_TO_SIGMA * medians_along(typical, 1, low=True)
    return scatter


def apart_when_healthy(own: Floats) -> Floats:
    """Return the largest lasting log difference to expect between healthy workers of a stage; (k,).

    own : beyond what is usual in the stage and step; shape (p, k, s, d).
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
    # Up to half of the workers may be slow: the half that lies closest together is healthy.
    apart = np.sort(apart, axis=1)
    half = max(number // 2 - 1, 1)
    spread = MAD_TO_SIGMA / 2.0 * (apart[:, half:] - apart[:, : number - half]).min(axis=1)
    limit: Floats = (SPREADS + SPREADS_OF_FEW / number) * spread
    if number >= ENOUGH_CELLS:
        return np.minimum(limit, MOST_APART)
    return np.clip(limit, LEAST_STEP, MOST_APART_OF_FEW)


class Doubt(NamedTuple):
    """Up to where series of levels may be chance.

    error   : standard error of a level in each step, shape (k, s).
    healthy : what healthy workers may differ by, shape (k,).
    noise   : what the levels of a slow worker scatter by, shape (k,); None: the error.
    known   : bool, shape (p, k, s, d); what is no chance by itself, whatever the errors of all steps.
    is_single : levels of single ops: what comes and goes in one kind alone, or is long in one step, is no
                worker, but long ops.
    """

    error: Floats
    healthy: Floats
    noise: Floats | None = None
    known: Mask | None = None
    is_single: bool = False

    @property
    def typical(self) -> Floats:
        """Standard error of a level in a typical step, shape (k,)."""
        error: Floats = np.sqrt(np.square(self.error).mean(axis=1))
        return error

    @property
    def least_step(self) -> Floats:
        """Least excess in a single step that cannot be chance, shape (k, s)."""
        return np.maximum(LEAST_STEP, np.maximum(ERRORS * self.error, self.healthy[:, None]))


def significant(own: Floats, doubt: Doubt) -> Mask:
    """Return which series are slow by more than chance; bool, shape (p, k, d).

    By its mean: beyond the least level, 5 errors of it, and what healthy workers differ by.
    By its steps: two are beyond the same limits of one step.
    By its known steps: what they add to the mean is beyond the least level and what healthy ones differ by.
    Beside the other direction, if that is slow so: the mean is beyond the least level and 5 errors.

    own : shape (p, k, s, d).
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
    # Beside the other direction.
    is_slow |= is_slow.any(axis=1, keepdims=True) & (mean > least_by_error[None, :, None])
    return is_slow


def _has_trend(series: Floats) -> bool:
    """Return whether a line explains a series better than chance, given the scatter about the line."""
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
    """Return log excess of series that are significantly slow, in their slow steps, else 0; (p, k, s, d).

    own : beyond the peers of the same step, shape (p, k, s, d).
    """
    found, typical, least_step = np.zeros_like(own), doubt.typical, doubt.least_step
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
            # Of a worker that is slow both ways, what is far longer in one of them is a long op.
            is_long = is_slow & (beside < series / 2.0)
            if np.count_nonzero(is_slow & ~is_long) >= LEAST_HITS:
                series = np.where(is_long, beside, series)
                is_slow &= ~is_long | (beside > least)
        slow = series[is_slow]
        level = float(np.sort(slow)[slow.size // 2])
        # A steady level leaves the steps their noise; one that changes is taken as it is.
        is_even = slow.size > 1 and slow.std() <= STEADY * max(float(typical[k]), TINY)
        is_steady = is_even and not _has_trend(slow)
        found[p, k, is_slow, d] = np.maximum(level if is_steady else slow, 0.0)
    return found
