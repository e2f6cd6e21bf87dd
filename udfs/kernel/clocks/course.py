"""How a clock goes over the steps: its offset, drift and jumps, and its scatter around these."""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.clocks.ties import MAD_TO_SIGMA, RESOLUTION_S, bends_s, middle_of_known

MOST_STEPS: Final = 12
"""A clock that was set more often is followed step by step."""

SUDDEN: Final = 7.0
"""A jump is this much larger than the standard error of the difference of its two sides."""

SURE: Final = 6.0
"""A single step this many standard deviations away from the course is due to the clock, not chance."""

SHORTEST: Final = 2
"""Least steps of the job on each side of a jump; a single one is followed step by step."""

FEW: Final = 8
"""With fewer steps, noise and clock cannot be separated: each offset is used as estimated."""

NOT_DRIFT: Final = 1e-6
"""A leap counts only if, after removing a drift, this part of it remains."""

MOST_DRIFT: Final = 1e-3
"""Largest drift of a real clock; a larger one is a jump so near to an end that a line fits it. [s/s]"""

UNLIKE: Final = 3.0
ENOUGH_CLOCKS: Final = 5
ROUNDS: Final = 5
POLISHES: Final = 8
FAR: Final = 3.0


class Course(NamedTuple):
    """Courses over the steps of clocks that can be compared with each other; float64.

    ahead_s   : shape (clock, step); the course where it holds, the step's own estimate where it does not. [s]
    drift     : shape (clock,); against the mean of the part. [s/s]
    scatter_s : shape (clock,); standard deviation of single steps about the course. [s]
    is_leap   : bool, shape (clock, step - 1); where a clock was set, between a step and the next.
    """

    ahead_s: Floats
    drift: Floats
    scatter_s: Floats
    is_leap: Mask


def course(ahead_s: Floats, time_s: Floats) -> Course:
    """Fit offset, drift and jumps to each clock.

    ahead_s : float64, shape (clock, step); nan if unknown. [s]
    time_s  : float64, shape (step,); when each step began. [s]
    """
    known = np.isfinite(ahead_s)
    clocks, steps = ahead_s.shape
    segment = np.zeros((clocks, steps), dtype=np.int64)
    if steps < FEW:
        never = np.zeros((clocks, max(steps - 1, 0)), dtype=bool)
        return Course(np.where(known, ahead_s, 0.0), np.zeros(clocks), _scatter(ahead_s, time_s), never)
    values = np.where(known, ahead_s, 0.0)
    time_s = time_s - time_s.mean()
    scatter = _scatter(ahead_s, time_s)
    smooth = _calm(values, known)
    changed = np.arange(clocks)
    for _ in range(MOST_STEPS):
        fit, _ = _fit(smooth[changed], time_s, segment[changed], known[changed].astype(float))
        changed = changed[
            _split(smooth[changed] - fit, time_s, segment, changed, scatter[changed], known[changed])
        ]
        if not len(changed):
            break
    fit, drift = _fit(values, time_s, segment, known.astype(float))
    spread = _spread(np.abs(values - fit), known)
    for _ in range(ROUNDS):
        weight = known / (1.0 + ((values - fit) / (FAR * spread[:, None])) ** 2)
        fit, drift = _fit(values, time_s, segment, weight)
        spread = _spread(np.abs(values - fit), known)
    wild = np.flatnonzero(np.abs(drift) > MOST_DRIFT)
    if len(wild):
        drift[wild] = 0.0
        fit[wild] = _middles(values[wild], segment[wild], known[wild])
        spread[wild] = _spread(np.abs(values[wild] - fit[wild]), known[wild])
    return Course(fit, drift, spread, np.diff(segment, axis=1) > 0)


def levelled(ahead_s: Floats, time_s: Floats, part: Ints) -> Floats:
    """Return clock offsets after removal of the motion that most connected clocks share; same shape. [s]

    A clock that is set moves the mean, so that all the others seem to be set a little the other way. What
    most clocks do beside their drift, step by step, is the mean's doing; that is taken away. So is the drift
    that most have: of the mean's leap it is what a line fits, and no clock can be seen to drift alone.

    ahead_s : float64, shape (clock, step); nan if unknown. [s]
    """
    if ahead_s.shape[1] < FEW:
        return ahead_s
    known = np.isfinite(ahead_s)
    values, time_s = np.where(known, ahead_s, 0.0), time_s - time_s.mean()
    whole = np.zeros(values.shape, dtype=np.int64)
    weight = known.astype(float)
    for _ in range(POLISHES):
        off_s = values - _fit(values, time_s, whole, weight)[0]
        for number in np.unique(part).tolist():
            own = part == number
            common_s = np.where(known[own], off_s[own], np.nan)
            middle_s = np.nan_to_num(middle_of_known(common_s))
            values[own] -= middle_s
            off_s[own] -= middle_s
        weight = known / (1.0 + (off_s / (FAR * _spread(np.abs(off_s), known)[:, None])) ** 2)
    drift = _fit(values, time_s, whole, weight)[1]
    for number in np.unique(part).tolist():
        own = part == number
        values[own] -= np.median(drift[own]) * time_s
    return np.where(known, values, np.nan)


