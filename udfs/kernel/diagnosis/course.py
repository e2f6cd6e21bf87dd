"""Find the steps in which a worker, stage or link is slow, and the pattern that these steps form.

A series has one value for each step, in the order of time: the logarithm of the factor by which one worker,
stage or link took longer than its peers.
"""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.cause import ALWAYS, COMES_AND_GOES, FROM, GROWS, UNTIL

NEARLY_ALL: Final = 0.9
"""A stretch counts as slow if this share of its steps is slow: a few steps may look usual by chance."""

ERRORS: Final = 3.0
"""Least slow level, and least improvement of a ramp over constant levels, in standard errors of a step."""

ENOUGH_STEPS: Final = 6
"""With fewer steps, no series counts as growing."""

LATEST_START: Final = 2.0 / 3.0
"""Growth must begin within this first share of the steps, because a later ramp looks like a level."""

GROWTH: Final = 1.0 / 3.0
"""The mean of the last third of growth exceeds that of the first third by this share of the former."""

BETTER: Final = 0.7
"""A ramp's sum of squared residuals must be at most this share of that of one or two constant levels."""


class Course(NamedTuple):
    """Steps in which something was slow, and the pattern that they form.

    is_slow : bool, shape (step,); whether a step counts as slow.
    kind    : ALWAYS, FROM, UNTIL, COMES_AND_GOES or GROWS.
    """

    is_slow: Mask
    kind: int


def course_of(series: Floats, error: float) -> Course:
    """Classify in which steps a series is slow: always, from or until a step, on and off, or growing.

    series : log factors, shape (step,), in the order of time.
    error  : standard error of one value of the series.
    """
    steps, most = len(series), float(series.max())
    # How slow the slow steps are: the upper median of the steps that are clearly above usual.
    slow = np.sort(series[series > max(ERRORS * error, most / 3.0)])
    level = float(slow[len(slow) // 2]) if slow.size else most
    is_slow: Mask = series > level / 2.0
    grown = _growth(series, error) if steps >= ENOUGH_STEPS else None
    if grown is not None:
        return Course(np.arange(steps) >= grown, GROWS)
    # The consecutive steps [first, end) with the largest sum of series - level / 2.
    total = np.zeros(steps + 1)
    np.cumsum(series - level / 2.0, out=total[1:])
    end = int((total - np.minimum.accumulate(total)).argmax())
    first = int(total[: end + 1].argmin())
    number, inside = int(is_slow.sum()), int(is_slow[first:end].sum())
    is_one = inside >= NEARLY_ALL * (end - first) and number - inside <= (1.0 - NEARLY_ALL) * (end - first)
    if number == steps or (is_one and end - first == steps):
        return Course(np.ones(steps, dtype=bool), ALWAYS)
    if is_one and end - first > 1 and (first == 0 or end == steps):
        in_stretch = np.zeros(steps, dtype=bool)
        in_stretch[first:end] = True
        return Course(in_stretch, UNTIL if first == 0 else FROM)
    return Course(is_slow, COMES_AND_GOES)


def before_growth(series: Floats, error: float) -> float:
    """Return the constant level before the growth, if a series grows until its end, and else 0."""
    steps = len(series)
    if steps < ENOUGH_STEPS:
        return 0.0
    product, length = _along_ramps(series)
    sums = length * (length + 1) / 2.0
    together = product - sums * series.mean()
    slope = together / (length * (length + 1) * (2 * length + 1) / 6.0 - sums * sums / steps)
    best = int((slope * together).argmax())
    level = float(series.mean() - slope[best] * sums[best] / steps)
    return 0.0 if _growth(series - level, error) is None else level


def _along_ramps(series: Floats) -> tuple[Floats, Ints]:
    """Return the scalar products of a series with ramps 1, 2, ... from each early step to the end.

    returns : products, and lengths of the ramps in steps; both of shape (ramp,).
    """
    steps = len(series)
    first = np.arange(max(1, int(LATEST_START * steps)))
    over = np.cumsum(series[::-1])[::-1][first]
    moment = np.cumsum((np.arange(steps) * series)[::-1])[::-1][first]
    return moment - (first - 1) * over, steps - first


def _growth(series: Floats, error: float) -> int | None:
    """Return the step from which a series grows until its end; None if it does not."""
    steps = len(series)
    third = steps // 3
    if series[-third:].sum() <= series[:third].sum():
        return None
    squares = float(series @ series)
    product, length = _along_ramps(series)
    left = squares - product * product * 6.0 / (length * (length + 1) * (2 * length + 1))
    found = int(left.argmin())
    best = float(left[found])
    # Compared with a ramp: one constant level, or two levels with a change between two steps.
    total, count = np.cumsum(series), np.arange(1, steps)
    before, after = total[:-1] ** 2 / count, (total[-1] - total[:-1]) ** 2 / (steps - count)
    flat = squares - max(float((before + after).max()), float(total[-1]) ** 2 / steps)
    if flat - best <= (ERRORS * error) ** 2 or best >= BETTER * flat:
        return None
    part = max((steps - found) // 3, 1)
    early, late = float(series[found : found + part].mean()), float(series[-part:].mean())
    return found if late - early > GROWTH * abs(late) else None
