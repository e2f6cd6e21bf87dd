"""Compute clock offsets in each step by weighted least squares from differences between pairs of clocks."""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.clocks.ties import RESOLUTION_S, Ties, middle_of_known, scatter_s
from udfs.kernel.selection import medians_along

DENSE: Final = 128
"""Systems of up to this number of unknowns are solved directly, larger ones by conjugate gradients."""

ROUNDS: Final = 200
ENOUGH: Final = 1e-9
"""Conjugate gradients stop after ROUNDS, or when the residual is this part of the first one."""

SECOND_THOUGHTS: Final = 3
CONTRADICTION: Final = 4.0
"""If a tie differs from the fitted offsets by more than CONTRADICTION of its standard errors, the difference
is added to its doubt. Fit and comparison are repeated up to SECOND_THOUGHTS times."""

UNLIKE_OTHER_STEPS: Final = 8.0
"""A tie is off in a step if its residual exceeds this multiple of its median absolute residual over steps."""


class Joined(NamedTuple):
    """Clock offsets in each step by least squares, and their errors.

    ahead_s    : float64, shape (clock, step); how far a clock is ahead of the mean of all clocks that ties
                 connect to it; nan if unknown. [s]
    part       : int, shape (clock,); equal for clocks that ties connect, directly or through other clocks.
    residual_s : float64, shape (tie, step); a tie's clock difference minus that of the fitted offsets. [s]
    noise_s    : float64, shape (clock,); standard error, due to noise, of the offset's mean over steps. [s]
    doubt_s    : float64, shape (clock,); bound on that mean's error for reasons other than noise. [s]
    """

    ahead_s: Floats
    part: Ints
    residual_s: Floats
    noise_s: Floats
    doubt_s: Floats


class _System(NamedTuple):
    """Normal equations for clock offsets, without the weights of the measured differences (ties).

    places : int, shape (4 * tie,); positions in the flat normal matrix to which a tie's weight is added.
    held   : float64, shape (node, node); 1 for two clocks of one part, which fixes the mean of the part's
             offsets at zero and changes no difference. Both are empty for more than DENSE nodes.
    """

    places: Ints
    held: Floats

    @classmethod
    def of(cls, found: Ties, part: Ints, clocks: int) -> "_System":
        """Set up the normal equations for these ties."""
        nodes, one, other = len(part), found.one, found.other
        if nodes > DENSE:
            return cls(np.empty(0, dtype=np.int64), np.empty((0, 0)))
        places = [one * (nodes + 1), other * (nodes + 1), one * nodes + other, other * nodes + one]
        is_clock = np.arange(nodes) < clocks
        held = np.where(np.bincount(part, is_clock, nodes)[part] > 0, is_clock, 1.0)
        return cls(np.concatenate(places), (part[:, None] == part) * held * held[:, None])

    def matrix(self, weight: Floats) -> Floats:
        """Return the normal matrix for ties with these weights; float64, shape (node, node)."""
        nodes = len(self.held)
        weights = np.concatenate([weight, weight, -weight, -weight])
        matrix = np.bincount(self.places, weights, nodes * nodes).reshape(nodes, nodes)
        scale = float(np.diag(matrix).mean()) or 1.0
        return np.asarray(matrix + scale * self.held, dtype=np.float64)


def join(found: Ties, clocks: int, time_s: Floats) -> Joined:
    """Compute the clock offsets that fit all ties best; their mean is zero in each group of connected clocks.

    The weight of a tie is 1 / (noise^2 + doubt^2), where noise is the standard error of its mean over steps.
    If the other ties contradict a tie in its mean over steps, its doubt is raised by the difference: its ends
    are then late for another reason, and show nothing about a clock.

    clocks : number of clocks.
    time_s : float64, shape (step,); start of each step. [s]
    """
    known = np.maximum(np.isfinite(found.apart_s).sum(axis=1), 1)
    noise_s = scatter_s(found, time_s) / np.sqrt(known)
    nodes = max(clocks, int(found.one.max(initial=-1)) + 1)
    part = _parts(found.one, found.other, nodes)
    system = _System.of(found, part, clocks)
    doubt_s = _doubts(found, part, system, noise_s)
    weight = 1.0 / (noise_s**2 + doubt_s**2)
    ahead_s = np.full((nodes, found.apart_s.shape[1]), np.nan)
    errors_s = np.full((2, nodes), np.nan)
    for at, rows in _patterns(found):
        some, here, own = found._replace(apart_s=found.apart_s[:, at], doubt_s=doubt_s), part, system
        if len(rows) < len(weight):
            some = Ties._make(each[rows] for each in some)
            here = _parts(some.one, some.other, nodes)
            own = _System.of(some, here, clocks)
        # In these steps, offsets are unknown in parts that lack a connection which they have in other steps.
        is_whole = here == part
        some_s, *own_errors_s = _solve(some, weight[rows], noise_s[rows], here, own)
        ahead_s[:, at] = np.where(is_whole[:, None], some_s, np.nan)
        errors_s = np.where(is_whole, np.array(own_errors_s), errors_s)
    residual_s = found.apart_s - ahead_s[found.other] + ahead_s[found.one]
    ahead_s, part = ahead_s[:clocks], part[:clocks]
    for number in np.unique(part).tolist():
        own_s = ahead_s[part == number]
        is_whole = np.isfinite(own_s).all(axis=0)
        own_s = own_s - np.where(is_whole, own_s, 0.0).mean(axis=0)
        if not is_whole.all() and is_whole.any():
            # In a step with unknown offsets, known ones are shifted to their medians over complete steps.
            off_s = own_s - np.median(own_s[:, is_whole], axis=1)[:, None]
            own_s = np.where(is_whole, own_s, own_s - middle_of_known(off_s))
        ahead_s[part == number] = own_s
    return Joined(ahead_s, part, residual_s, *np.nan_to_num(errors_s[:, :clocks]))


