"""From differences of clocks to the clocks: least squares over the graph of who meets whom."""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.clocks.ties import RESOLUTION_S, Ties, middle_of_known, scatter_s
from udfs.kernel.program import Floats, Ints

DENSE: Final = 128
"""Up to so many unknowns they are solved for at once, beyond by conjugate gradients."""

ROUNDS: Final = 200
ENOUGH: Final = 1e-9
"""Conjugate gradients end after so many rounds, or when the residual is this part of what it was."""

SECOND_THOUGHTS: Final = 4
CONTRADICTION: Final = 4.0
"""A tie that the others contradict by more than so many of its standard errors is doubted by as much."""


class Joined(NamedTuple):
    """Clocks, step by step.

    ahead_s    : float64, shape (clock, step); ahead of the mean of its part by; nan: nothing tells. [s]
    part       : int, shape (clock,); clocks with equal numbers are joined.
    residual_s : float64, shape (tie, step); what of a tie the clocks do not explain. [s]
    noise_s    : float64, shape (clock,); standard error of the mean over steps by noise. [s]
    doubt_s    : float64, shape (clock,); how far that may be off for other reasons. [s]
    """

    ahead_s: Floats
    part: Ints
    residual_s: Floats
    noise_s: Floats
    doubt_s: Floats


def join(found: Ties, clocks: int) -> Joined:
    """Clocks that fit the ties best, each part's mean zero.

    A tie counts by what it scatters, averaged over steps, and by its doubt; one that the others contradict in
    all steps alike is doubted by that: ends that are late for a reason of their own are no clock.
    """
    told = np.maximum(np.isfinite(found.apart_s).sum(axis=1), 1)
    noise_s = scatter_s(found) / np.sqrt(told)
    own_doubt_s = doubt_s = np.hypot(found.doubt_s, RESOLUTION_S)
    joined = _join(found, clocks, noise_s, doubt_s)
    for _ in range(SECOND_THOUGHTS):
        off_s = np.abs(middle_of_known(joined.residual_s.T))
        is_wrong = off_s > CONTRADICTION * np.hypot(noise_s, own_doubt_s)
        if not is_wrong.any():
            break
        doubt_s = np.where(is_wrong, np.hypot(own_doubt_s, off_s), own_doubt_s)
        joined = _join(found, clocks, noise_s, doubt_s)
    return joined


def _join(found: Ties, clocks: int, noise_s: Floats, doubt_s: Floats) -> Joined:
    nodes = max(clocks, int(found.one.max(initial=-1)) + 1)
    weight = 1.0 / (noise_s**2 + doubt_s**2)
    part = _parts(found.one, found.other, nodes)
    ahead_s = np.full((nodes, found.apart_s.shape[1]), np.nan)
    errors_s = np.full((2, nodes), np.nan)
    for at, rows in _patterns(found):
        some = Ties(
            found.one[rows], found.other[rows], found.kind[rows], found.apart_s[rows][:, at], doubt_s[rows]
        )
        here = _parts(some.one, some.other, nodes)
        # Nodes that nothing joins in these steps as in others are not known in them.
        is_whole = here == part
        some_s, *own_errors_s = _solve(some, weight[rows], noise_s[rows], here, clocks)
        ahead_s[:, at] = np.where(is_whole[:, None], some_s, np.nan)
        errors_s = np.where(is_whole, np.array(own_errors_s), errors_s)
    residual_s = found.apart_s - ahead_s[found.other] + ahead_s[found.one]
    part = part[:clocks]
    return Joined(_centred(ahead_s[:clocks], part), part, residual_s, *np.nan_to_num(errors_s[:, :clocks]))


def _patterns(found: Ties) -> list[tuple[Ints, Ints]]:
    """Steps with the same ties, and these ties; those with most steps last."""
    known = np.isfinite(found.apart_s)
    if known.all():
        return [(np.arange(known.shape[1]), np.arange(len(known)))]
    _, first, pattern = np.unique(known, axis=1, return_index=True, return_inverse=True)
    pattern = pattern.reshape(-1)
    order = np.argsort(np.bincount(pattern), kind="stable").tolist()
    return [(np.flatnonzero(pattern == number), np.flatnonzero(known[:, first[number]])) for number in order]


