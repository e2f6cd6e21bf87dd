"""First pass over a job: durations of all its steps, and all that only recorded times tell."""

from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from udfs.kernel.correlation import Moments, worker_moments
from udfs.kernel.diagnosis.compute_times import BlockTimes
from udfs.kernel.diagnosis.recorded import block_times
from udfs.kernel.durations import clamped_launch_delays, put_transfers
from udfs.kernel.errors import TraceDefectError
from udfs.kernel.graph import Layout, OpGraph
from udfs.kernel.program import Floats, Ints
from udfs.kernel.rows import StageRows
from udfs.kernel.trace import Graphs, StepBlock, build_trace


class JobRows(Protocol):
    """A job's recorded rows, laid out for some of its steps at a time."""

    @property
    def ops(self) -> int:
        """Number of ops."""

    @property
    def number_of_steps(self) -> int:
        """Number of steps."""

    def stages(self, first: int, end: int) -> list[StageRows]:
        """Rows of the steps [first, end), one per stage, ordered by (step, dp_rank)."""


class Block(NamedTuple):
    """Steps with one graph, ready to be replayed.

    steps      : int, shape (step,); positions among the job's steps.
    duration_s : float64, shape (op, step, dp), transfers in a rendezvous. [s]
    diagnosed  : the same steps as the diagnosis replays them; None where it is not wanted.
    """

    steps: Ints
    graph: OpGraph
    duration_s: Floats
    diagnosed: BlockTimes | None


class Recorded(NamedTuple):
    """What is left of a job's recorded times once its durations are known."""

    blocks: list[Block]
    actual_s: Floats
    moments: list[Moments]
    clamped_transfers: int
    clamped_launch_delays: int
    graphs: int


def read(rows: JobRows, layout: Layout, ops_together: int, *, diagnosed: bool) -> Recorded:
    """Durations of all steps, and all that only recorded times tell.

    rows         : the job's rows, every step complete.
    ops_together : ops that are laid out at a time; a step is never divided.
    diagnosed    : whether to keep what the diagnosis needs.
    raises       : TraceDefectError where the ops contradict each other.
    """
    steps = rows.number_of_steps
    blocks_wanted = max(1, round(rows.ops / ops_together))
    together = -(-steps // blocks_wanted)
    graphs: Graphs = {}
    blocks: list[Block] = []
    moments: list[Moments] = []
    actual_s = np.empty(steps)
    clamped = np.zeros(2, dtype=np.int64)
    for first in range(0, steps, together):
        end = min(first + together, steps)
        try:
            trace = build_trace(rows.stages(first, end), layout, end - first, graphs)
        except TraceDefectError as found:
            raise TraceDefectError(found.defect, found.ops, first + found.step_index) from None
        for block in trace.blocks:
            settled, clamped_here = _settle(block, layout, actual_s[first:], diagnosed=diagnosed)
            blocks.append(settled._replace(steps=first + block.steps))
            clamped += clamped_here
        pairs = zip(trace.forward_s, trace.backward_s, strict=True)
        found_moments = [worker_moments(forward_s, backward_s) for forward_s, backward_s in pairs]
        moments = (
            [a.joined(b) for a, b in zip(moments, found_moments, strict=True)] if first else found_moments
        )
    return Recorded(blocks, actual_s, moments, int(clamped[0]), int(clamped[1]), len(graphs))


def _settle(
    block: StepBlock, layout: Layout, actual_s: Floats, *, diagnosed: bool
) -> tuple[Block, tuple[int, int]]:
    """Fill in recorded step times, put transfers in place of durations.

    returns : the block, and its number of clamped transfers and of clamped launch delays.
    """
    graph, start_s, duration_s = block.graph, block.start_s, block.duration_s
    end_s = np.empty_like(start_s)
    latest_s, earliest_s = [], []
    for cell, (first, last) in zip(graph.cells, pairwise(graph.first_op), strict=True):
        # Cell by cell, because a cell's times fit the cache; within a type ops stand in the order of starts.
        ends = np.add(start_s[first:last], duration_s[first:last], out=end_s[first:last])
        latest_s.append(ends.max(axis=0))
        firsts = {first + op for op in cell.program.first_ops if first + op < last}
        earliest_s.append(start_s[sorted(firsts)].min(axis=0))
    actual_s[block.steps] = np.max(latest_s, axis=(0, 2)) - np.min(earliest_s, axis=(0, 2))
    clamped_delays = clamped_launch_delays(graph, start_s, end_s)
    clamped_transfers = put_transfers(graph, start_s, end_s, duration_s)
    kept = block_times(block, end_s, layout) if diagnosed else None
    return Block(block.steps, graph, duration_s, kept), (clamped_transfers, clamped_delays)
