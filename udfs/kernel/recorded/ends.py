"""Recorded ends of ops and workers, computed once per block."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.graph.graph import OpGraph, once_per_graph
from udfs.kernel.recorded.links import Apart, ends_apart, links, sampled
from udfs.kernel.recorded.trace import StepBlock


@dataclass(frozen=True)
class Ends:
    """When each op and each worker ended; float64. [s]

    end_s   : shape (op, step, dp); of each op.
    first_s : shape (cell, step, dp); earliest start of each worker. last_s: its latest end.
    """

    graph: OpGraph
    end_s: Floats
    first_s: Floats
    last_s: Floats

    @cached_property
    def apart(self) -> Apart:
        """Distance between the two ends of sampled transfers of each link. [s]"""
        return ends_apart(self.end_s, links(self.graph), sampled(self.graph))

    def of_steps(self, steps: slice | Ints) -> "Ends":
        """Ends of some of the steps only."""
        return Ends(self.graph, *(each[:, steps] for each in (self.end_s, self.first_s, self.last_s)))


def recorded_ends(block: StepBlock) -> Ends:
    """Compute the ends of a block that holds recorded durations."""
    graph, start_s, duration_s = block.graph, block.start_s, block.duration_s
    end_s = np.empty_like(start_s)
    first_s, last_s = np.empty((2, len(graph.cells), *start_s.shape[1:]))
    cells = zip(pairwise(graph.first_op), _first_of_types(graph), first_s, last_s, strict=True)
    for (first, end), firsts, own_first_s, own_last_s in cells:
        # Cell by cell, because a cell's times fit the cache; within a type ops stand in the order of starts.
        ends_s = np.add(start_s[first:end], duration_s[first:end], out=end_s[first:end])
        ends_s.max(axis=0, out=own_last_s)
        start_s[firsts].min(axis=0, out=own_first_s)
    return Ends(graph, end_s, first_s, last_s)


@once_per_graph
def _first_of_types(graph: OpGraph) -> list[list[int]]:
    """First op of each type that occurs, per cell."""
    return [
        [first + start for start, end in pairwise(cell.program.first_ops) if end > start]
        for cell, first in zip(graph.cells, graph.first_op, strict=False)
    ]
