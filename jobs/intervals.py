"""Means compared: how far apart two groups of numbers are, with an interval (Welch, Student)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

LEAST: Final = 3
"""Numbers on each side below which nothing is said: two always lie on a line."""
ROUNDING: Final = 1e-12
"""Relative to the largest number."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
_HALVINGS: Final = 60
"""Of the interval in which a quantile is sought: beyond the digits of float64."""


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


def compare(before: Sequence[float], after: Sequence[float], confidence: float) -> Difference:
    """Welch's t-interval of the difference of two means.

    The numbers of a side are taken as independent draws; variances may differ. Where none of them varies the
    interval is empty: two constants say nothing of how far others would lie apart.
    """
    means = [float(np.mean(side)) if len(side) else None for side in (before, after)]
    bare = Difference(means[0], means[1], len(before), len(after))
    if min(len(before), len(after)) < LEAST or bare.effect is None:
        return bare
    squares = [float(np.var(side, ddof=1)) / len(side) for side in (before, after)]
    if sum(squares) <= _rounding(before, after) ** 2:
        return bare
    degrees = sum(squares) ** 2 / (squares[0] ** 2 / (len(before) - 1) + squares[1] ** 2 / (len(after) - 1))
    reach = student_quantile(degrees, confidence) * math.sqrt(sum(squares))
    effect = bare.effect
    return Difference(means[0], means[1], len(before), len(after), effect - reach, effect + reach)


def compare_pairs(before: Sequence[float], after: Sequence[float], confidence: float) -> Difference:
    """Student's interval of the mean difference of pairs: what differs between pairs cancels out."""
    means = [float(np.mean(side)) if len(side) else None for side in (before, after)]
    bare = Difference(means[0], means[1], len(before), len(after))
    differences = np.subtract(after, before)
    if len(differences) < LEAST or bare.effect is None:
        return bare
    error = float(np.std(differences, ddof=1)) / math.sqrt(len(differences))
    if error <= _rounding(before, after):
        return bare
    reach = student_quantile(len(differences) - 1, confidence) * error
    effect = bare.effect
    return Difference(means[0], means[1], len(before), len(after), effect - reach, effect + reach)


def _rounding(*sides: Sequence[float]) -> float:
    """Standard error below which numbers are the same up to the rounding of their means."""
    return ROUNDING * max(abs(number) for side in sides for number in side)


def student_quantile(degrees: float, confidence: float) -> float:
    """The t that |T| stays below with this probability, T of Student's distribution; degrees >= 1.

    With t = sqrt(degrees) tan(angle) its density goes with cos(angle) ** (degrees - 1), which Gauss-Legendre
    integrates; the angle is then found by halving.
    """
    whole = _mass(math.pi / 2, degrees)
    low, high = 0.0, math.pi / 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if _mass(middle, degrees) < confidence * whole:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan((low + high) / 2)


def _mass(angle: float, degrees: float) -> float:
    """Integral of cos ** (degrees - 1) from 0 to an angle; with many degrees all of it lies near 0."""
    reach = min(angle, 12 / math.sqrt(degrees))
    at = (_NODES + 1) * reach / 2
    return float(np.sum(_WEIGHTS * np.cos(at) ** (degrees - 1)) * reach / 2)
