"""Group recorded rows into blocks of steps that have one dependency graph.

If all steps and dp ranks of a job ran the same ops in the same order, they form one block with the dp ranks
as lanes. Steps with other ops or another order form separate blocks. A step in which dp ranks disagree gets a
graph in which every (stage, dp_rank) has separate ops. No step is forced into the graph of another step.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Int32s, Ints, alike
from udfs.kernel.correlation import backward_of_forward, paired_times
from udfs.kernel.graph.build_graph import build_graph
from udfs.kernel.graph.graph import ALL_DP_RANKS, Blocking, Cell, Layout, OpGraph, OpRef, TraceDefectError
from udfs.kernel.recorded.programs import LaidRows, RowClass, Times
from udfs.kernel.recorded.rows import StageRows, lay_out_rows


class StepBlock(NamedTuple):
    """Steps with one graph; the axis dp has length dp_size if dp ranks share ops, and 1 otherwise.

    steps      : int, shape (step,); positions among the job's replayed steps.
    start_s    : float64, shape (op, step, dp); from the step's zero. [s]
    duration_s : float64, shape (op, step, dp). [s]
    microbatch : per cell of the graph int32, shape (compute op, step, dp), or (compute op, 1, 1) where all
                 rows agree; forward before backward.
    """

    steps: Ints
    graph: OpGraph
    start_s: Floats
    duration_s: Floats
    microbatch: tuple[Int32s, ...] = ()


class Trace(NamedTuple):
    """All replayed steps of a job as blocks.

    blocks  : together they hold every step once.
    pairs_s : per stage forward and backward times of the same microbatch, float64, shape (pair, step,
              dp_rank); nan in the backward times of incomplete pairs. [s]
    compute_ns : float64, shape (stage, step, dp_rank); time of all computes of a worker. [ns]
    """

    blocks: list[StepBlock]
    pairs_s: list[tuple[Floats, Floats]]
    compute_ns: Floats


Graphs: TypeAlias = dict[tuple[Cell, ...], OpGraph]
"""Graphs of a job that were built already, by their cells."""

CACHED_GRAPHS: Final = 64
"""Most graphs that are cached for the other days of a job, and for other jobs with the same graph."""

MOST_CACHED_OPS: Final = 4096
"""Most ops of a graph that is cached."""


class Laid(NamedTuple):
    """Rows of all stages, before it is chosen which transfers block.

    stages : per stage, its rows, grouped by op counts.
    """

    stages: list[list[LaidRows]]
    steps: int

    def classes(self, blocking: Blocking | None) -> list[list[RowClass]]:
        """Return the classes of each stage's rows, one class per program."""
        types = blocking.types if blocking is not None else ()
        return [[each for laid in found for each in laid.classes(types)] for found in self.stages]

    def blocks(self, layout: Layout, known: Graphs, classes: list[list[RowClass]]) -> list[StepBlock]:
        """Group steps into blocks with one graph each; classes : from `classes` for the layout's blocking."""
        if any(len(found) > 1 for found in classes):
            number = np.empty((self.steps, len(classes), layout.dp_size), dtype=np.int64)
            for stage, found in enumerate(classes):
                for position, row_class in enumerate(found):
                    step, dp_rank = np.divmod(row_class.rows, layout.dp_size)
                    number[step, stage, dp_rank] = position
            blocks = []
            for steps in sorted(alike(number.reshape(self.steps, -1)), key=itemgetter(0)):
                own = zip(classes, number[steps[0]].tolist(), strict=True)
                owners = [[found[at] for at in of_stage] for found, of_stage in own]
                blocks.append(_block(owners, steps, layout, known))
            return blocks
        cells = [Cell(stage, ALL_DP_RANKS, only.program) for stage, (only,) in enumerate(classes)]
        graph = _graph(tuple(cells), layout, known)
        of_stages = zip(*(only.times for (only,) in classes), strict=True)
        start_s, duration_s = (
            np.concatenate(times).reshape(graph.size, self.steps, layout.dp_size) for times in of_stages
        )
        microbatch = tuple(
            by_row[:, :, None] if by_row.shape[1] == 1 else by_row.reshape(len(by_row), -1, layout.dp_size)
            for by_row in (only.microbatch for (only,) in classes)
        )
        return [StepBlock(np.arange(self.steps), graph, start_s, duration_s, microbatch)]


def lay_out(stages: Sequence[StageRows], layout: Layout, steps: int) -> Laid:
    """Lay out a job's rows as dense arrays; arguments as in `build_trace`.

    raises : TraceDefectError.
    """
    laid = []
    for stage, rows in enumerate(stages):
        try:
            laid.append(lay_out_rows(rows))
        except TraceDefectError as found:
            step, dp_rank = divmod(found.ops[0].dp_rank, layout.dp_size)
            ops = [OpRef(stage, dp_rank, op.op_type, op.ordinal) for op in found.ops]
            raise TraceDefectError(found.defect, ops, step) from None
    return Laid(laid, steps)


