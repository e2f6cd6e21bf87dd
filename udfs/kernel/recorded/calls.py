"""Transfers issued in one call, for which the log shows only when the last of them was done."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.graph.graph import OpGraph, once_per_graph
from udfs.kernel.recorded.ends import links
from udfs.kernel.recorded.worker_order import SAME_S
from udfs.kernel.selection import median_of_all

CLEARLY: Final = 1.5
"""A link is the slowest, by more than chance, if its transfers take this multiple of the next slowest's
time."""


class Unknown(NamedTuple):
    """Masks of transfers whose own length is hidden by their call; bool, shape (step, dp).

    is_hidden : another member was ready later, or was ready at the same time and is assumed to be slower; the
                transfer itself took at most its recorded duration.
    is_slower : the member assumed to be the slowest of several that were ready together, and so usually
                longer than a usual transfer.
    """

    is_hidden: Mask
    is_slower: Mask


CallTimes: TypeAlias = tuple[OpGraph, Floats, Mapping[int, Unknown]]
"""Graph of a block, its durations, shape (op, step, dp) [s], and its transfers of unknown length, by op."""


class _Call(NamedTuple):
    """Members of one call, and masks of those ready last and of those ready last together with others.

    is_last, is_tied : bool, shape (member, step, dp).
    """

    members: list[int]
    is_last: Mask
    is_tied: Mask


def unknown_transfers(graph: OpGraph, end_s: Floats, duration_s: Floats) -> dict[int, Unknown]:
    """Find members of calls whose own transfer time the log does not show.

    Of members that were ready together, one is assumed to take as long as the call: the one whose data
    clearly took longest to arrive, by the receivers' ends; otherwise the one whose link is clearly slower, by
    its transfers outside such calls in the same step; otherwise each in turn. So the same transfers are
    chosen at both of their ends.

    end_s      : float64, shape (op, step, dp); recorded ends. [s]
    duration_s : float64, shape (op, step, dp); durations, in a rendezvous transfer times. [s]
    """
    calls: list[_Call] = []
    for cell, base in zip(graph.cells, graph.first_op, strict=False):
        for call in cell.program.calls:
            members = [base + op for op in call]
            ready_s = end_s[members] - duration_s[members]
            is_last = ready_s >= ready_s.max(axis=0) - SAME_S
            calls.append(_Call(members, is_last, is_last & (is_last.sum(axis=0) > 1)))
    usual_s = _usual_of_links(graph, duration_s, calls)
    early = {op: ~last for call in calls for op, last in zip(call.members, call.is_last, strict=True)}
    recv_of = _receives(graph)
    unknown: dict[int, Unknown] = {}
    for members, is_last, is_tied in calls:
        is_hidden = ~is_last
        if is_tied.any():
            in_turn = np.full(is_tied.shape[1:], _places(graph).get(members[0], 0) % len(members))
            of_links = _slowest([usual_s.get(op) for op in members], in_turn)
            slowest = _slowest([_received_s(recv_of.get(op), duration_s, early) for op in members], of_links)
            is_slower = is_tied & (slowest == np.arange(len(members))[:, None, None])
            is_hidden |= is_tied & ~is_slower & is_slower.any(axis=0)
        unknown |= {
            op: Unknown(hidden, tied & ~hidden)
            for op, hidden, tied in zip(members, is_hidden, is_tied, strict=True)
            if hidden.any() or tied.any()
        }
    return unknown


def _received_s(recv: int | None, duration_s: Floats, early: Mapping[int, Mask]) -> Floats | None:
    """Return the duration of a receive; nan where it waited for others of its call, None if unknown. [s]"""
    if recv is None or recv not in early:
        return None if recv is None else duration_s[recv]
    return np.where(early[recv], np.nan, duration_s[recv])


def _usual_of_links(graph: OpGraph, duration_s: Floats, calls: Sequence[_Call]) -> dict[int, Floats]:
    """Return the lower median per step of known transfers on links with calls; nan without any. [s]"""
    shown = {op: last & ~tied for call in calls for op, last, tied in zip(*call, strict=True)}
    found: dict[int, Floats] = {}
    for members, _ in graph.meetings if any(call.is_tied.any() for call in calls) else ():
        ends = [list(ops) for ops in members]
        if graph.op_types[ends[0][0]] in ot.TRANSFERS:
            known_s = np.array([np.where(shown.get(op, True), duration_s[op], np.nan) for op in ends[-1]])
            count = np.isfinite(known_s).sum(axis=0)
            middle = np.maximum(count - 1, 0)[None] // 2
            usual_s = np.take_along_axis(np.sort(known_s, axis=0), middle, axis=0)[0]
            found |= dict.fromkeys((op for ops in ends for op in ops if op in shown), usual_s)
    return found


def _slowest(times_s: Sequence[Floats | None], otherwise: Ints) -> Ints:
    """Return the number of the member that clearly takes longest of all; shape (step, dp).

    times_s   : of each member, shape (step, dp), nan or None where unknown. [s]
    otherwise : number to return where no member clearly takes longest, shape (step, dp).
    """
    known_s = np.array([np.full(otherwise.shape, np.nan) if each is None else each for each in times_s])
    ordered_s = np.sort(known_s, axis=0)  # nan is sorted last, and then no member is clear
    is_clear = ordered_s[-1] > CLEARLY * np.maximum(ordered_s[-2], 0.0)
    return np.where(is_clear, np.argmax(np.nan_to_num(known_s), axis=0), otherwise)


@once_per_graph
def _receives(graph: OpGraph) -> dict[int, int]:
    """Return the receive of each op's transfer, whose end is the end of the transfer."""
    pairs = [
        pair for link in links(graph) for pair in zip(link.sends.tolist(), link.recvs.tolist(), strict=True)
    ]
    return {op: recv for send, recv in pairs for op in (send, recv)}


@once_per_graph
def _places(graph: OpGraph) -> dict[int, int]:
    """Return the ordinal of each transfer within its link, for both ends."""
    return {op: place for members, _ in graph.meetings for ops in members for place, op in enumerate(ops)}


def put_usual(blocks: Sequence[CallTimes]) -> None:
    """Set transfers of unknown length to at most the median of known transfers of their type, in place."""
    if not any(unknown for _, _, unknown in blocks):
        return
    for op_type in ot.TRANSFERS:
        usual_s = _usual(blocks, op_type)
        for graph, duration_s, unknown in blocks:
            for op, (is_hidden, _) in unknown.items():
                if graph.op_types[op] == op_type:
                    own_s = duration_s[op]
                    own_s[is_hidden] = np.minimum(own_s[is_hidden], usual_s)


def _usual(blocks: Sequence[CallTimes], op_type: int) -> float:
    """Return the median of a type's known transfers, else of the slower ones in calls, else 0. [s]"""
    known, slower = [], []
    for graph, duration_s, unknown in blocks:
        ends = (ops for members, _ in graph.meetings for ops in members if graph.op_types[ops[0]] == op_type)
        for op in chain.from_iterable(ends):
            own_s = duration_s[op]
            if op not in unknown:
                known.append(own_s.reshape(-1))
                continue
            is_hidden, is_slower = unknown[op]
            known.append(own_s[~is_hidden & ~is_slower])
            slower.append(own_s[is_slower])
    joined = (np.concatenate([np.empty(0), *parts]) for parts in (known, slower))
    return median_of_all(next((each for each in joined if each.size), np.zeros(1)))
