"""Clock differences in each step, from recorded ends of transfers and collectives (udfs/README.md, clocks).

The send and the recv of a transfer are assumed to end at the same instant, and so are all members of a
collective. Each worker records that instant by its own clock. The recorded ends therefore differ by the clock
difference, the time that data take after the send has ended, and noise.
"""

from typing import Final, NamedTuple, TypeAlias

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.clocks.calls import lone_transfers
from udfs.kernel.graph.graph import Layout, OpGraph, once_per_graph
from udfs.kernel.recorded.ends import Apart, Ends, ends_apart, links, sampled
from udfs.kernel.selection import median, medians_along

TIGHT_S: Final = 2e-4
"""Up to this error bound, a clock difference is not estimated again from the shortest transfers. [s]"""

MOST_OF: Final = 0.5
"""Sends wait for their recvs if the ends of both differ by less than this share of the shortest transfer."""

ONE_WAY_S: Final = 5e-3
"""Error added for links with transfers in one direction, whose duration looks like a clock difference. [s]"""

Key: TypeAlias = tuple[int, int, int]
"""Kind of a difference: (LINK, stage, next stage), or of a collective (op type, stage, number).

The stage of a collective is -1 if it spans several. The number distinguishes groups of one type and stage.
"""

LINK: Final = -1


class Heard(NamedTuple):
    """Clock differences that links, or collectives, of one kind show; nan if unknown.

    one     : int, shape (row,); workers, stage * dp_size + dp_rank, at a link's first stage. Empty for
              collectives.
    other   : int, shape (row,); workers at the link's second stage, or members of the collective.
    apart_s : float64, shape (row, step); how far the clock of `other` is ahead of that of `one`, or of the
              collective's median member. [s]
    doubt_s : same shape; bound on the error of apart_s that is not noise. [s]
    """

    one: Ints
    other: Ints
    apart_s: Floats
    doubt_s: Floats


def heard(ends: Ends, layout: Layout, clock: Ints, call: Ints) -> dict[Key, Heard]:
    """Measure, from recorded ends, the clock differences between workers that communicate.

    clock   : int, shape (worker,); number of the clock that worker stage * dp_size + dp_rank uses.
    call    : as returned by `calls`.
    returns : differences by kind; rows are ordered by dp rank, or in a collective by (stage, dp_rank).
    """
    return _links(ends, layout, clock, call) | _collectives(ends, layout, clock)


def _workers(graph: OpGraph, op: int, layout: Layout) -> Ints:
    """Return the workers, stage * dp_size + dp_rank, that run an op, one for each of its lanes."""
    first = graph.stages[op] * layout.dp_size
    if graph.has_dp_lanes:
        return np.arange(first, first + layout.dp_size)
    return np.array([first + graph.ref(op).dp_rank])


class _Way(NamedTuple):
    """Links between two stages, in one or both directions, and the workers at both ends.

    both : positions of one or two links in `links(graph)`.
    """

    both: tuple[int, ...]
    one: Ints
    other: Ints


@once_per_graph
def _ways(graph: OpGraph, layout: Layout) -> list[_Way]:
    """Pair the links of both directions between the same workers."""
    numbers = {link[:4]: number for number, link in enumerate(links(graph))}
    ways = []
    for (is_backward, stage, following, dp_rank), number in numbers.items():
        back = numbers.get((not is_backward, stage, following, dp_rank))
        if back is None or not is_backward:
            ends = (_workers(graph, int(ops[0]), layout) for ops in links(graph)[number][-2:])
            ways.append(_Way((number,) if back is None else (number, back), *ends))
    return ways


def _links(ends: Ends, layout: Layout, clock: Ints, call: Ints) -> dict[Key, Heard]:
    """Measure clock differences by links: half of how much both directions' (recv end - send end) differ."""
    graph = ends.graph
    ways = [way for way in _ways(graph, layout) if (clock[way.one] != clock[way.other]).any()]
    if not ways:
        return {}
    parts: dict[Key, list[Heard]] = {}
    for (both, one, other), apart_s, doubt_s in zip(ways, *_apart(ends, ways, call), strict=True):
        link = links(graph)[both[0]]
        own = Heard(one, other, apart_s.T, doubt_s.T)
        if link.is_backward:
            own = Heard(other, one, -apart_s.T, doubt_s.T)
        parts.setdefault((LINK, link.stage, link.following), []).append(own)
    return {
        key: Heard(*(np.concatenate(rows) for rows in zip(*each, strict=True))) for key, each in parts.items()
    }


def _apart(ends: Ends, ways: list[_Way], call: Ints) -> tuple[Floats, Floats]:
    """Return how far a receiver's clock is ahead of the sender's, and an error bound; (way, step, lane). [s]

    Receiver and sender are those of the first link of a way.
    """
    places, alone = lone_transfers(ends.graph, call)
    is_usual = places is sampled(ends.graph)
    apart = ends.apart if is_usual else ends_apart(ends.end_s, links(ends.graph), places)
    apart_s, doubt_s = _halves(ways, apart)
    if alone is not places:
        # Calls of two workers return at the same instant only if their sends wait for the recvs. Sends do not
        # wait where the ends of transfers that were issued alone differ by more than MOST_OF of the shortest
        # transfer; only these transfers are used there.
        own_s, own_doubt_s = _halves(ways, ends_apart(ends.end_s, links(ends.graph), alone))
        is_far = own_doubt_s > TIGHT_S
        if is_far.any():
            is_far &= own_doubt_s > MOST_OF * _halves(ways, _least_apart(ends, ways))[1]
            apart_s[is_far], doubt_s[is_far] = own_s[is_far], own_doubt_s[is_far]
    has_none = np.array([not all(len(places[number]) for number in way.both) for way in ways])
    is_loose = (doubt_s > TIGHT_S) | has_none[:, None, None]
    some = np.flatnonzero(is_loose.any(axis=(1, 2)))
    if len(some):
        some_ways = [ways[at] for at in some.tolist()]
        least_s, least_doubt_s = _halves(some_ways, _least_apart(ends, some_ways))
        is_better = is_loose[some] & ((least_doubt_s < doubt_s[some]) | has_none[some, None, None])
        apart_s[some] = np.where(is_better, least_s, apart_s[some])
        doubt_s[some] = np.where(is_better, least_doubt_s, doubt_s[some])
    return apart_s, doubt_s


