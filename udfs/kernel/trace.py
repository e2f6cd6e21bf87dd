"""From recorded rows to blocks of steps that share one dependency graph.

Where all steps and dp ranks of a job did the same in the same order, there is one block with the dp ranks as
lanes. Steps that did something else form blocks of their own; a step in which the dp ranks disagree with each
other gets a graph in which every (stage, dp_rank) has its own ops. No step is forced into another's graph.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel import op_type as ot
from udfs.kernel.correlation import backward_of_forward, paired_times
from udfs.kernel.errors import OpRef, TraceDefectError
from udfs.kernel.graph import ALL_DP_RANKS, Cell, Layout, OpGraph, build_graph
from udfs.kernel.program import Floats, Ints
from udfs.kernel.rows import RowClass, StageRows, classify


class StepBlock(NamedTuple):
    """Steps with one graph. dp is dp_size where dp ranks are lanes, 1 where each has its own ops.

    steps      : int, shape (step,); positions among the job's replayed steps.
    start_s    : float64, shape (op, step, dp); from the step's zero. [s]
    duration_s : float64, shape (op, step, dp). [s]
    """

    steps: Ints
    graph: OpGraph
    start_s: Floats
    duration_s: Floats

    @property
    def has_dp_lanes(self) -> bool:
        """Whether the dp ranks are lanes of one graph."""
        return self.graph.cells[0].dp_rank == ALL_DP_RANKS


class Trace(NamedTuple):
    """A job's replayed steps.

    blocks     : together they hold every step once.
    forward_s, backward_s : per stage float64, shape (pair, dp_rank); times of the same microbatch. [s]
    """

    blocks: list[StepBlock]
    forward_s: list[Floats]
    backward_s: list[Floats]


def build_trace(stages: Sequence[StageRows], layout: Layout, steps: int) -> Trace:
    """Dense arrays and graphs of a job.

    stages : one per stage, rows ordered by (step, dp_rank), every step complete.
    steps  : number of steps.
    raises : TraceDefectError.
    """
    classes = [_located(rows, stage, layout) for stage, rows in enumerate(stages)]
    blocks = [_block(classes, members, layout) for members in _steps_alike(classes, steps, layout.dp_size)]
    pairs = [_stage_pairs(found, steps, layout.dp_size) for found in classes]
    return Trace(blocks, [forward for forward, _ in pairs], [backward for _, backward in pairs])


def _located(rows: StageRows, stage: int, layout: Layout) -> list[RowClass]:
    """Classes of a stage; a defect found in a row is told where that row ran."""
    try:
        return classify(rows)
    except TraceDefectError as found:
        step, dp_rank = divmod(found.ops[0].dp_rank, layout.dp_size)
        ops = [OpRef(stage, dp_rank, op.op_type, op.ordinal) for op in found.ops]
        raise TraceDefectError(found.defect, ops, step) from None


def _steps_alike(classes: list[list[RowClass]], steps: int, dp_size: int) -> list[Ints]:
    """Steps with equal programs in every cell, one array of positions per distinct step."""
    if all(len(found) == 1 for found in classes):
        return [np.arange(steps)]
    number = np.empty((len(classes), steps * dp_size), dtype=np.int64)
    for stage, found in enumerate(classes):
        for position, row_class in enumerate(found):
            number[stage, row_class.rows] = position
    by_step = number.reshape(len(classes), steps, dp_size).swapaxes(0, 1).reshape(steps, -1)
    _, first, inverse = np.unique(by_step, axis=0, return_index=True, return_inverse=True)
    inverse = inverse.reshape(-1)
    return [np.flatnonzero(inverse == kind) for kind in np.argsort(first)]


def _block(classes: list[list[RowClass]], members: Ints, layout: Layout) -> StepBlock:
    dp_size = layout.dp_size
    rows_of_dp = members * dp_size
    cells: list[tuple[Cell, RowClass]] = []
    for stage, found in enumerate(classes):
        owner = [_owner(found, int(rows_of_dp[0]) + dp_rank) for dp_rank in range(dp_size)]
        cells.extend((Cell(stage, dp_rank, own.program), own) for dp_rank, own in enumerate(owner))
    alike = all(cells[i][0].program == cells[i - i % dp_size][0].program for i in range(len(cells)))
    if alike:
        cells = [(Cell(c.stage, ALL_DP_RANKS, c.program), own) for c, own in cells[::dp_size]]
    try:
        graph = build_graph(tuple(cell for cell, _ in cells), layout)
    except TraceDefectError as found_defect:
        raise TraceDefectError(found_defect.defect, found_defect.ops, int(members[0])) from None
    shape = (graph.size, len(members), dp_size if alike else 1)
    start_s, duration_s = np.empty(shape), np.empty(shape)
    for (cell, own), first, last in zip(cells, graph.first_op, graph.first_op[1:], strict=False):
        rows = rows_of_dp[:, None] + (np.arange(dp_size) if alike else cell.dp_rank)
        columns = np.searchsorted(own.rows, rows)
        if columns.size == len(own.rows):
            start_s[first:last] = own.start_s.reshape(start_s[first:last].shape)
            duration_s[first:last] = own.duration_s.reshape(start_s[first:last].shape)
        else:
            start_s[first:last] = own.start_s[:, columns]
            duration_s[first:last] = own.duration_s[:, columns]
    return StepBlock(members, graph, start_s, duration_s)


def _owner(found: list[RowClass], row: int) -> RowClass:
    for row_class in found:
        position = np.searchsorted(row_class.rows, row)
        if position < len(row_class.rows) and row_class.rows[position] == row:
            return row_class
    raise IndexError(row)


def _stage_pairs(found: list[RowClass], steps: int, dp_size: int) -> tuple[Floats, Floats]:
    """Forward and backward times of the same microbatch, shape (pair, dp_rank), nan where there is none."""
    pairs = []
    most = max(row_class.program.counts[ot.FORWARD_COMPUTE] for row_class in found)
    for row_class in found:
        forwards = row_class.program.counts[ot.FORWARD_COMPUTE]
        computes = len(row_class.microbatch)
        chunks = np.array(row_class.program.chunks[:computes], dtype=np.int64)
        partner = backward_of_forward(row_class.microbatch, chunks, forwards)
        pairs.append(paired_times(row_class.duration_s[:computes], partner, forwards))
    if len(found) == 1:
        forward_s, backward_s = pairs[0]
        shape = (most * steps, dp_size)
        return forward_s.reshape(shape), backward_s.reshape(shape)
    both: npt.NDArray[np.float64] = np.full((2, most, steps * dp_size), np.nan)
    for row_class, (forward_s, backward_s) in zip(found, pairs, strict=True):
        both[0, : len(forward_s), row_class.rows] = forward_s.T
        both[1, : len(forward_s), row_class.rows] = backward_s.T
    forward_s, backward_s = both.reshape(2, most * steps, dp_size)
    return forward_s, backward_s
