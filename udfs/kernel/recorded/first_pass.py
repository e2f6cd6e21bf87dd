"""First pass over a job: durations of all its steps, and all that needs recorded times."""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np

from udfs.kernel.arrays import Floats, Int32s, Ints
from udfs.kernel.clocks.estimate import Clocks, Limits, Listener
from udfs.kernel.correlation import Moments, worker_moments
from udfs.kernel.diagnosis.block_times import BlockTimes, block_times
from udfs.kernel.errors import TraceDefectError
from udfs.kernel.graph.graph import Layout, OpGraph
from udfs.kernel.recorded.computing import Computing, ComputingSums
from udfs.kernel.recorded.durations import clamped_launch_delays, put_transfers
from udfs.kernel.recorded.exchanged import Exchanged, exchanged
from udfs.kernel.recorded.rows import StageRows
from udfs.kernel.recorded.trace import Graphs, StepBlock, Trace, build_trace


class JobRows(Protocol):
    """A job's recorded rows, laid out for some of its steps at a time."""

    @property
    def ops(self) -> int:
        """Number of ops."""

    @property
    def number_of_steps(self) -> int:
        """Number of steps."""

    @property
    def clock(self) -> Ints:
        """Which clock each row's times are from, shape (stage, step, dp_rank), numbered from 0."""

    @property
    def time_s(self) -> Floats:
        """When each step began, shape (step,). [s]"""

    @property
    def worker_rank(self) -> Ints:
        """Global rank of each worker, shape (stage, dp_rank); settles ties among the slowest."""

    @property
    def worker_host(self) -> Ints:
        """Host of each worker, shape (stage, dp_rank): equal numbers are one host, -1 where unknown."""

    def stages(self, first: int, end: int) -> list[StageRows]:
        """Rows of the steps [first, end), one per stage, ordered by (step, dp_rank)."""


class Block(NamedTuple):
    """Steps with one graph, ready to be replayed.

    steps      : int, shape (step,); positions among the job's steps.
    duration_s : float64, shape (op, step, dp), transfers in a rendezvous. [s]
    microbatch : as in StepBlock.
    diagnosed  : the same steps as the diagnosis replays them; None where it is not wanted.
    """

    steps: Ints
    graph: OpGraph
    duration_s: Floats
    microbatch: tuple[Int32s, ...]
    diagnosed: BlockTimes | None


class Recorded(NamedTuple):
    """What is left of a job's recorded times once its durations are known.

    actual_s    : float64, shape (step,); recorded step time, T_actual. [s]
    began_s     : float64, shape (step,); earliest recorded start, from the step's zero. [s]
    computing   : share of the workers that compute, by phase of the step.
    correlation : float64, shape (stage, dp_rank); of forwards and backwards, nan where it does not exist.
    clamped_transfers, buffered_sends, clamped_launch_delays, graphs : counts.
    clocks      : of the hosts; None with one host, or if not asked for.
    exchanged   : dp ranks of a stage that stand in each other's place.
    """

    blocks: list[Block]
    actual_s: Floats
    began_s: Floats
    computing: Computing
    correlation: Floats
    clamped_transfers: int
    buffered_sends: int
    clamped_launch_delays: int
    graphs: int
    clocks: Clocks | None
    exchanged: list[Exchanged]


def read(
    rows: JobRows, layout: Layout, ops_together: int, limits: Limits | None = None, *, diagnosed: bool
) -> Recorded:
    """Durations of all steps, and all that needs recorded times.

    rows         : the job's rows, every step complete.
    ops_together : ops that are laid out at a time; a step is never divided.
    limits       : offsets of clocks below are left alone; None leaves all alone.
    diagnosed    : whether to keep what the diagnosis needs.
    raises       : TraceDefectError where the ops contradict each other.
    """
    reading = _Reading(rows, layout, {}, ops_together, diagnosed)
    if limits is None or not rows.clock.any():
        return reading.of_all_steps()
    listener = Listener(rows.clock, rows.time_s, layout, limits)
    found = reading.of_all_steps(listener)
    if len(reading.spans) > 1 and found.clocks is not None and found.clocks.is_corrected:
        # This needs all steps: what was read before they were known is read again.
        found = reading.of_all_steps(listener, found.clocks)
    return found


