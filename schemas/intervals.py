"""SQL for the half widths of 90 % intervals of sums over days and runs.

The square of a half width is the square of the diagnosis's own error plus Student's quantile squared times a
variance. The variance of a sum is the sum of the variances of days and runs. Its degrees of freedom follow
from theirs (Welch and Satterthwaite): 1 / freedom is the sum of variance^2 / freedom over (sum of
variances)^2.
"""

from typing import Final

STUDENT: Final = (2.7055, 5.0128, 1.4036, 0.5391)
"""a, b, c, d of a + b w / (1 - c w + d w^2), about the square of Student's 95 % quantile for 1 / w
degrees of freedom: for one degree or more the error is at most 0.5 %. a = z^2 and b = (z^4 + z^2) / 2 are the
first terms of its expansion in w, where z is the normal quantile."""


def _squared(few: str) -> str:
    a, b, c, d = (f"{each}D" for each in STUDENT)
    return f"({a} + {b} * {few} / (1 - {c} * {few} + {d} * {few} * {few}))"


def variance(half: str, shared: str) -> str:
    """Return SQL for the variance behind a half width; null interval_freedom means a normal distribution.

    half, shared : SQL of the half width, and of the part that is the diagnosis's own error
    """
    own = f"greatest(0D, {half} * {half} - coalesce({shared} * {shared}, 0))"
    return f"({own} / {_squared('coalesce(1 / interval_freedom, 0)')})"


def half_of_sum(variances: str, fourths: str, shared: str) -> str:
    """Return SQL for half of the width of the 90 % interval of a sum.

    variances, fourths : SQL of the sum of variances, and of the sum of variance^2 / interval_freedom
    shared             : SQL of the sum of the squares of the diagnosis's own errors
    """
    few = f"coalesce({fourths} / nullif({variances} * {variances}, 0), 0)"
    return f"sqrt({variances} * {_squared(few)} + {shared})"
