"""Compute the saving by each fix alone and by all fixes, and divide the saving by all among the causes."""

from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np

from udfs.kernel import cause
from udfs.kernel.arrays import Floats
from udfs.kernel.diagnosis.fixes import NOTHING, Fixed

ALL_FIXES: Final[Fixed] = frozenset(cause.FIXABLE)

EVERYTHING: Final[Fixed] = ALL_FIXES | {cause.UNEXPLAINED}
"""All fixes, together with the removal of slowness that has no known cause."""

BOTH_IMBALANCES: Final[Fixed] = frozenset({cause.STAGE_IMBALANCE, cause.DATA_IMBALANCE})
"""Often needed for Shapley values, and replayed in the first pass, where it costs less than another pass."""

LEAST_SHARED: Final = 0.002
"""Causes that save less, as a share of T_actual, are left out of the combinations for Shapley values."""

Number = TypeVar("Number", float, Floats)


class Savings(NamedTuple):
    """Shares of T_actual that fixes save.

    alone       : cause -> saving by its fix alone.
    attributed  : cause -> its part of the saving by all fixes together.
    together    : saving by all fixes together.
    replayed    : step time replayed with nothing fixed, over T_actual.
    unexplained : further saving, at least 0, if slowness without a known cause were removed too.
    by_step     : `alone` and `attributed` in each step, over the mean T_actual; shape (2, cause, step).
    """

    alone: dict[int, float]
    attributed: dict[int, float]
    together: float
    replayed: float
    unexplained: float = 0.0
    by_step: Floats = np.zeros((2, cause.COUNT, 0))


def savings_of(
    times_s: Callable[[Sequence[Fixed]], dict[Fixed, Floats]], actual_s: float, shown: Fixed = ALL_FIXES
) -> Savings:
    """Compute the shares of T_actual that fixes save, each alone and all together.

    Savings are linear in step times, so those of the mean and of each step are computed as one array.

    times_s : function from sets of fixed causes to the mean step time followed by that of each step. [s]
    shown   : causes that the log can show; nothing is attributed to others.
    """
    alone = {each: frozenset({each}) for each in cause.FIXABLE}
    times = times_s([NOTHING, *alone.values(), BOTH_IMBALANCES, ALL_FIXES, EVERYTHING])
    saved = {fixed: (times[NOTHING] - of_fixed_s) / actual_s for fixed, of_fixed_s in times.items()}
    worth = {each: abs(saved[fixed][0]) for each, fixed in alone.items()}
    interplay = saved[ALL_FIXES][0] - sum(saved[fixed][0] for fixed in alone.values())
    if abs(interplay) >= LEAST_SHARED:
        all_but = {each: ALL_FIXES - {each} for each in sorted(shown)}
        without_s = times_s(list(all_but.values()))
        for each, rest in all_but.items():  # saving by its fix after all others
            worth[each] = max(worth[each], abs(without_s[rest][0] - times[ALL_FIXES][0]) / actual_s)
    shared = [each for each in alone if worth[each] >= LEAST_SHARED]
    subsets = [
        frozenset(chosen) for size in range(2, len(shared) + 1) for chosen in combinations(shared, size)
    ]
    unknown = [subset for subset in subsets if subset not in times]
    if unknown:
        more_s = times_s(unknown)
        saved |= {fixed: (times[NOTHING] - of_fixed_s) / actual_s for fixed, of_fixed_s in more_s.items()}
    attributed = {each: saved[fixed] for each, fixed in alone.items()}
    attributed |= shapley(saved, shared)
    # The difference between the sum and the total is divided among the causes that save hardly anything.
    left = saved[ALL_FIXES] - sum(attributed.values(), np.zeros(1))
    others = [each for each in sorted(shown) if each not in shared] or sorted(shown)
    for each in others:
        attributed[each] = attributed[each] + left / len(others)
    beside = saved[EVERYTHING] - saved[ALL_FIXES]
    by_step = np.zeros((2, cause.COUNT, beside.size - 1))
    for each, fixed in alone.items():
        by_step[:, each] = saved[fixed][1:], attributed[each][1:]
    by_step[0, cause.UNEXPLAINED] = beside[1:]
    return Savings(
        {each: float(saved[fixed][0]) for each, fixed in alone.items()},
        {each: float(of_cause[0]) for each, of_cause in attributed.items()},
        float(saved[ALL_FIXES][0]),
        float(times[NOTHING][0]) / actual_s,
        max(0.0, float(beside[0])),
        by_step,
    )


def shapley(value_of: dict[Fixed, Number], players: Sequence[int]) -> dict[int, Number]:
    """Return each player's Shapley value (Shapley 1953), which is its mean contribution over all orders.

    value_of : value of every subset of the players: a number, or an array of them.
    """
    number = len(players)
    found: dict[int, Any] = dict.fromkeys(players, 0.0)
    for player in players:
        others = [other for other in players if other != player]
        for size in range(number):
            weight = 1.0 / (number * comb(number - 1, size))
            for chosen in combinations(others, size):
                before = frozenset(chosen)
                found[player] += weight * (value_of[before | {player}] - value_of[before])
    return found
