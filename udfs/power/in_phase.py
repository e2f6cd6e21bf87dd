"""Units that swing in phase: equal periods, and peaks that coincide while both were recorded.

udfs/README.md, "Power", has the conditions. Arrays over units; no loop over pairs.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints

MOST_APART: Final = 1 / 8
"""Peaks this part of a period apart still add up to 92 % of what they would together."""
MOST_DRIFT: Final = 1 / 4
"""Over the common time, in periods: at its ends peaks are half of that further apart than in its middle."""
LEAST_PERIODS: Final = 10
"""In a shorter common time almost any two periods look equal."""
PAIRS_TOGETHER: Final = 1_000_000
"""Pairs that are compared at a time."""


class Swings(NamedTuple):
    """Swings of units with a known phase; float64, shape (unit,); times share one zero.

    period_s        : of the dominant component.
    peak_s          : one of its peaks.
    first_s, last_s : of the recorded time.
    """

    period_s: Floats
    peak_s: Floats
    first_s: Floats
    last_s: Floats


class Pairs(NamedTuple):
    """Pairs of units that swing in phase; arrays of shape (pair,).

    one, other       : positions of the units.
    common_s         : time in which both were recorded.
    drift            : by how much one gains on the other in it, in periods.
    phase_difference : how much later the other peaks in its middle, in periods, between -1/2 and 1/2.
    """

    one: Ints
    other: Ints
    common_s: Floats
    drift: Floats
    phase_difference: Floats


def in_phase(swings: Swings, weight: Floats, most: int) -> tuple[int, Pairs]:
    """Count pairs of units that swing in phase, and return the heaviest of them.

    weight : float64, shape (unit,); that of a pair is the sum.
    most   : pairs that are returned, heaviest first, then in the order of the units. No more are in memory
             but those that are compared at a time.
    """
    count = 0
    kept: list[Pairs] = []
    for pairs in _with_like_periods(swings.period_s):
        found = _of(swings, *pairs)
        count += len(found.one)
        joined = Pairs._make(np.concatenate(parts) for parts in zip(*kept, found, strict=True))
        heaviest = np.lexsort((joined.other, joined.one, -(weight[joined.one] + weight[joined.other])))
        kept = [Pairs._make(values[heaviest[:most]] for values in joined)]
    return count, kept[0]


def _with_like_periods(period_s: Floats) -> Iterator[tuple[Ints, Ints]]:
    """Yield pairs whose periods may be equal: a difference would show within LEAST_PERIODS."""
    rate = 1 / period_s
    order = np.argsort(rate, kind="stable")
    rising = rate[order]
    last = np.searchsorted(rising, rising * (1 + MOST_DRIFT / LEAST_PERIODS), side="right")
    partners = last - np.arange(len(rate)) - 1
    part = np.cumsum(partners) // PAIRS_TOGETHER
    for units in np.split(np.arange(len(rate)), np.flatnonzero(np.diff(part)) + 1):
        count = partners[units]
        one = np.repeat(units, count)
        other = one + 1 + np.arange(len(one)) - np.repeat(np.cumsum(count) - count, count)
        yield np.minimum(order[one], order[other]), np.maximum(order[one], order[other])


def _of(swings: Swings, one: Ints, other: Ints) -> Pairs:
    """Select the pairs that are in phase."""
    first_s = np.maximum(swings.first_s[one], swings.first_s[other])
    common_s = np.minimum(swings.last_s[one], swings.last_s[other]) - first_s
    period_s = swings.period_s
    drift = np.abs(1 / period_s[one] - 1 / period_s[other]) * common_s
    middle_s = first_s + common_s / 2
    ahead = [(middle_s - swings.peak_s[unit]) / period_s[unit] for unit in (one, other)]
    difference = ahead[0] - ahead[1]
    difference -= np.rint(difference)
    are = (
        (common_s >= LEAST_PERIODS * np.maximum(period_s[one], period_s[other]))
        & (drift <= MOST_DRIFT)
        & (np.abs(difference) <= MOST_APART)
    )
    return Pairs._make(values[are] for values in (one, other, common_s, drift, difference))
