"""Recorded ends of ops and workers, computed once per block, and how far the ends of transfers are apart."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.graph.graph import ALL_DP_RANKS, OpGraph, once_per_graph
from udfs.kernel.recorded.trace import StepBlock
from udfs.kernel.selection import evenly, ranked

SAMPLED: Final = 9
"""Most transfers of a link that are sampled in a step; more would hardly change their median."""


class Link(NamedTuple):
    """Transfers of one direction between two stages, for one dp rank, or for all of them as lanes.

    stage, following : the stage that sends forwards, and the one that receives.
    dp_rank          : ALL_DP_RANKS where dp ranks are lanes.
    sends, recvs     : int, shape (transfer,); ops that meet.
    """

    is_backward: bool
    stage: int
    following: int
    dp_rank: int
    sends: Ints
    recvs: Ints


class Apart(NamedTuple):
    """End of each recv minus end of its send; float64, shape (link, step, dp); nan if unknown. [s]

    middle : median over the transfers of a step.
    spread : distance of their quartiles.
    """

    middle: Floats
    spread: Floats


@once_per_graph
def links(graph: OpGraph) -> list[Link]:
    """Return each link of a graph."""
    found: dict[tuple[bool, int, int, int], Link] = {}
    for members, _ in graph.meetings:
        op = members[0][0]
        if graph.op_types[op] in ot.TRANSFERS:
            is_backward = graph.op_types[op] == ot.BACKWARD_SEND
            ends = [graph.stages[ops[0]] for ops in members]
            dp_rank = ALL_DP_RANKS if graph.has_dp_lanes else graph.ref(op).dp_rank
            key = is_backward, ends[is_backward], ends[1 - is_backward], dp_rank
            found[key] = Link(*key, *(np.asarray(ops) for ops in members))
    return list(found.values())


@once_per_graph
def sampled(graph: OpGraph) -> list[Ints]:
    """Return evenly spaced positions of the transfers that are sampled, by link."""
    return [np.array(evenly(len(link.sends), SAMPLED)) for link in links(graph)]


def ends_apart(end_s: Floats, some: Sequence[Link], places: Sequence[Ints]) -> Apart:
    """Return the end of the recv minus that of the send, for the sampled transfers of each link. [s]

    end_s  : float64, shape (op, step, dp). [s]
    places : for each link, positions of its sampled transfers; int, shape (transfer,).
    """
    apart = Apart(*np.full((2, len(some), *end_s.shape[1:]), np.nan))
    sizes = [len(own) for own in places]
    for size in set(sizes) - {0}:
        at = [number for number, own in enumerate(sizes) if own == size]
        sends, recvs = (
            np.array([ops[places[number]] for number, ops in zip(at, each, strict=True)]).T
            for each in zip(*((some[number].sends, some[number].recvs) for number in at), strict=True)
        )
        last = size - 1
        low, *middles, high = ranked(
            end_s[recvs] - end_s[sends], (last // 4, last // 2, last - last // 2, last - last // 4)
        )
        apart.middle[at] = (middles[0] + middles[1]) / 2
        apart.spread[at] = high - low
    return apart


@dataclass(frozen=True)
class Ends:
    """Recorded start and end of each op and worker; float64. [s]

    start_s, end_s : shape (op, step, dp); of each op.
    first_s : shape (cell, step, dp); earliest start of each worker. last_s: its latest end.
    """

    graph: OpGraph
    start_s: Floats
    end_s: Floats
    first_s: Floats
    last_s: Floats
    _least_s: dict[int, Floats] = field(default_factory=dict, init=False)

    @cached_property
    def apart(self) -> Apart:
        """How far the two ends of the sampled transfers of each link are apart. [s]"""
        return ends_apart(self.end_s, links(self.graph), sampled(self.graph))

    def least_s(self, number: int) -> Floats:
        """Return the shortest time from a send's start to the recv's end on a link; shape (step, dp)."""
        if number not in self._least_s:
            link = links(self.graph)[number]
            self._least_s[number] = (self.end_s[link.recvs] - self.start_s[link.sends]).min(axis=0)
        return self._least_s[number]

    def of_steps(self, steps: slice | Ints) -> "Ends":
        """Return the ends of only some of the steps."""
        times_s = self.start_s, self.end_s, self.first_s, self.last_s
        return Ends(self.graph, *(each[:, steps] for each in times_s))


def recorded_ends(block: StepBlock) -> Ends:
    """Compute the ends of ops and workers of a block that holds recorded durations."""
    graph, start_s, duration_s = block.graph, block.start_s, block.duration_s
    end_s = np.empty_like(start_s)
    first_s, last_s = np.empty((2, len(graph.cells), *start_s.shape[1:]))
    cells = zip(pairwise(graph.first_op), graph.ops_by_type, first_s, last_s, strict=True)
    for (first, end), by_type, own_first_s, own_last_s in cells:
        # Cell by cell, because a cell's times fit the cache; ops of one type are sorted by start.
        ends_s = np.add(start_s[first:end], duration_s[first:end], out=end_s[first:end])
        ends_s.max(axis=0, out=own_last_s)
        start_s[[ops.start for ops in by_type if ops]].min(axis=0, out=own_first_s)
    return Ends(graph, start_s, end_s, first_s, last_s)