def _centred(ahead_s: Floats, part: Ints) -> Floats:
    """Mean of each part zero; where a part is not whole, its clocks as far off in the mean as elsewhere."""
    centred_s = np.empty_like(ahead_s)
    for number in np.unique(part).tolist():
        own_s = ahead_s[part == number]
        is_whole = np.isfinite(own_s).all(axis=0)
        own_s = own_s - np.where(is_whole, own_s, 0.0).mean(axis=0)
        if not is_whole.all() and is_whole.any():
            off_s = own_s - np.median(own_s[:, is_whole], axis=1)[:, None]
            own_s = np.where(is_whole, own_s, own_s - middle_of_known(off_s))
        centred_s[part == number] = own_s
    return centred_s


def _parts(one: Ints, other: Ints, nodes: int) -> Ints:
    """Least number of the nodes that each is joined with."""
    part = np.arange(nodes)
    while True:
        joined = part.copy()
        least = np.minimum(part[one], part[other])
        np.minimum.at(joined, one, least)
        np.minimum.at(joined, other, least)
        np.minimum.at(joined, part[one], least)
        np.minimum.at(joined, part[other], least)
        joined = joined[joined]
        if (joined == part).all():
            return part
        part = joined


def _gathered(found: Ties, values: Floats, nodes: int) -> Floats:
    """Sum of values over the ties of each node, against their direction at the first end."""
    total = np.zeros((nodes, values.shape[1]))
    np.add.at(total, found.other, values)
    np.subtract.at(total, found.one, values)
    return total


def _solve(
    found: Ties, weight: Floats, noise_s: Floats, part: Ints, clocks: int
) -> tuple[Floats, Floats, Floats]:
    """Nodes step by step, and how far off they may be by noise and by doubt."""
    nodes = len(part)
    right = _gathered(found, weight[:, None] * found.apart_s, nodes)
    if nodes > DENSE:
        own = np.bincount(found.one, weight, nodes).astype(np.float64)
        own += np.bincount(found.other, weight, nodes)
        own[own == 0.0] = 1.0
        doubted = np.bincount(found.one, weight * found.doubt_s, nodes)
        doubted += np.bincount(found.other, weight * found.doubt_s, nodes)
        return _iterate(found, weight, right, own), np.sqrt(1.0 / own), doubted / own
    matrix = np.zeros((nodes, nodes))
    np.add.at(matrix, (found.one, found.one), weight)
    np.add.at(matrix, (found.other, found.other), weight)
    np.subtract.at(matrix, (found.one, found.other), weight)
    np.subtract.at(matrix, (found.other, found.one), weight)
    # The mean of a part's clocks is free: that it is zero is one more equation, which changes no difference.
    is_clock = np.arange(nodes) < clocks
    held = np.where(np.bincount(part, is_clock, nodes)[part] > 0, is_clock, 1.0)
    scale = float(np.diag(matrix).mean()) or 1.0
    inverse = np.linalg.inv(matrix + scale * (part[:, None] == part) * held * held[:, None])
    share = (inverse[:, found.other] - inverse[:, found.one]) * weight
    return inverse @ right, np.sqrt(share**2 @ noise_s**2), np.sqrt(share**2 @ found.doubt_s**2)


def _iterate(found: Ties, weight: Floats, right: Floats, own: Floats) -> Floats:
    """Conjugate gradients, all steps at once, scaled by each node's own weight."""
    nodes = len(right)
    ahead_s, rest = np.zeros_like(right), right.copy()
    way = rest / own[:, None]
    size = (rest * way).sum(axis=0)
    enough = ENOUGH**2 * size
    for _ in range(ROUNDS):
        is_open = size > enough
        if not is_open.any():
            break
        pull = _gathered(found, weight[:, None] * (way[found.other] - way[found.one]), nodes)
        along = (way * pull).sum(axis=0)
        share = np.divide(size, along, out=np.zeros_like(size), where=is_open & (along > 0.0))
        ahead_s += share * way
        rest -= share * pull
        scaled = rest / own[:, None]
        before, size = size, (rest * scaled).sum(axis=0)
        way = scaled + np.divide(size, before, out=np.zeros_like(size), where=before > 0.0) * way
    return ahead_s
