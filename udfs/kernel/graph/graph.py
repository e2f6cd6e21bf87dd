"""The dependency graph of one step (model, section 2); all steps with the same programs share it.

It is built once, of plain integers, and replayed with (scenario, step, dp_rank) as lanes.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, wraps
from itertools import accumulate, pairwise
from typing import Any, Concatenate, Final, NamedTuple, ParamSpec, TypeAlias, TypeVar

import numpy as np

from udfs.kernel.arrays import Ints


class OpRef(NamedTuple):
    """Where an op is; `ordinal` counts the ops of its type within the step, by start."""

    stage: int
    dp_rank: int
    op_type: int
    ordinal: int


class TraceDefectError(Exception):
    """Raised if recorded ops contradict each other, so that they have no dependency graph.

    step_index : position of a step with the defect, among the replayed steps.
    defect     : one sentence without a full stop.
    ops        : the ops that form the defect, at least one.
    """

    def __init__(self, defect: str, ops: list[OpRef], step_index: int = 0) -> None:
        super().__init__(defect)
        self.defect = defect
        self.ops = ops
        self.step_index = step_index


P = ParamSpec("P")
T = TypeVar("T")

ALL_DP_RANKS: Final = -1


class Blocking(NamedTuple):
    """The types of transfers for which a worker waits until they are done (model, section 2).

    types : their op types, ascending.
    eager : those of the sends among them that do not wait for their recvs.
    """

    types: tuple[int, ...] = ()
    eager: tuple[int, ...] = ()


class Layout(NamedTuple):
    """Sizes of a job: data, pipeline and context parallelism, and model chunks per stage.

    blocking : transfers that block; None if unknown, so that no transfer blocks.
    """

    dp_size: int
    pp_size: int
    cp_size: int = 1
    vpp_size: int = 1
    blocking: Blocking | None = None

    @property
    def has_data_parallelism(self) -> bool:
        """Whether gradients and parameters are exchanged between replicas."""
        return self.dp_size * self.cp_size > 1


class StageProgram(NamedTuple):
    """The ops of one stage in one step in their recorded order; ops are numbered by (type, start), from 0.

    Two recordings with equal programs have the same dependency graph, whatever their times are.

    counts        : ops of each type, one number per type.
    compute_order : the compute ops in the order of their starts.
    dp_order      : params-all-gather and grads-reduce-scatter in the order of their starts.
    chunks        : model chunk of each op that has one (compute and dp stream); -1 elsewhere.
    no_ops        : transfers that never moved data (model, section 2, no-op transfers, kind a).
    loaded_for    : of each data-load the forward-compute that waits for it; -1 where none does.
    in_turn       : of each data-load whether it runs in turn with the computes (model, section 2).
    worker_order  : turns of the worker in their order; a turn is a compute, or blocking transfers that ran at
                    the same time. Empty if no transfer blocks.
    calls         : blocking transfers that were issued in one call, and so end together.
    """

    counts: tuple[int, ...]
    compute_order: tuple[int, ...]
    dp_order: tuple[int, ...]
    chunks: tuple[int, ...]
    no_ops: tuple[int, ...]
    loaded_for: tuple[int, ...] = ()
    in_turn: tuple[bool, ...] = ()
    worker_order: tuple[tuple[int, ...], ...] = ()
    calls: tuple[tuple[int, ...], ...] = ()

    @property
    def first_ops(self) -> tuple[int, ...]:
        """Number of the first op of each type, followed by the total number of ops."""
        return tuple(accumulate(self.counts, initial=0))

    @property
    def size(self) -> int:
        """Number of ops in the program."""
        return sum(self.counts)

    def ops_by_type(self, base: int) -> list[range]:
        """Return the ops of each type by start, if the first op of all has the number `base`."""
        return [range(base + first, base + end) for first, end in pairwise(self.first_ops)]


class Cell(NamedTuple):
    """Ops of one stage, either of all dp ranks as lanes (dp_rank = ALL_DP_RANKS) or of one dp rank."""

    stage: int
    dp_rank: int
    program: StageProgram

    @property
    def dp_ranks(self) -> slice:
        """Which dp ranks the cell has, as a slice of an axis of all dp ranks."""
        return slice(None) if self.dp_rank == ALL_DP_RANKS else slice(self.dp_rank, self.dp_rank + 1)


ReplayNode: TypeAlias = tuple[
    tuple[int, ...], bool, tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...]
]
"""Ops that are replayed together, one op or a rendezvous: (ops, across_dp, sources, source_slots, op_slots).

