"""Find transfers that a worker issued as one call, which returns when its last transfer ends."""

import numpy as np

from udfs.kernel.arrays import Ints
from udfs.kernel.graph.graph import OpGraph, once_per_graph
from udfs.kernel.recorded.ends import SAMPLED, links, sampled
from udfs.kernel.recorded.trace import StepBlock
from udfs.kernel.recorded.worker_order import SAME_S
from udfs.kernel.selection import evenly


def calls(block: StepBlock) -> Ints:
    """Return for each op the first op of its call, or the op itself if it was issued alone. Shape (op,).

    Transfers with a peer belong to one call of a worker if their starts, and their ends, differ by at most
    0.1 us in the first step of the first dp rank. Separate transfers hardly start and end together by chance,
    unless they take no time. Streams may start separate transfers together when a compute ends, but these
    transfers end at different times.
    """
    ops = np.sort(_met(block.graph)[0])
    cell = np.searchsorted(block.graph.first_op, ops, side="right")
    start_s = block.start_s[ops, 0, 0]
    end_s = start_s + block.duration_s[ops, 0, 0]
    order = np.lexsort((end_s, np.round(start_s / SAME_S), cell))
    ops, start_s, end_s = ops[order], start_s[order], end_s[order]
    is_first = np.ones(len(ops), dtype=bool)
    is_first[1:] = (np.diff(start_s) > SAME_S) | (np.abs(np.diff(end_s)) > SAME_S) | (np.diff(cell) > 0)
    call = np.arange(block.graph.size)
    call[ops] = ops[is_first][np.cumsum(is_first) - 1]
    return call


@once_per_graph
def _met(graph: OpGraph) -> tuple[Ints, Ints]:
    """Return the transfer ops of all links, and the peer of each."""
    none = np.empty(0, dtype=np.int64)
    sends, recvs = ([none, *(link[at] for link in links(graph))] for at in (-2, -1))
    return np.concatenate(sends + recvs), np.concatenate(recvs + sends)


def lone_transfers(graph: OpGraph, call: Ints) -> tuple[list[Ints], list[Ints]]:
    """Return positions of up to SAMPLED transfers of each link whose calls exchange data with one peer.

    A call with transfers of several peers returns with the last of them, so that the recorded ends of its
    transfers depend on several peers.

    call    : as returned by `calls`.
    returns : two lists. The first has transfers of which each end's call exchanges data with a single call of
              one peer. The second has those that were issued alone at both ends; it is the same object as the
              first if both have equal positions.
    """
    if (call == np.arange(graph.size)).all():
        return sampled(graph), sampled(graph)
    own, peers = (call[each] for each in _met(graph))
    first_met, last_met = np.full(graph.size, graph.size), np.full(graph.size, -1)
    np.minimum.at(first_met, own, peers)
    np.maximum.at(last_met, own, peers)
    is_lone, is_alone = (first_met == last_met)[call], np.bincount(call, minlength=graph.size)[call] == 1
    places: list[Ints] = []
    alone: list[Ints] = []
    for found, is_chosen in ((places, is_lone), (alone, is_lone & is_alone)):
        for link in links(graph):
            at = np.flatnonzero(is_chosen[link.sends] & is_chosen[link.recvs])
            found.append(at[list(evenly(len(at), SAMPLED))] if len(at) > SAMPLED else at)
    is_same = all(map(np.array_equal, places, alone))
    return places, places if is_same else alone
