"""Quantiles of Student's distribution."""

import math
from statistics import NormalDist
from typing import Final

import numpy as np

ROUNDING: Final = 1e-12
"""Relative difference below which numbers are the same up to rounding."""
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
_STEPS: Final = 200


def student_quantile(probability: float, freedom: float) -> float:
    """Return a quantile of Student's distribution above the median, for one degree of freedom or more.

    Newton's steps rise from the normal quantile to the result, because the distribution function is concave
    there. scipy has this function too, but would be a fifth of the whole install.
    """
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)

    def density(at: np.ndarray | float) -> np.ndarray:
        return scale * np.exp(-(freedom + 1) / 2 * np.log1p(np.square(at) / freedom))

    found = NormalDist().inv_cdf(probability)
    for _ in range(_STEPS):
        below = 0.5 + found / 2 * float(_WEIGHTS @ density(found / 2 * (_NODES + 1)))
        step = (probability - below) / float(density(found))
        found += step
        if abs(step) <= ROUNDING * found:
            break
    return found