def refuse_timeless(blocks: Sequence[Block], recorded_s: Floats, ideal_s: Floats) -> None:
    """Raise TraceDefectError if the ops take no time, so that no slowdown is defined.

    recorded_s, ideal_s : shape (step,); replayed step times, T and T_ideal. [s]
    """
    for block in blocks:
        if not ideal_s[block.steps[0]] > 0.0 or not recorded_s.mean() > 0.0:
            defect = "the replayed ops take no time at all, beginning with"
            raise TraceDefectError(defect, [block.graph.ref(0)], int(block.steps[0]))


class _Reading(NamedTuple):
    """How a job is read."""

    rows: JobRows
    layout: Layout
    graphs: Graphs
    ops_together: int
    diagnosed: bool

    @property
    def spans(self) -> list[tuple[int, int]]:
        """First and last steps, [first, end), of what is laid out at a time."""
        steps = self.rows.number_of_steps
        together = -(-steps // max(1, round(self.rows.ops / self.ops_together)))
        return [(first, min(first + together, steps)) for first in range(0, steps, together)]

    def of_all_steps(self, listener: Listener | None = None, clocks: Clocks | None = None) -> Recorded:
        """Read all steps, a span at a time.

        listener : hears what they say about the clocks, where these are not known yet.
        clocks   : those to correct.
        """
        blocks: list[Block] = []
        moments: list[Moments] = []
        actual_s, began_s = np.empty((2, self.rows.number_of_steps))
        computing = ComputingSums()
        counted = np.zeros(3, dtype=np.int64)
        odd: list[Exchanged] = []
        for first, end in self.spans:
            trace = self._trace(first, end)
            # A rank keeps its place for the whole job: the first steps suffice.
            odd = odd if first else exchanged(trace.blocks[0])
            if listener is not None and clocks is None:
                for block in trace.blocks:
                    listener.hear(block, first)
                if end == len(actual_s):
                    clocks = listener.clocks()
            for block in trace.blocks:
                if listener is not None and clocks is not None and clocks.is_corrected:
                    listener.correct(block, clocks, first)
                clock = self.rows.clock[:, first + block.steps]
                settled, counted_here = _settle(
                    block,
                    self.layout,
                    clock,
                    actual_s[first:],
                    began_s[first:],
                    computing,
                    diagnosed=self.diagnosed,
                )
                blocks.append(settled._replace(steps=first + block.steps))
                counted += counted_here
            here = [worker_moments(*of_stage) for of_stage in trace.pairs_s]
            moments = [a.joined(b) for a, b in zip(moments, here, strict=True)] if first else here
        correlation = np.array([each.correlation() for each in moments])
        transfers, sends, delays = counted.tolist()
        return Recorded(
            blocks,
            actual_s,
            began_s,
            computing.of_all_steps(),
            correlation,
            transfers,
            sends,
            delays,
            len(self.graphs),
            clocks,
            odd,
        )

    def _trace(self, first: int, end: int) -> Trace:
        try:
            return build_trace(self.rows.stages(first, end), self.layout, end - first, self.graphs)
        except TraceDefectError as found:
            raise TraceDefectError(found.defect, found.ops, first + found.step_index) from None


def _settle(
    block: StepBlock,
    layout: Layout,
    clock: Ints,
    actual_s: Floats,
    began_s: Floats,
    computing: ComputingSums,
    *,
    diagnosed: bool,
) -> tuple[Block, tuple[int, int, int]]:
    """Fill in recorded step times and starts, add what computes, put transfers in place of durations.

    clock   : int, shape (stage, step, dp_rank); of the block's steps.
    returns : the block, and its number of clamped transfers, buffered sends and clamped launch delays.
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
    here_s = np.min(earliest_s, axis=(0, 2))
    began_s[block.steps] = here_s
    actual_s[block.steps] = np.max(latest_s, axis=(0, 2)) - here_s
    computing.add(block, end_s, here_s, actual_s[block.steps])
    clamped_delays = clamped_launch_delays(graph, start_s, end_s)
    clamped, buffered = put_transfers(graph, start_s, end_s, duration_s, clock)
    kept = block_times(block, end_s, here_s, layout) if diagnosed else None
    settled = Block(block.steps, graph, duration_s, block.microbatch, kept)
    return settled, (clamped, buffered, clamped_delays)