def _scatter(ahead_s: Floats, time_s: Floats) -> Floats:
    """Return the standard deviation of single steps, hardly affected by drift and few jumps; (clock,). [s]

    Clocks are read alike, so that none scatters many times as much as the others: that would be jumps.
    """
    scatter = np.full(len(ahead_s), RESOLUTION_S)
    if ahead_s.shape[1] > 2:
        middles = middle_of_known(np.ascontiguousarray(bends_s(ahead_s, time_s).T)) * MAD_TO_SIGMA
        scatter = np.maximum(np.nan_to_num(middles), RESOLUTION_S)
    if len(scatter) >= ENOUGH_CLOCKS:
        scatter = np.minimum(scatter, UNLIKE * np.median(scatter))
    return scatter


def _calm(values: Floats, known: Mask) -> Floats:
    """Return the running median of three steps, so that no single outlier looks like a jump."""
    before, after = np.roll(values, 1, axis=1), np.roll(values, -1, axis=1)
    before[:, 0], after[:, -1] = values[:, 0], values[:, -1]
    calm = np.maximum(np.minimum(before, values), np.minimum(np.maximum(before, values), after))
    calm[:, [0, -1]] = values[:, [0, -1]]
    return np.where(known, calm, 0.0)


def _fit(values: Floats, time_s: Floats, segment: Ints, weight: Floats) -> tuple[Floats, Floats]:
    """Fit a level per segment and a drift per clock by weighted least squares; return fit and drift."""
    clocks, width = len(values), int(segment.max(initial=0)) + 1
    place = (segment + width * np.arange(clocks)[:, None]).ravel()

    def level(each: Floats) -> Floats:
        total = np.bincount(place, (weight * each).ravel(), clocks * width)
        count = np.bincount(place, weight.ravel(), clocks * width)
        mean: Floats = (total / np.where(count > 0.0, count, 1.0))[place].reshape(values.shape)
        return mean

    times = np.broadcast_to(time_s, values.shape)
    off, late = values - level(values), times - level(times)
    square = (weight * late * late).sum(axis=1)
    drift = (weight * late * off).sum(axis=1) / np.where(square > 0.0, square, 1.0)
    return values - off + drift[:, None] * late, drift


def _middles(values: Floats, segment: Ints, known: Mask) -> Floats:
    """Return at each step of a clock the median of the segment with the step; same shape as values."""
    levels = np.zeros_like(values)
    for level, value, own, is_known in zip(levels, values, segment, known, strict=True):
        for number in np.unique(own[is_known]).tolist():
            level[own == number] = np.median(value[(own == number) & is_known])
    return levels


def _split(rest: Floats, time_s: Floats, segment: Ints, clocks: Ints, scatter: Floats, known: Mask) -> Mask:
    """Split segments in place where their largest jump is significant; return which clocks were split.

    A leap is judged beside the drift that would be fitted with it: between two bursts of steps a drift
    explains nearly all of a leap, and only the rest within the bursts is evidence.
    """
    steps = rest.shape[1]
    here = segment[clocks]
    starts = np.concatenate([np.ones((len(rest), 1), bool), np.diff(here, axis=1) > 0], axis=1)
    first = np.maximum.accumulate(np.where(starts, np.arange(steps), 0), axis=1)
    ends = np.concatenate([np.diff(here, axis=1) > 0, np.ones((len(rest), 1), bool)], axis=1)
    last = np.minimum.accumulate(np.where(ends, np.arange(steps), steps)[:, ::-1], axis=1)[:, ::-1] + 1
    row, at = np.arange(len(rest))[:, None], np.arange(steps)

    def sums(values: Floats) -> tuple[Floats, Floats]:
        """Return at each step the sum over its segment before it, and from it to the segment's end."""
        total = np.concatenate([np.zeros((len(rest), 1)), np.cumsum(values, axis=1)], axis=1)
        return total[:, :-1] - total[row, first], total[row, last] - total[:, :-1]

    weight = known.astype(float)
    left, right = sums(weight)
    both = np.maximum(left + right, 1.0)
    before_s, after_s = sums(weight * time_s)
    late_s = weight * (time_s - (before_s + after_s) / both)
    square = np.maximum((late_s**2).sum(axis=1, keepdims=True), RESOLUTION_S)
    _, later = sums(late_s)
    own = left * right / both
    alone = own - later**2 / square
    _, leap = sums(weight * rest)
    is_possible = (left >= SHORTEST) & (right >= SHORTEST) & (alone > NOT_DRIFT * own)
    size = np.abs(leap) / np.where(is_possible, alone, 1.0)
    surprise = np.where(is_possible, size * np.sqrt(np.maximum(alone, 0.0)) / scatter[:, None], 0.0)
    surprise[size < SUDDEN / 2 * scatter[:, None]] = 0.0
    best = surprise.argmax(axis=1)
    leaps: Mask = surprise[np.arange(len(rest)), best] > SUDDEN
    for clock, start in zip(clocks[leaps].tolist(), best[leaps].tolist(), strict=True):
        segment[clock] += at >= start
    return leaps


def _spread(off: Floats, known: Mask) -> Floats:
    """Return the standard deviation around the course, by a median; shape (clock,). [s]"""
    middle_s = middle_of_known(np.where(known, off, np.nan).T)
    return np.maximum(np.nan_to_num(middle_s) * MAD_TO_SIGMA, RESOLUTION_S)