def _least_apart(ends: Ends, ways: list[_Way]) -> Apart:
    """Return for each link the shortest recorded time from a send's start to its recv's end, as `middle`.

    Data do not arrive before they are sent, so the receiver's clock is ahead by at most this time. [s]
    """
    apart = Apart(*np.zeros((2, len(links(ends.graph)), *ends.end_s.shape[1:])))
    for number in {number for way in ways for number in way.both}:
        apart.middle[number] = ends.least_s(number)
    return apart


def _halves(ways: list[_Way], apart: Apart) -> tuple[Floats, Floats]:
    """Return clock differences and error bounds from end differences f (forward) and b (backward). [s]

    The clock difference is (f - b) / 2, and the error is at most (f + b) / 2, plus half the spread of ends.
    """
    one, other = np.array([(way.both[0], way.both[-1]) for way in ways]).T
    is_one_way = (one == other)[:, None, None]
    forward, backward = apart.middle[one], apart.middle[other]
    backward = np.where(is_one_way, -forward, backward)
    spread_s = np.maximum(apart.spread[one], apart.spread[other]) / 2
    doubt_s = spread_s + np.abs(forward + backward) / 2 + np.where(is_one_way, ONE_WAY_S, 0.0)
    return (forward - backward) / 2, doubt_s


class _Group(NamedTuple):
    """Collectives of one op type with the same members; stage is -1 if the members are in several stages.

    ops     : int, shape (instance, member).
    workers : int, shape (worker,); members, as stage * dp_size + dp_rank.
    ways    : links in both directions between members, which are given as positions in `workers`; empty if
              all members are in one stage.
    """

    op_type: int
    stage: int
    ops: Ints
    workers: Ints
    ways: list[_Way]


@once_per_graph
def _groups(graph: OpGraph, layout: Layout) -> list[_Group]:
    groups = []
    for members, _ in graph.meetings:
        op_type = graph.op_types[members[0][0]]
        if op_type not in ot.TRANSFERS:
            workers = np.concatenate([_workers(graph, ops[0], layout) for ops in members])
            stages = {graph.stages[ops[0]] for ops in members}
            stage = stages.pop() if len(stages) == 1 else -1
            ways = []
            if stage < 0:
                place = np.full(layout.pp_size * layout.dp_size, -1)
                place[workers] = np.arange(len(workers))
                two_way = [way for way in _ways(graph, layout) if len(way.both) > 1]
                placed = [_Way(way.both, place[way.one], place[way.other]) for way in two_way]
                ways = [way for way in placed if min(way.one.min(), way.other.min()) >= 0]
            groups.append(_Group(op_type, stage, np.array(members).T, workers, ways))
    return groups


def _collectives(ends: Ends, layout: Layout, clock: Ints) -> dict[Key, Heard]:
    """Measure clock differences by collectives: each member's end minus the median end of all members."""
    groups = [
        group
        for group in _groups(ends.graph, layout)
        if (clock[group.workers] != clock[group.workers[0]]).any()
    ]
    shapes = [group.ops.shape for group in groups]
    of_groups = dict[int, Floats]()  # shape (step, worker); the median over a step's instances. [s]
    for instances, members in set(shapes):
        at = [number for number, shape in enumerate(shapes) if shape == (instances, members)]
        ends_s = ends.end_s[np.array([groups[number].ops for number in at])].transpose(1, 0, 3, 2, 4)
        by_row = ends_s.reshape(*ends_s.shape[:3], -1)
        apart_s = by_row - median(np.sort(by_row, axis=-1))[..., None]
        of_groups |= zip(at, apart_s[0] if instances == 1 else medians_along(apart_s, 0), strict=True)
    found: dict[Key, Heard] = {}
    for place, group in enumerate(groups):
        apart_s = of_groups[place]
        # By how much data would arrive before they are sent: a late return looks like a clock that is ahead.
        doubt_s = np.zeros_like(apart_s)
        for (forward, backward), one, other in group.ways:
            ahead_s = apart_s[:, other] - apart_s[:, one]
            beyond_s = np.maximum(ahead_s - ends.least_s(forward), -ends.least_s(backward) - ahead_s)
            for workers in (one, other):
                doubt_s[:, workers] = np.maximum(doubt_s[:, workers], beyond_s)
        # An op type has several groups on a stage if only some members take part in all of its instances.
        number = 0
        while (group.op_type, group.stage, number) in found:
            number += 1
        none = np.empty(0, dtype=np.int64)
        found[group.op_type, group.stage, number] = Heard(none, group.workers, apart_s.T, doubt_s.T)
    return found
