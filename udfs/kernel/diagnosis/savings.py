"""Time that fixes save: each alone, all together, and each cause's share of that."""

from collections.abc import Callable, Sequence
from itertools import combinations
from math import comb
from typing import Final, NamedTuple

from udfs.kernel import cause
from udfs.kernel.diagnosis.fixes import Fixed

NOTHING: Final[Fixed] = frozenset()
ALL_FIXES: Final[Fixed] = frozenset(cause.FIXABLE)

EVERYTHING: Final[Fixed] = ALL_FIXES | {cause.UNEXPLAINED}
"""All fixes, and what is slow beyond the noise that none of them takes away."""

BOTH_IMBALANCES: Final[Fixed] = frozenset({cause.STAGE_IMBALANCE, cause.DATA_IMBALANCE})
"""Often wanted next: one more scenario costs less than another pass over the graph."""

LEAST_SHARED: Final = 0.002
"""Causes that save less are not fixed in every combination with others."""

OF_SOME_LOGS: Final[Fixed] = frozenset({cause.DATA_LOADING, cause.MIXED_HARDWARE})
"""Causes that only some logs can show: in those, one cause often hides behind another whole."""


class Savings(NamedTuple):
    """Shares of T_actual that fixes save.

    alone      : cause -> saved by its fix alone.
    attributed : cause -> its share in what all fixes together save.
    together   : saved by all fixes together.
    replayed   : replay with nothing fixed, over T_actual.
    unexplained : saved beside all fixes if nothing else were slow beyond the job's noise; not negative.
    """

    alone: dict[int, float]
    attributed: dict[int, float]
    together: float
    replayed: float
    unexplained: float = 0.0


def savings_of(
    mean_s: Callable[[Sequence[Fixed]], dict[Fixed, float]], actual_s: float, shown: Fixed = ALL_FIXES
) -> Savings:
    """Compute the shares of T_actual that fixes save, alone and together.

    mean_s : mean step time with each of several sets of causes fixed. [s]
    shown  : causes that the log can show at all; nothing is attributed to others.
    """
    alone = {each: frozenset({each}) for each in cause.FIXABLE}
    times = mean_s([NOTHING, *alone.values(), BOTH_IMBALANCES, ALL_FIXES, EVERYTHING])
    saved = {fixed: (times[NOTHING] - time_s) / actual_s for fixed, time_s in times.items()}
    worth = {each: abs(saved[fixed]) for each, fixed in alone.items()}
    interplay = saved[ALL_FIXES] - sum(saved[fixed] for fixed in alone.values())
    if shown & OF_SOME_LOGS and abs(interplay) >= LEAST_SHARED:
        all_but = {each: ALL_FIXES - {each} for each in sorted(shown)}
        without_s = mean_s(list(all_but.values()))
        for each, rest in all_but.items():  # what its fix saves last
            worth[each] = max(worth[each], abs(without_s[rest] - times[ALL_FIXES]) / actual_s)
    shared = [each for each in alone if worth[each] >= LEAST_SHARED]
    subsets = [
        frozenset(chosen) for size in range(2, len(shared) + 1) for chosen in combinations(shared, size)
    ]
    unknown = [subset for subset in subsets if subset not in times]
    if unknown:
        saved |= {fixed: (times[NOTHING] - time_s) / actual_s for fixed, time_s in mean_s(unknown).items()}
    attributed = {each: saved[fixed] for each, fixed in alone.items()}
    attributed |= shapley(saved, shared)
    # The rest between the shared causes' sum and the total goes to causes that save next to nothing.
    left = saved[ALL_FIXES] - sum(attributed.values())
    others = [each for each in sorted(shown) if each not in shared] or sorted(shown)
    for each in others:
        attributed[each] += left / len(others)
    return Savings(
        {each: saved[fixed] for each, fixed in alone.items()},
        attributed,
        saved[ALL_FIXES],
        times[NOTHING] / actual_s,
        max(0.0, saved[EVERYTHING] - saved[ALL_FIXES]),
    )


def shapley(value_of: dict[Fixed, float], players: Sequence[int]) -> dict[int, float]:
    """Shapley value of each player (Shapley 1953): its mean contribution over all orders.

    value_of : value of every subset of the players.
    """
    number = len(players)
    found = dict.fromkeys(players, 0.0)
    for player in players:
        others = [other for other in players if other != player]
        for size in range(number):
            weight = 1.0 / (number * comb(number - 1, size))
            for chosen in combinations(others, size):
                before = frozenset(chosen)
                found[player] += weight * (value_of[before | {player}] - value_of[before])
    return found
