"""What recorded ends say about clocks, step by step (udfs/README.md, clocks).

Both ends of a transfer, and all members of a collective, end at the same instant; each says what its clock
read then. The differences are the clocks', beside what a transfer takes and how ends scatter.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.graph.graph import Layout, OpGraph, as_index
from udfs.kernel.recorded.trace import StepBlock
from udfs.kernel.selection import ascending, evenly, median, medians_along

SAMPLED: Final = 9
"""Transfers of a link that are looked at in a step: what they agree on does not hang on how many they are."""

SAME_S: Final = 1e-7
"""Ops of one worker that start so close together were issued as one call: logs keep a tenth of a us. [s]"""

TIGHT_S: Final = 2e-4
"""Transfers whose ends agree to this need no second opinion. [s]"""

ONE_WAY_S: Final = 5e-3
"""How far a link of one direction may be off: there a transfer looks like a clock. [s]"""

Key: TypeAlias = tuple[int, int, int]
"""(LINK, stage, next stage) or (op type, stage or -1 for several, which of such groups)."""

LINK: Final = -1


class Heard(NamedTuple):
    """What one kind of ties says; nan where nothing.

    one     : int, shape (row,) or empty; workers, stage * dp_size + dp_rank, at the first end of a link.
    other   : int, shape (row,); workers at the second end, or members of a collective.
    apart_s : float64, shape (row, step); how far `other` is ahead of `one`, or of the group's median. [s]
    doubt_s : same shape; how far that may be off for other reasons than noise. [s]
    """

    one: Ints
    other: Ints
    apart_s: Floats
    doubt_s: Floats


class _Link(NamedTuple):
    """Transfers of one direction between two stages, on one dp rank or on all as lanes."""

    sends: Ints
    recvs: Ints


def heard(block: StepBlock, layout: Layout, clock: Ints, call_of: Mapping[int, int]) -> dict[Key, Heard]:
    """What the ends of a block say of workers with different clocks.

    block   : durations as recorded.
    clock   : int, shape (stage * dp_size + dp_rank,); equal numbers are one clock.
    call_of : as of calls().
    returns : by kind; rows in the order of dp ranks, within a collective by (stage, dp_rank).
    """
    return _links(block, layout, clock, call_of) | _collectives(block, layout, clock)


def calls(block: StepBlock) -> dict[int, int]:
    """First op of the call that a transfer with a peer was issued with; those issued alone are left out.

    The first step of the first dp rank decides: two start within a tenth of a microsecond by accident where
    nothing takes any time, and hardly elsewhere.
    """
    graph = block.graph
    transfers = {
        op
        for members, _ in graph.meetings
        if graph.op_types[members[0][0]] in ot.TRANSFERS
        for ops in members
        for op in ops
    }
    call_of: dict[int, int] = {}
    for first, last in pairwise(graph.first_op):
        own = np.array([op for op in range(first, last) if op in transfers], dtype=np.int64)
        first_s = block.start_s[own, 0, 0]
        order = np.argsort(first_s, kind="stable")
        ops = own[order].tolist()
        for place in np.flatnonzero(np.diff(first_s[order]) <= SAME_S).tolist():
            call_of[ops[place + 1]] = call_of.setdefault(ops[place], ops[place])
    return call_of


def _ends(block: StepBlock, ops: Sequence[int] | Ints) -> Floats:
    """Recorded ends of some ops, shape (op, step, dp). [s]"""
    at = ops if isinstance(ops, np.ndarray) else as_index(ops)
    ends_s: Floats = block.start_s[at] + block.duration_s[at]
    return ends_s


def _workers(graph: OpGraph, op: int, layout: Layout) -> Ints:
    """Workers of an op, one per lane."""
    first = graph.stages[op] * layout.dp_size
    if graph.has_dp_lanes:
        return np.arange(first, first + layout.dp_size)
    return np.array([first + graph.ref(op).dp_rank])


def _links(block: StepBlock, layout: Layout, clock: Ints, call_of: Mapping[int, int]) -> dict[Key, Heard]:
    """Both ends of each link: what changes its sign with the direction is a clock."""
    graph = block.graph
    links: dict[tuple[int, int, int, int], _Link] = {}
    for members, _ in graph.meetings:
        op_type = graph.op_types[members[0][0]]
        if op_type in ot.TRANSFERS:
            ends = [graph.stages[ops[0]] for ops in members]
            dp_rank = 0 if graph.has_dp_lanes else graph.ref(members[0][0]).dp_rank
            is_backward = int(op_type == ot.BACKWARD_SEND)
            key = is_backward, ends[is_backward], ends[1 - is_backward], dp_rank
            links[key] = _Link(*(np.asarray(ops) for ops in members))
    lone = _lone_transfers(links.values(), call_of, len(graph.op_types))
    parts: dict[Key, list[Heard]] = {}
    for (is_backward, stage, following, dp_rank), link in links.items():
        back = links.get((1 - is_backward, stage, following, dp_rank))
        if is_backward and back is not None:
            continue
        both = [link] if back is None else [link, back]
        one, other = (_workers(graph, int(ops[0]), layout) for ops in link)
        if (clock[one] == clock[other]).all():
            continue
        apart_s, doubt_s = _link_apart(both, block, lone)
        if is_backward:
            apart_s = -apart_s
            one, other = other, one
        parts.setdefault((LINK, stage, following), []).append(Heard(one, other, apart_s.T, doubt_s.T))
    return {
        key: Heard(*(np.concatenate(rows) for rows in zip(*each, strict=True))) for key, each in parts.items()
    }


def _link_apart(both: list[_Link], block: StepBlock, lone: Callable[[_Link], Ints]) -> tuple[Floats, Floats]:
    """How far the receiving stage's clock is ahead, and the doubt about it; shape (step, lane). [s]"""
    own = [lone(each) for each in both]
    if not all(len(at) for at in own):
        return _least_apart(both, block)
    apart_s, doubt_s = _ends_apart(both, own, block)
    is_loose = doubt_s > TIGHT_S
    if is_loose.any():
        least_s, least_doubt_s = _least_apart(both, block)
        is_loose &= least_doubt_s < doubt_s
        apart_s, doubt_s = (
            np.where(is_loose, *each) for each in ((least_s, apart_s), (least_doubt_s, doubt_s))
        )
    return apart_s, doubt_s


