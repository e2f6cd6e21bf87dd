"""SQL for 90 % intervals of sums; the more stretches of steps a sum covers, the narrower is its interval.

The square of a half width has two parts: what the diagnosis does not know, and Student's quantile squared
times a variance. Variances of runs and days add up, and with them their degrees of freedom (Welch and
Satterthwaite): 1 / freedom of a sum is the sum of variance^2 / freedom over the square of the sum.
"""

from typing import Final

STUDENT: Final = (2.7055, 5.0128, 1.4036, 0.5391)
"""a, b, c, d of a + b w / (1 - c w + d w^2): the square of Student's 95 % quantile for 1 / w degrees of
freedom, off by 0.5 % at most from one on. a and b are its expansion in w: z^2 and (z^4 + z^2) / 2."""


def _squared(few: str) -> str:
    a, b, c, d = (f"{each}D" for each in STUDENT)
    return f"({a} + {b} * {few} / (1 - {c} * {few} + {d} * {few} * {few}))"


def variance(half: str, shared: str) -> str:
    """Return SQL for the variance of a row; a null interval_freedom counts as infinitely many degrees.

    half, shared : SQL of the half width, and of the part of it that the diagnosis does not know.
    """
    own = f"greatest(0D, {half} * {half} - coalesce({shared} * {shared}, 0))"
    return f"({own} / {_squared('coalesce(1 / interval_freedom, 0)')})"


def half_of_sum(variances: str, fourths: str, shared: str) -> str:
    """Return SQL for half of the width of a sum's interval.

    variances, fourths : SQL of the sum of variance, and of variance^2 / interval_freedom.
    shared             : of the sum of the squares of what the diagnosis does not know.
    """
    few = f"coalesce({fourths} / nullif({variances} * {variances}, 0), 0)"
    return f"sqrt({variances} * {_squared(few)} + {shared})"
