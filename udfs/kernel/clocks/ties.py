"""Ties: measured differences between pairs of clocks, collected from all blocks of steps."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.clocks.ends import Heard, Key
from udfs.kernel.selection import medians_along

RESOLUTION_S: Final = 1e-6
"""Least uncertainty of times, because logs store microseconds. [s]"""

MAD_TO_SIGMA: Final = 1.4826
"""Standard deviation of normal values with mean 0, divided by the median of their absolute values."""

FEW_BENDS: Final = 3.0
"""The scatter of n bends is raised by this over n, because a few bends may all be small by chance."""

UNKNOWN_SCATTER_S: Final = 3e-4
"""Assumed scatter over steps of ties with too few steps to measure their scatter. [s]"""


class HeardSteps(NamedTuple):
    """Clock differences that were measured in steps in which no worker changed its clock.

    steps : int, shape (step,); positions among the job's steps.
    clock : int, shape (worker,); number of the clock that worker stage * dp_size + dp_rank uses.
    kinds : for each kind of link or collective, the differences that it shows.
    """

    steps: Ints
    clock: Ints
    kinds: Mapping[Key, Heard]


class Ties(NamedTuple):
    """Differences between pairs of clocks, step by step; nan if unknown.

    one, other : int, shape (tie,); nodes that a tie joins. Node i is clock i; the nodes after the last clock
                 are the unknown true end times of collectives, one for each kind of collective.
    kind       : int, shape (tie,); ties of one kind have about the same scatter over steps.
    apart_s    : float64, shape (tie, step); how far `other` is ahead of `one`. [s]
    doubt_s    : float64, shape (tie,); bound on a tie's error that is the same in all steps. [s]
    """

    one: Ints
    other: Ints
    kind: Ints
    apart_s: Floats
    doubt_s: Floats


def all_ties(found: Sequence["HeardSteps"], clocks: int, steps: int) -> Ties:
    """Combine the clock differences of all blocks into ties over all steps of the job.

    From the step in which a worker changes its clock, its differences belong to other ties.

    clocks, steps : numbers of clocks and of steps of the job.
    """
    blocks_by: dict[tuple[Key, bytes], list[HeardSteps]] = {}
    for each in found:
        for key in each.kinds:
            blocks_by.setdefault((key, each.clock.tobytes()), []).append(each)
    hub = clocks
    parts = []
    for number, ((key, _), blocks) in enumerate(sorted(blocks_by.items(), key=itemgetter(0))):
        heard_in = [(each.steps, each.kinds[key]) for each in blocks]
        apart_s, doubt_s, one, other = _rows(heard_in, blocks[0].clock, steps)
        if not len(heard_in[0][1].one):
            one = np.full(len(other), hub)
            hub += 1
        parts.append((np.full(len(one), number), one, other, apart_s, doubt_s))
    if not parts:
        none = np.empty(0, dtype=np.int64)
        return Ties(none, none, none, np.empty((0, steps)), np.empty(0))
    kind, one, other, apart_s, doubt_s = (np.concatenate(each) for each in zip(*parts, strict=True))
    return _merged(kind, one, other, apart_s, doubt_s)


def _rows(heard_in: list[tuple[Ints, Heard]], clock: Ints, steps: int) -> tuple[Floats, Floats, Ints, Ints]:
    """Return differences and error bounds (row, step) of one kind for all steps, and both clocks of each row.

    heard_in : for each block its steps, and the differences that this kind shows in them.
    clock    : as in HeardSteps; equal for all these blocks.
    """
    first = heard_in[0][1]
    if len(heard_in) == 1 and len(heard_in[0][0]) == steps:
        return first.apart_s, first.doubt_s, clock[first.one], clock[first.other]
    workers = np.unique(np.concatenate([each.other for _, each in heard_in]))
    apart_s, doubt_s = np.full((2, len(workers), steps), np.nan)
    one = np.full(len(workers), -1)
    for at, each in heard_in:
        rows = np.searchsorted(workers, each.other)
        apart_s[rows[:, None], at], doubt_s[rows[:, None], at] = each.apart_s, each.doubt_s
        if len(each.one):
            one[rows] = clock[each.one]
    return apart_s, doubt_s, one, clock[workers]


def _merged(kind: Ints, one: Ints, other: Ints, apart_s: Floats, doubt_s: Floats) -> Ties:
    """Merge all ties of one kind between the same two clocks into one, by the median over their workers."""
    differs = one != other
    if not differs.all():
        kind, one, other = kind[differs], one[differs], other[differs]
        apart_s, doubt_s = apart_s[differs], doubt_s[differs]
    nodes = int(max(one.max(initial=0), other.max(initial=0))) + 1
    pair = (kind * nodes + one) * nodes + other
    pairs, first, inverse, count = np.unique(pair, return_index=True, return_inverse=True, return_counts=True)
    if len(pairs) == len(pair):
        return Ties(one, other, kind, apart_s, _middles(doubt_s))
    order = np.argsort(inverse, kind="stable")
    within = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    padded = np.full((2, int(count.max()), len(pairs), apart_s.shape[1]), np.nan)
    for room, rows in zip(padded, (apart_s, doubt_s), strict=True):
        room[within, inverse[order]] = rows[order]
    apart_s, doubt_s = (middle_of_known(room) for room in padded)
    return Ties(one[first], other[first], kind[first], apart_s, _middles(doubt_s))


def _middles(rows: Floats) -> Floats:
    """Return the median of the known values in each row."""
    return middle_of_known(np.ascontiguousarray(rows.T))


def middle_of_known(values: Floats) -> Floats:
    """Return the median along the first axis, ignoring nan; nan where all values are nan."""
    if np.isfinite(values).all():
        return medians_along(values, 0)
    ordered = np.sort(values, axis=0)
    last = np.maximum(np.isfinite(ordered).sum(axis=0) - 1, 0)
    halves = [np.take_along_axis(ordered, at[None], axis=0)[0] for at in (last // 2, (last + 1) // 2)]
    middle: Floats = (halves[0] + halves[1]) / 2
    return middle


def bends_s(values: Floats, time_s: Floats) -> Floats:
    """Return the distance of each inner step from the line through its two neighbours, (row, step - 2). [s]

    The distance is scaled so that noise gives it the standard deviation of a single step. Offset and drift do
    not change it, and a jump enlarges it in two steps only.

    values : float64, shape (row, step). [s]
    time_s : float64, shape (step,); start of each step. [s]
    """
    span = np.maximum(time_s[2:] - time_s[:-2], RESOLUTION_S)
    before, after = (time_s[2:] - time_s[1:-1]) / span, (time_s[1:-1] - time_s[:-2]) / span
    off: Floats = np.abs(values[:, 1:-1] - before * values[:, :-2] - after * values[:, 2:])
    return off / np.sqrt(1.0 + before**2 + after**2)


def scatter_s(found: Ties, time_s: Floats) -> Floats:
    """Return the standard deviation of each tie over steps, one value for all ties of a kind; (tie,). [s]"""
    kinds = int(found.kind.max(initial=-1)) + 1
    of_kind = np.full(kinds, UNKNOWN_SCATTER_S)
    bends = bends_s(found.apart_s, time_s)
    count = np.bincount(found.kind, np.isfinite(bends).sum(axis=1), kinds)
    # The median of each tie, then of each kind: sorting all values of a kind takes several times as long.
    middles = _middles(bends) if bends.shape[1] else np.full(len(bends), np.nan)
    known = np.isfinite(middles)
    values, kind = middles[known], found.kind[known]
    values = values[np.lexsort((values, kind))]
    ties = np.bincount(kind, minlength=kinds)
    first = np.cumsum(ties) - ties
    is_known = ties > 0
    middles = (values[(first + (ties - 1) // 2)[is_known]] + values[(first + ties // 2)[is_known]]) / 2
    of_kind[is_known] = middles * MAD_TO_SIGMA * (1.0 + FEW_BENDS / count[is_known])
    return of_kind[found.kind]
