"""Whether a log tells heavy microbatches, slow workers and pauses apart, where a job has several of them."""

import math
from typing import Final

import numpy as np

from udfs.kernel.diagnosis.factors import Factors

MOST_HIDDEN: Final = 0.02
"""If chance hides a larger share of the pauses in the work of microbatches, neither is known."""


def hide_pauses(factors: Factors) -> bool:
    """Whether data are uneven, and pauses strike too much to know how heavy microbatches are.

    A microbatch is as heavy as most stages and chunks say, or the other direction if there is one of each. If
    more pause in it at once, it looks heavy.
    """
    if not factors.data.is_real or factors.pause_s is None:
        return False
    stages, _, chunks = factors.noise.shape[:3]
    struck = np.mean(factors.pause_s > 0.0, axis=(0, 2, 3, 4, 5))
    is_one = stages * chunks == 1
    hidden = float(struck.min()) if is_one else _hidden_share(stages * chunks, float(struck.max()))
    return hidden > MOST_HIDDEN


def _hidden_share(places: int, struck: float) -> float:
    """Share of the pauses that fall together on more than half of the places of one microbatch, by chance.

    struck : share of the computes of a place that pause.
    """
    others = places - 1
    together = np.arange(places // 2, places)
    # In logarithms: the number of ways exceeds all floats from a thousand places on.
    ways = np.array([_log_ways(others, each) for each in together.tolist()])
    share = min(max(struck, np.finfo(float).tiny), 1.0 - np.finfo(float).eps)
    return float(np.exp(ways + together * np.log(share) + (others - together) * np.log1p(-share)).sum())


def _log_ways(places: int, chosen: int) -> float:
    """Logarithm of the number of ways to choose some of the places."""
    return math.lgamma(places + 1) - math.lgamma(chosen + 1) - math.lgamma(places - chosen + 1)


def are_told_apart(factors: Factors) -> bool:
    """Whether other stages or microbatches separate heavy microbatches from slow workers, if both exist.

    Beside a dp rank of which most stages are slow, or a stage of which all workers are, no others do.
    """
    if not factors.data.is_real or not has_slow(factors):
        return True
    is_slow = (factors.worker != 1.0).any(axis=(1, 2, 3, 4))
    stages, dp_ranks = is_slow.shape
    is_hidden = 2 * is_slow.sum(axis=0).max() > stages or (dp_ranks > 1 and is_slow.all(axis=1).any())
    return min(stages, factors.noise.shape[3]) > 1 and not is_hidden


def has_slow(factors: Factors) -> bool:
    """Whether the computes of any worker are slow."""
    return bool((factors.worker != 1.0).any())