def _ends_apart(both: Sequence[_Link], own: Sequence[Ints], block: StepBlock) -> tuple[Floats, Floats]:
    """Medians of the ends of recvs minus the ends of their sends."""
    middles, spreads = [], []
    for (sends, recvs), places in zip(both, own, strict=True):
        at = places
        if len(at) > SAMPLED:
            at = places[list(evenly(len(places), SAMPLED))]
        ordered = ascending(_ends(block, recvs[at]) - _ends(block, sends[at]), 0)
        last = ordered.shape[-1] - 1
        middles.append((ordered[..., last // 2] + ordered[..., -(-last // 2)]) / 2)
        spreads.append(ordered[..., last - last // 4] - ordered[..., last // 4])
    return _halves(middles, reduce(np.maximum, spreads) / 2)


def _least_apart(both: Sequence[_Link], block: StepBlock) -> tuple[Floats, Floats]:
    """The same from the least time between a send's start and its recv's end: no data is faster."""
    least = [(_ends(block, recvs) - block.start_s[sends]).min(axis=0) for sends, recvs in both]
    return _halves(least, np.zeros_like(least[0]))


def _halves(both: list[Floats], spread_s: Floats) -> tuple[Floats, Floats]:
    """Antisymmetric part, which is the clocks'; the symmetric part, the transfer's, bounds the doubt."""
    if len(both) == 1:
        return both[0], spread_s + ONE_WAY_S
    forward, backward = both
    return (forward - backward) / 2, spread_s + np.abs(forward + backward) / 2


def _lone_transfers(links: Iterable[_Link], call_of: Mapping[int, int], ops: int) -> Callable[[_Link], Ints]:
    """Function that gives the places of those transfers of a link that return when they are done themselves.

    One that was issued as one call with transfers of other peers returns with the last of these.
    """
    if not call_of:
        return lambda link: np.arange(len(link.sends))
    call = np.arange(ops)
    call[list(call_of)] = list(call_of.values())
    first_met, last_met = np.full(ops, ops), np.full(ops, -1)
    for ends in links:
        for own, peers in (ends, ends[::-1]):
            np.minimum.at(first_met, call[own], call[peers])
            np.maximum.at(last_met, call[own], call[peers])
    meets_one_call = (first_met == last_met)[call]
    return lambda link: np.flatnonzero(meets_one_call[link.sends] & meets_one_call[link.recvs])


def _collectives(block: StepBlock, layout: Layout, clock: Ints) -> dict[Key, Heard]:
    """Ends of all members of each collective against the median of the group."""
    graph = block.graph
    found: dict[Key, Heard] = {}
    for members, _ in graph.meetings:
        op_type = graph.op_types[members[0][0]]
        if op_type in ot.TRANSFERS:
            continue
        workers = np.concatenate([_workers(graph, ops[0], layout) for ops in members])
        if (clock[workers] == clock[workers[0]]).all():
            continue
        ends_s = np.array([_ends(block, ops) for ops in members])
        member, instance, step, lane = ends_s.shape
        by_row = ends_s.transpose(1, 2, 0, 3).reshape(instance, step, member * lane)
        apart_s = by_row - median(np.sort(by_row, axis=-1))[..., None]
        middle_s = apart_s[0] if instance == 1 else medians_along(apart_s, 0)
        stages = {graph.stages[ops[0]] for ops in members}
        stage = stages.pop() if len(stages) == 1 else -1
        # Groups beyond those that all members have are fewer, and of another kind.
        number = 0
        while (op_type, stage, number) in found:
            number += 1
        found[op_type, stage, number] = Heard(
            np.empty(0, dtype=np.int64), workers, middle_s.T, np.zeros_like(middle_s.T)
        )
    return found
