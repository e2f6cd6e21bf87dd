"""What was heard in all steps, as ties between clocks."""

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.clocks.ends import Heard, Key
from udfs.kernel.program import Floats, Ints

RESOLUTION_S: Final = 1e-6
"""Nothing is known better than this: logs keep microseconds. [s]"""

MAD_TO_SIGMA: Final = 1.4826
BEND_TO_SIGMA: Final = MAD_TO_SIGMA / 6.0**0.5
"""From the median of absolute values, and of absolute second differences, to a standard deviation."""

FEW_BENDS: Final = 3.0

UNKNOWN_SCATTER_S: Final = 3e-4
"""What ties are taken to scatter by in fewer steps than would tell. [s]"""


class HeardSteps(NamedTuple):
    """What was heard in some steps in which all workers kept their clocks.

    steps : int, shape (step,); positions among the job's steps.
    clock : int, shape (worker,); the clock of each worker, stage * dp_size + dp_rank.
    """

    steps: Ints
    clock: Ints
    kinds: Mapping[Key, Heard]


class Ties(NamedTuple):
    """Differences of clocks, step by step; nan where nothing tells.

    one, other : int, shape (tie,); numbers of clocks; behind them, numbers of the true times of collectives.
    kind       : int, shape (tie,); ties of a kind are alike in how far they scatter.
    apart_s    : float64, shape (tie, step); how far `other` is ahead of `one`. [s]
    doubt_s    : float64, shape (tie,); how far a tie may be off in all steps alike. [s]
    """

    one: Ints
    other: Ints
    kind: Ints
    apart_s: Floats
    doubt_s: Floats


def all_ties(found: Sequence["HeardSteps"], clocks: int, steps: int) -> Ties:
    """Ties of all blocks together; workers that have another clock in other steps are other ties there."""
    told_by: dict[tuple[Key, bytes], list[HeardSteps]] = {}
    for each in found:
        for key in each.kinds:
            told_by.setdefault((key, each.clock.tobytes()), []).append(each)
    hub = clocks
    parts = []
    for number, ((key, _), blocks) in enumerate(sorted(told_by.items(), key=itemgetter(0))):
        told = [(each.steps, each.kinds[key]) for each in blocks]
        apart_s, doubt_s, one, other = _rows(told, blocks[0].clock, steps)
        if not len(told[0][1].one):
            one = np.full(len(other), hub)
            hub += 1
        one, other, apart_s, doubt_s = _merged(one, other, apart_s, doubt_s)
        parts.append(Ties(one, other, np.full(len(one), number), apart_s, middle_of_known(doubt_s.T)))
    none = np.empty(0, dtype=np.int64)
    empty = Ties(none, none, none, np.empty((0, steps)), np.empty(0))
    return Ties(*(np.concatenate(each) for each in zip(empty, *parts, strict=True)))


def _rows(told: list[tuple[Ints, Heard]], clock: Ints, steps: int) -> tuple[Floats, Floats, Ints, Ints]:
    """Ties of one kind in all steps, one per pair of workers, and the clocks at their ends."""
    first = told[0][1]
    if len(told) == 1 and len(told[0][0]) == steps:
        return first.apart_s, first.doubt_s, clock[first.one], clock[first.other]
    workers = np.unique(np.concatenate([each.other for _, each in told]))
    apart_s, doubt_s = np.full((2, len(workers), steps), np.nan)
    one = np.full(len(workers), -1)
    for at, each in told:
        rows = np.searchsorted(workers, each.other)
        apart_s[rows[:, None], at], doubt_s[rows[:, None], at] = each.apart_s, each.doubt_s
        if len(each.one):
            one[rows] = clock[each.one]
    return apart_s, doubt_s, one, clock[workers]


def _merged(one: Ints, other: Ints, apart_s: Floats, doubt_s: Floats) -> tuple[Ints, Ints, Floats, Floats]:
    """One tie for each pair of clocks, the median of its workers'; none of a clock with itself."""
    differs = one != other
    one, other, apart_s, doubt_s = (values[differs] for values in (one, other, apart_s, doubt_s))
    pair = one * (int(other.max(initial=0)) + 1) + other
    pairs, first, inverse, count = np.unique(pair, return_index=True, return_inverse=True, return_counts=True)
    if len(pairs) == len(pair):
        return one, other, apart_s, doubt_s
    order = np.argsort(inverse, kind="stable")
    within = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
    padded = np.full((2, int(count.max()), len(pairs), apart_s.shape[1]), np.nan)
    for room, rows in zip(padded, (apart_s, doubt_s), strict=True):
        room[within, inverse[order]] = rows[order]
    return one[first], other[first], middle_of_known(padded[0]), middle_of_known(padded[1])


def middle_of_known(values: Floats) -> Floats:
    """Median along the first axis of what is not nan; nan where nothing is."""
    ordered = np.sort(values, axis=0)
    last = np.maximum(np.isfinite(ordered).sum(axis=0) - 1, 0)
    halves = [np.take_along_axis(ordered, at[None], axis=0)[0] for at in (last // 2, (last + 1) // 2)]
    middle: Floats = (halves[0] + halves[1]) / 2
    return middle


def scatter_s(found: Ties) -> Floats:
    """How far a tie scatters from step to step, ties of a kind alike; shape (tie,). [s]

    From second differences: an offset, a drift and a few sudden steps are no scatter.
    """
    kinds = int(found.kind.max(initial=-1)) + 1
    of_kind = np.full(kinds, UNKNOWN_SCATTER_S)
    for kind in range(kinds):
        bends = np.abs(np.diff(found.apart_s[found.kind == kind], 2, axis=1))
        bends = bends[np.isfinite(bends)]
        if len(bends):
            # Few of them may all be small by chance.
            of_kind[kind] = np.median(bends) * BEND_TO_SIGMA * (1.0 + FEW_BENDS / len(bends))
    return of_kind[found.kind]
