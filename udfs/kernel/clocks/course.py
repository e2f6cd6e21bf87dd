"""Fit an offset, a drift and jumps to each clock over the steps, and measure its scatter around the fit."""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.clocks.ties import MAD_TO_SIGMA, RESOLUTION_S, bends_s, middle_of_known

MOST_STEPS: Final = 12
"""Most jumps that are fitted to one clock."""

SUDDEN: Final = 7.0
"""A jump is fitted if its size exceeds this multiple of its standard error."""

SURE: Final = 6.0
"""If a single step is this many standard deviations away from the fit, the clock is off in that step."""

SHORTEST: Final = 2
"""Least number of steps on each side of a fitted jump."""

FEW: Final = 8
"""With fewer steps, noise and clocks cannot be separated, and the estimates of single steps are used."""

NOT_DRIFT: Final = 1e-6
"""A jump is considered only where a drift, fitted with it, explains less than 1 - NOT_DRIFT of it."""

MOST_DRIFT: Final = 1e-3
"""Largest drift of a real clock. A larger fitted drift is a jump near the first or last step. [s/s]"""

UNLIKE: Final = 3.0
ENOUGH_CLOCKS: Final = 5
"""From this number of clocks on, no clock's scatter is taken to exceed UNLIKE times the median clock's."""

ROUNDS: Final = 5
POLISHES: Final = 8
FAR: Final = 3.0
"""ROUNDS and POLISHES are numbers of fits in which steps FAR standard deviations off have half the weight."""


class Course(NamedTuple):
    """Offset, drift and jumps of clocks over the steps, as fitted; float64.

    ahead_s   : shape (clock, step); the fitted offset, or with fewer than FEW steps the given one. [s]
    drift     : shape (clock,); relative to the mean of the connected clocks. [s/s]
    scatter_s : shape (clock,); standard deviation of single steps about the fit. [s]
    is_leap   : bool, shape (clock, step - 1); whether a clock jumps between a step and the next.
    """

    ahead_s: Floats
    drift: Floats
    scatter_s: Floats
    is_leap: Mask


def course(ahead_s: Floats, time_s: Floats) -> Course:
    """Fit offset, drift and jumps to each clock.

    ahead_s : float64, shape (clock, step); how far a clock is ahead, nan if unknown. [s]
    time_s  : float64, shape (step,); start of each step. [s]
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
    # The running median of three steps, in which a single outlier cannot look like a jump.
    before, after = np.roll(values, 1, axis=1), np.roll(values, -1, axis=1)
    smooth = np.maximum(np.minimum(before, values), np.minimum(np.maximum(before, values), after))
    smooth[:, [0, -1]] = values[:, [0, -1]]
    smooth = np.where(known, smooth, 0.0)
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
    wild = np.abs(drift) > MOST_DRIFT
    for clock in np.flatnonzero(wild).tolist():
        drift[clock] = fit[clock] = 0.0
        for number in np.unique(segment[clock, known[clock]]).tolist():
            is_own = segment[clock] == number
            fit[clock, is_own] = np.median(values[clock, is_own & known[clock]])
    if wild.any():
        spread[wild] = _spread(np.abs(values[wild] - fit[wild]), known[wild])
    return Course(fit, drift, spread, np.diff(segment, axis=1) > 0)


def levelled(ahead_s: Floats, time_s: Floats, part: Ints) -> Floats:
    """Return clock offsets without the movement that most connected clocks share; same shape. [s]

    Offsets are relative to the mean of the connected clocks. If one clock jumps, the mean moves, and all
    other clocks seem to jump a little in the opposite direction. Therefore the median deviation of connected
    clocks from their drifts is subtracted in each step. Their median drift is subtracted too, because a line
    fits a part of the mean's jump, and a drift that all clocks share cannot be measured.

    ahead_s : float64, shape (clock, step); nan if unknown. [s]
    part    : int, shape (clock,); connected clocks have the same number.
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
    """Return the scatter of each clock's offset from step to step; drift and few jumps hardly change it. [s]

    All clocks are read in the same way. A clock with many times the scatter of the others therefore has many
    jumps, and its scatter is limited to UNLIKE times the median clock's. Shape (clock,).
    """
    scatter = np.full(len(ahead_s), RESOLUTION_S)
    if ahead_s.shape[1] > 2:
        middles = middle_of_known(np.ascontiguousarray(bends_s(ahead_s, time_s).T)) * MAD_TO_SIGMA
        scatter = np.maximum(np.nan_to_num(middles), RESOLUTION_S)
    if len(scatter) >= ENOUGH_CLOCKS:
        scatter = np.minimum(scatter, UNLIKE * np.median(scatter))
    return scatter


def _fit(values: Floats, time_s: Floats, segment: Ints, weight: Floats) -> tuple[Floats, Floats]:
    """Fit one level per segment and one drift per clock by weighted least squares.

    segment : int, shape (clock, step); number of the segment between jumps, from 0 for each clock.
    returns : the fit, shape (clock, step), and the drift, shape (clock,).
    """
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


def _split(rest: Floats, time_s: Floats, segment: Ints, clocks: Ints, scatter: Floats, known: Mask) -> Mask:
    """Split segments in place at each clock's largest jump beyond SUDDEN; return which clocks were split.

    A jump is fitted together with a drift. In a gap between two recorded bursts of steps, a drift explains
    nearly all of a jump, and only the rest counts as evidence of the jump.

    rest     : residuals of the present fit, shape (row, step). [s]
    segment  : of all clocks, shape (clock, step); rows belong to `clocks`.
    """
    steps = rest.shape[1]
    here = segment[clocks]
    starts = np.concatenate([np.ones((len(rest), 1), bool), np.diff(here, axis=1) > 0], axis=1)
    first = np.maximum.accumulate(np.where(starts, np.arange(steps), 0), axis=1)
    ends = np.concatenate([np.diff(here, axis=1) > 0, np.ones((len(rest), 1), bool)], axis=1)
    last = np.minimum.accumulate(np.where(ends, np.arange(steps), steps)[:, ::-1], axis=1)[:, ::-1] + 1
    row, at = np.arange(len(rest))[:, None], np.arange(steps)

    def sums(values: Floats) -> tuple[Floats, Floats]:
        """Return for each step the sum over the segment's earlier steps, and over the step and later ones."""
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
    """Return each clock's standard deviation, from the median of absolute residuals `off`; (clock,). [s]"""
    middle_s = middle_of_known(np.where(known, off, np.nan).T)
    return np.maximum(np.nan_to_num(middle_s) * MAD_TO_SIGMA, RESOLUTION_S)
