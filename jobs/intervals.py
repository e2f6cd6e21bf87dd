"""Means compared: how far apart two groups of numbers are, with an interval (Welch, Student)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy import stats

LEAST: Final = 3
"""Numbers on each side below which nothing is said: two always lie on a line."""
ROUNDING: Final = 1e-12
"""Standard error, relative to the largest number, below which numbers are the same up to rounding."""


@dataclass(frozen=True)
class Difference:
    """Mean of the numbers after less mean of those before, with its interval; in the numbers' own unit.

    low, high : null where there is too little to say, or nothing varies
    """

    before: float | None
    after: float | None
    count_before: int
    count_after: int
    low: float | None = None
    high: float | None = None

    @property
    def effect(self) -> float | None:
        """After less before; null where one side is empty."""
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def compare(
    before: Sequence[float], after: Sequence[float], confidence: float, *, is_paired: bool = False
) -> Difference:
    """Welch's t-interval of the difference of two means; of pairs Student's: what they share cancels out.

    The numbers of a side are taken as independent draws; variances may differ. Where none of them varies the
    interval is empty: two constants say nothing of how far others would lie apart.
    """
    means = [float(np.mean(side)) if len(side) else None for side in (before, after)]
    bare = Difference(means[0], means[1], len(before), len(after))
    if min(len(before), len(after)) < LEAST:
        return bare
    varying = [np.subtract(after, before)] if is_paired else [np.asarray(before), np.asarray(after)]
    error = math.sqrt(sum(float(np.var(each, ddof=1)) / len(each) for each in varying))
    if error <= ROUNDING * max(map(abs, [*before, *after])):
        return bare
    test = stats.ttest_rel(after, before) if is_paired else stats.ttest_ind(after, before, equal_var=False)
    low, high = test.confidence_interval(confidence)
    return replace(bare, low=float(low), high=float(high))