def agreed(joined: Joined, ties: Ties, floor_s: float) -> Floats:
    """Return clock offsets; nan for a clock that is off in one step only, if its ties disagree on this. [s]

    If a process wakes up late, it leaves one collective late, and its other ties in that step show no
    difference of its clock.

    floor_s : smallest deviation from both neighbouring steps that is examined. [s]
    """
    off_s = np.abs(np.nan_to_num(joined.residual_s))
    off_s[off_s <= UNLIKE_OTHER_STEPS * medians_along(off_s, 1)[:, None]] = 0.0
    worst_s = np.zeros((max(len(joined.part), 1 + int(ties.one.max(initial=-1))), off_s.shape[1]))
    for ends in (ties.one, ties.other):
        np.maximum.at(worst_s, ends, off_s)
    change_s = np.diff(np.nan_to_num(joined.ahead_s), axis=1)
    there_s = np.concatenate([-change_s[:, :1], change_s], axis=1)
    back_s = np.concatenate([-change_s, change_s[:, -1:]], axis=1)
    alone_s = np.where(there_s * back_s > 0.0, np.minimum(np.abs(there_s), np.abs(back_s)), 0.0)
    is_doubtful = (alone_s > floor_s) & (worst_s[: len(alone_s)] > alone_s / 2)
    return np.where(is_doubtful, np.nan, joined.ahead_s)


def _doubts(found: Ties, part: Ints, system: _System, noise_s: Floats) -> Floats:
    """Return each tie's error bound, raised if the offsets that fit all ties contradict it; (tie,). [s]"""
    own_s = doubt_s = np.hypot(found.doubt_s, RESOLUTION_S)
    known = np.isfinite(found.apart_s).all(axis=0)
    if not len(found.one) or not known.any():
        return own_s
    # Means over steps add up along a chain of ties, whatever drift and jumps clocks have; medians do not.
    mean = found._replace(apart_s=found.apart_s[:, known].mean(axis=1, keepdims=True))
    wrong = np.zeros(len(own_s), dtype=bool)
    for _ in range(SECOND_THOUGHTS):
        weight = 1.0 / (noise_s**2 + doubt_s**2)
        level_s = _levels(mean, weight, part, system)[:, 0]
        off_s = np.abs(mean.apart_s[:, 0] - level_s[found.other] + level_s[found.one])
        was_wrong, wrong = wrong, off_s > CONTRADICTION * np.hypot(noise_s, own_s)
        if not wrong.any():
            return own_s
        doubt_s = np.where(wrong, np.hypot(own_s, off_s), own_s)
        if (wrong == was_wrong).all():
            break
    return doubt_s


def _patterns(found: Ties) -> list[tuple[Ints, Ints]]:
    """Group the steps in which the same ties are known; return (steps, ties) by group, the largest last."""
    known = np.isfinite(found.apart_s)
    if known.all():
        return [(np.arange(known.shape[1]), np.arange(len(known)))]
    _, first, pattern = np.unique(known, axis=1, return_index=True, return_inverse=True)
    pattern = pattern.reshape(-1)
    order = np.argsort(np.bincount(pattern), kind="stable").tolist()
    return [(np.flatnonzero(pattern == number), np.flatnonzero(known[:, first[number]])) for number in order]


def _parts(one: Ints, other: Ints, nodes: int) -> Ints:
    """Return for each node the lowest node that is connected with it; shape (node,)."""
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
    """Sum the ties' values at each node, positive at `other` and negative at `one`; shape (node, step)."""
    total = np.zeros((nodes, values.shape[1]))
    np.add.at(total, found.other, values)
    np.subtract.at(total, found.one, values)
    return total


def _solve(
    found: Ties, weight: Floats, noise_s: Floats, part: Ints, system: _System
) -> tuple[Floats, Floats, Floats]:
    """Return the offsets of all nodes (node, step), their errors by noise, and error bounds (node,). [s]"""
    if len(part) > DENSE:
        own, doubted = (_own(found, each, len(part)) for each in (weight, weight * found.doubt_s))
        return _levels(found, weight, part, system), np.sqrt(1.0 / own), doubted / own
    inverse = np.linalg.inv(system.matrix(weight))
    share = (inverse[found.other] - inverse[found.one]) * weight[:, None]
    # Doubts are added, not their squares: buffered sends, for example, shift many ties in the same direction.
    noise_s = np.sqrt((share**2).T @ noise_s**2)
    return share.T @ found.apart_s, noise_s, np.abs(share).T @ found.doubt_s


def _levels(found: Ties, weight: Floats, part: Ints, system: _System) -> Floats:
    """Return the offsets of all nodes by weighted least squares; shape (node, step). [s]"""
    right = _gathered(found, weight[:, None] * found.apart_s, len(part))
    if len(part) > DENSE:
        return _iterate(found, weight, right)
    return np.asarray(np.linalg.solve(system.matrix(weight), right), dtype=np.float64)


def _own(found: Ties, weight: Floats, nodes: int) -> Floats:
    """Return the sum of the weights of each node's ties, 1 for a node without ties; shape (node,)."""
    own = np.bincount(found.one, weight, nodes).astype(np.float64)
    own += np.bincount(found.other, weight, nodes)
    own[own == 0.0] = 1.0
    return own


def _iterate(found: Ties, weight: Floats, right: Floats) -> Floats:
    """Solve the normal equations by Jacobi-preconditioned conjugate gradients, all steps at once."""
    nodes = len(right)
    own = _own(found, weight, nodes)
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