across_dp : whether the ops meet on all dp lanes. sources : ops for which any of the ops waits.
source_slots : the slot with the end of each source. op_slots : each op and the slot for its end, which is
reused when no other op waits for it.
A plain tuple, because a graph has thousands of them and every job makes them anew.
"""


class Meetings(NamedTuple):
    """Rendezvous of one kind, that is, groups of ops that start together.

    members   : for each member of a rendezvous its ops, one per rendezvous; all equally long.
    across_dp : whether they meet on all dp lanes.
    """

    members: tuple[Sequence[int], ...]
    across_dp: bool


@dataclass(frozen=True, eq=False)
class OpGraph:
    """Dependency graph of one step; ops are numbered cell by cell, within a cell by (type, start).

    cells        : the cells in order of their ops.
    first_op     : number of the first op of each cell, followed by the number of all ops.
    op_types     : type of each op.
    stages       : stage of each op.
    waits_for    : for each op the ops that must have ended before it starts.
    waits        : the same waits as pairs (sources, ops) of sequences; consecutive ops form a range.
    nodes        : in a topological order, in which they are replayed.
    slots        : number of slots for ends that a replay in this order needs.
    meetings     : all rendezvous, also those of eager sends with their recvs.
    sent_by      : recv -> its eager send. The recv waits for the send's start; the send does not wait.
    derived      : results cached by `once_per_graph`.
    """

    cells: tuple[Cell, ...]
    first_op: tuple[int, ...]
    op_types: tuple[int, ...]
    stages: tuple[int, ...]
    waits_for: tuple[tuple[int, ...], ...]
    waits: tuple[tuple[Sequence[int], Sequence[int]], ...]
    nodes: tuple[ReplayNode, ...]
    slots: int
    meetings: tuple[Meetings, ...]
    sent_by: Mapping[int, int] = field(default_factory=dict)
    derived: dict[object, tuple[object, Any]] = field(default_factory=dict, init=False, repr=False)

    @property
    def size(self) -> int:
        """Number of ops in the graph."""
        return len(self.op_types)

    @property
    def has_dp_lanes(self) -> bool:
        """Whether ops are shared by dp ranks, as lanes; otherwise each dp rank has ops of its own."""
        return self.cells[0].dp_rank == ALL_DP_RANKS

    @cached_property
    def ops_by_type(self) -> list[list[range]]:
        """Ops of each cell, one range per op type, in order of start."""
        return [cell.program.ops_by_type(base) for cell, base in zip(self.cells, self.first_op, strict=False)]

    def ref(self, op: int) -> OpRef:
        """Return the position of an op, for messages."""
        return op_ref(self.cells, self.first_op, op)


def once_per_graph(derive: Callable[Concatenate[OpGraph, P], T]) -> Callable[Concatenate[OpGraph, P], T]:
    """Decorate a function of a graph to cache its last result with the graph, as many jobs share a graph."""

    @wraps(derive)
    def kept(graph: OpGraph, /, *args: P.args, **kwargs: P.kwargs) -> T:
        known = graph.derived.get(derive)
        if known is None or known[0] != (args, kwargs):
            known = graph.derived[derive] = (args, kwargs), derive(graph, *args, **kwargs)
        return known[1]

    return kept


def op_ref(cells: tuple[Cell, ...], first_op: tuple[int, ...], op: int) -> OpRef:
    """Return the stage, dp rank, type and ordinal of an op.

    first_op : number of the first op of each cell, followed by the number of all ops.
    """
    at = bisect_right(first_op, op) - 1
    cell, local = cells[at], op - first_op[at]
    firsts = cell.program.first_ops
    op_type = bisect_right(firsts, local) - 1
    return OpRef(cell.stage, max(cell.dp_rank, 0), op_type, local - firsts[op_type])


Index: TypeAlias = slice | Ints
"""Index of ops into an array: a slice, which copies nothing, if they are consecutive."""


def as_index(ops: Sequence[int]) -> Index:
    """Turn numbers of ops into an index of an array."""
    return slice(ops.start, ops.stop) if isinstance(ops, range) else np.array(ops)


@once_per_graph
def meeting_indices(graph: OpGraph) -> list[list[Index]]:
    """Return the op indices of the members of all rendezvous, as in `OpGraph.meetings`."""
    return [[as_index(ops) for ops in members] for members, _ in graph.meetings]


@once_per_graph
def wait_indices(graph: OpGraph) -> list[tuple[Index, Index]]:
    """Return indices of sources, and of the ops that wait for these, as in `OpGraph.waits`."""
    return [(as_index(sources), as_index(ops)) for sources, ops in graph.waits if ops]