def build_trace(
    stages: Sequence[StageRows], layout: Layout, steps: int, graphs: Graphs | None = None
) -> Trace:
    """Build dense arrays and graphs of a job.

    stages : one per stage, rows ordered by (step, dp_rank), every step complete.
    steps  : number of steps.
    graphs : graphs of other steps of the same job, to which new graphs are added.
    raises : TraceDefectError.
    """
    laid = lay_out(stages, layout, steps)
    classes = laid.classes(layout.blocking)
    pairs_s = [_stage_pairs(found, steps, layout.dp_size) for found in classes]
    compute_ns = np.empty((len(stages), steps * layout.dp_size))
    for of_stage, found in zip(compute_ns, classes, strict=True):
        for row_class in found:
            of_stage[row_class.rows] = row_class.compute_ns
    blocks = laid.blocks(layout, {} if graphs is None else graphs, classes)
    return Trace(blocks, pairs_s, compute_ns.reshape(len(stages), steps, layout.dp_size))


_cached_graph: Final = lru_cache(maxsize=CACHED_GRAPHS)(build_graph)


def _graph(cells: tuple[Cell, ...], layout: Layout, known: Graphs) -> OpGraph:
    graph = known.get(cells)
    if graph is None:
        is_small = sum(cell.program.size for cell in cells) <= MOST_CACHED_OPS
        graph = known[cells] = (_cached_graph if is_small else build_graph)(cells, layout)
    return graph


def _block(owners: list[list[RowClass]], members: Ints, layout: Layout, known: Graphs) -> StepBlock:
    """Build a block of steps with equal programs; dp ranks become lanes if their programs agree.

    owners : class of each dp rank of each stage.
    """
    dp_size = layout.dp_size
    has_lanes = all(own is owner[0] for owner in owners for own in owner)
    cells: list[tuple[Cell, RowClass]] = []
    for stage, owner in enumerate(owners):
        if has_lanes:
            cells.append((Cell(stage, ALL_DP_RANKS, owner[0].program), owner[0]))
        else:
            cells.extend((Cell(stage, dp_rank, own.program), own) for dp_rank, own in enumerate(owner))
    try:
        graph = _graph(tuple(cell for cell, _ in cells), layout, known)
    except TraceDefectError as found_defect:
        raise TraceDefectError(found_defect.defect, found_defect.ops, int(members[0])) from None
    times = Times(*(np.empty((graph.size, len(members), dp_size if has_lanes else 1)) for _ in Times._fields))
    microbatch = []
    for (cell, own), (first, last) in zip(cells, pairwise(graph.first_op), strict=True):
        dp_ranks = np.arange(dp_size) if has_lanes else np.array([cell.dp_rank])
        columns = np.searchsorted(own.rows, members[:, None] * dp_size + dp_ranks)
        for target, source in zip(times, own.times, strict=True):
            target[first:last] = source[:, columns]
        by_row = own.microbatch
        microbatch.append(by_row[:, :, None] if by_row.shape[1] == 1 else by_row[:, columns])
    return StepBlock(members, graph, *times, tuple(microbatch))


def _stage_pairs(found: list[RowClass], steps: int, dp_size: int) -> tuple[Floats, Floats]:
    """Return forward and backward times per microbatch, (pair, step, dp_rank); nan if missing. [s]"""
    pairs = []
    most = max(row_class.program.counts[ot.FORWARD_COMPUTE] for row_class in found)
    for row_class in found:
        forwards = row_class.program.counts[ot.FORWARD_COMPUTE]
        computes = len(row_class.microbatch)
        chunks = np.array(row_class.program.chunks[:computes], dtype=np.int64)
        partner = backward_of_forward(row_class.microbatch, chunks, forwards)
        pairs.append(paired_times(row_class.times.duration_s[:computes], partner, forwards))
    if len(found) == 1:
        forward_s, backward_s = pairs[0]
        shape = (most, steps, dp_size)
        return forward_s.reshape(shape), backward_s.reshape(shape)
    both: npt.NDArray[np.float64] = np.full((2, most, steps * dp_size), np.nan)
    for row_class, (forward_s, backward_s) in zip(found, pairs, strict=True):
        both[0, : len(forward_s), row_class.rows] = forward_s.T
        both[1, : len(forward_s), row_class.rows] = backward_s.T
    forward_s, backward_s = both.reshape(2, most, steps, dp_size)
    return forward_s, backward_s
