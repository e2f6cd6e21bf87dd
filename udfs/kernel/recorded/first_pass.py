"""First pass over a job: durations of all steps, and all figures for which recorded times are needed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

import numpy as np

from udfs.kernel.arrays import Floats, Int32s, Ints, Mask
from udfs.kernel.clocks.estimate import Clocks, Limits, Listener, by_one_clock
from udfs.kernel.correlation import Moments, worker_moments
from udfs.kernel.diagnosis.block_times import BlockTimes, block_times
from udfs.kernel.graph.graph import Blocking, Layout, OpGraph, TraceDefectError
from udfs.kernel.recorded.blocking import BlockingFound, Sample, choose_by_all_and_far, sampled
from udfs.kernel.recorded.calls import Unknown, put_usual, unknown_transfers
from udfs.kernel.recorded.durations import clamped_launch_delays, put_transfers
from udfs.kernel.recorded.ends import Ends, recorded_ends
from udfs.kernel.recorded.exchanged import STEPS, Exchanged, exchanged
from udfs.kernel.recorded.gaps import longest_gaps
from udfs.kernel.recorded.nobody_late import nobody_late, waits
from udfs.kernel.recorded.rows import StageRows
from udfs.kernel.recorded.trace import Graphs, Laid, StepBlock, Trace, build_trace, lay_out
from udfs.kernel.replay.replay import step_times
from udfs.kernel.swing import Computing, ComputingSums

PROBED_OPS: Final = 50_000
"""If the sample has more ops, one step is tried first; with fewer ops this would save less than it costs."""

NONE_UNKNOWN: Final[Mapping[int, Unknown]] = MappingProxyType({})


class JobRows(Protocol):
    """Recorded rows of a job, which are laid out some steps at a time."""

    @property
    def ops(self) -> int:
        """Number of ops in all rows of the job."""

    @property
    def number_of_steps(self) -> int:
        """Number of steps of the job."""

    @property
    def clock(self) -> Ints:
        """Clock of each row, shape (stage, step, dp_rank), numbered from 0."""

    @property
    def time_s(self) -> Floats:
        """Start of each step, shape (step,). [s]"""

    @property
    def worker_rank(self) -> Ints:
        """Global rank of each worker, shape (stage, dp_rank), which decides between equally slow workers."""

    @property
    def worker_host(self) -> Ints:
        """Host number of each worker, shape (stage, dp_rank); -1 where unknown."""

    def stages(self, first: int, end: int, apart: int = 1) -> list[StageRows]:
        """Return the rows of every `apart`-th step in [first, end), per stage, ordered by (step, dp_rank)."""


class Block(NamedTuple):
    """Steps that have one graph, and durations with which they can be replayed.

    steps      : int, shape (step,); positions among the job's steps.
    duration_s : float64, shape (op, step, dp); of ops in a rendezvous, their transfer times. [s]
    microbatch : as in StepBlock.
    diagnosed  : the times of the same steps for the diagnosis; None if no diagnosis is wanted.
    unknown    : transfers of calls whose own length is not recorded, from `unknown_transfers`.
    """

    steps: Ints
    graph: OpGraph
    duration_s: Floats
    microbatch: tuple[Int32s, ...]
    diagnosed: BlockTimes | None
    unknown: Mapping[int, Unknown] = NONE_UNKNOWN


class Recorded(NamedTuple):
    """Figures from recorded times that are kept once the durations of the job are known.

    actual_s    : float64, shape (step,); recorded step time, T_actual. [s]
    began_s     : float64, shape (step,); earliest recorded start, from the step's zero. [s]
    computing   : share of the workers that compute, by phase of the step.
    compute_ns  : float64, shape (stage, step, dp_rank); time of all computes of a worker. [ns]
    correlation : float64, shape (stage, dp_rank); of forwards and backwards, nan where it does not exist.
    clamped_transfers, buffered_sends, clamped_launch_delays, graphs : counts.
    clocks      : of the hosts; None with one host, or without limits.
    exchanged   : pairs of dp ranks of a stage whose records are swapped.
    nobody_late : bool, shape (step,); steps in which a stage waits in a reduce-scatter that nobody entered
                  late.
    gaps        : function that reads the rows again and returns `longest_gaps` of all steps.
    blocking    : which transfers block, and how that was found.
    """

    blocks: list[Block]
    actual_s: Floats
    began_s: Floats
    computing: Computing
    compute_ns: Floats
    correlation: Floats
    clamped_transfers: int
    buffered_sends: int
    clamped_launch_delays: int
    graphs: int
    clocks: Clocks | None
    exchanged: list[Exchanged]
    nobody_late: Mask
    gaps: Callable[[], Floats]
    blocking: BlockingFound = BlockingFound()


def read(
    rows: JobRows,
    layout: Layout,
    ops_together: int,
    limits: Limits | None = None,
    *,
    diagnosed: bool,
    replayed_s: Callable[[list[Block]], Floats] | None = None,
) -> Recorded:
    """Compute the durations of all steps, and all figures for which recorded times are needed.

    rows         : the job's rows, every step complete.
    ops_together : about how many ops are converted at a time; a step is never divided.
    limits       : clock offsets below these limits are not corrected; None: no clock is examined.
    diagnosed    : whether to keep the times that the diagnosis needs.
    replayed_s   : returns the replayed step times of blocks, shape (step,), for callers that need them
                   anyway;
                   None: only a sample of the steps is replayed. [s]
    raises       : TraceDefectError where the ops contradict each other.
    """
    reading = _Reading(rows, layout._replace(blocking=None), {}, {}, ops_together, diagnosed)
    listener = None
    if limits is not None and rows.clock.any():
        listener = Listener(rows.clock, rows.time_s, layout, limits)
    found = reading.of_all_steps(listener)
    if len(reading.spans) > 1 and found.clocks is not None and found.clocks.is_corrected:
        # Clocks are known only after the last step, so that all steps are read again to correct them.
        found = reading.of_all_steps(clocks=found.clocks)
    if layout.pp_size == 1:
        return found
    stated = None if layout.blocking is None else layout.blocking.types
    # If the manifest states types that block, the caller has no use for a replay without blocking.
    at = sampled(len(found.actual_s))
    some_s = _of_sample if replayed_s is None or stated else replayed_s
    blocking = reading.blocking(found, stated, some_s(found.blocks)[at])
    if blocking.chosen.types:
        blocked = layout._replace(blocking=blocking.chosen)
        holding = reading._replace(layout=blocked, graphs={})
        found = holding.of_all_steps(clocks=found.clocks)
        put_usual([(block.graph, block.duration_s, block.unknown) for block in found.blocks])
    return found._replace(blocking=blocking)


_SHORTEST_S: Final = 1e-6
"""Shorter step times are rounding errors, because times are differences of times of day. [s]"""


def refuse_timeless(blocks: Sequence[Block], recorded_s: Floats, ideal_s: Floats) -> None:
    """Raise TraceDefectError if ops take no time, because a slowdown then has no meaning.

    recorded_s, ideal_s : shape (step,); replayed step times, T and T_ideal. [s]
    """
    for block in blocks:
        if not ideal_s[block.steps[0]] >= _SHORTEST_S or not recorded_s.mean() >= _SHORTEST_S:
            defect = "the replayed ops take no time at all, beginning with"
            raise TraceDefectError(defect, [block.graph.ref(0)], int(block.steps[0]))


def spans(steps: int, ops: int, ops_together: int) -> list[tuple[int, int]]:
    """Divide the steps into ranges [first, end) of about `ops_together` ops, which are laid out together."""
    together = -(-steps // max(1, round(ops / ops_together)))
    return [(first, min(first + together, steps)) for first in range(0, steps, together)]


class _Reading(NamedTuple):
    """State of the first pass over a job.

    at_hand : rows by range of steps; it holds the range of all steps if these are converted at once.
    """

    rows: JobRows
    layout: Layout
    graphs: Graphs
    at_hand: dict[range, list[StageRows]]
    ops_together: int
    diagnosed: bool

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Ranges of the job's steps, each of which is laid out at once."""
        return spans(self.rows.number_of_steps, self.rows.ops, self.ops_together)

    def of_all_steps(self, listener: Listener | None = None, clocks: Clocks | None = None) -> Recorded:
        """Read all steps, one range at a time.

        listener : estimates the clocks from the steps; None if clocks are known, or not examined.
        clocks   : known clocks, by which recorded times are corrected.
        """
        blocks, moments, compute_ns, odd = list[Block](), list[Moments](), list[Floats](), list[Exchanged]()
        steps = self.rows.number_of_steps
        sums = _Sums(np.empty(steps), np.empty(steps), np.zeros((2, self.layout.pp_size, steps)))
        for first, end in self.spans:
            trace = self._trace(range(first, end))
            ends = [recorded_ends(block) for block in trace.blocks]
            if not first:  # a rank keeps its place for the whole job: the first steps suffice
                is_shared = listener is not None
                odd = exchanged(trace.blocks[0], ends[0] if is_shared else ends[0].of_steps(slice(STEPS)))
            if listener is not None:
                for block, its_ends in zip(trace.blocks, ends, strict=True):
                    listener.hear(block, its_ends, first)
                if end == steps:
                    clocks = listener.clocks()
            moved = [by_one_clock(block, self.rows.clock, clocks, first) for block in trace.blocks]
            if clocks is not None and clocks.is_corrected:
                ends = [recorded_ends(block) for block in moved]
            blocks += [
                self._settled(block._replace(steps=first + block.steps), its_ends, sums)
                for block, its_ends in zip(moved, ends, strict=True)
            ]
            compute_ns.append(trace.compute_ns)
            here = [worker_moments(*of_stage) for of_stage in trace.pairs_s]
            moments = [a.joined(b) for a, b in zip(moments, here, strict=True)] if first else here
        transfers, sends, delays = sums.counted.tolist()
        return Recorded(
            blocks,
            sums.actual_s,
            sums.began_s,
            sums.computing.of_all_steps(),
            np.concatenate(compute_ns, axis=1),
            np.array([each.correlation() for each in moments]),
            transfers,
            sends,
            delays,
            len(self.graphs),
            clocks,
            odd,
            nobody_late(sums.waits_s, sums.actual_s),
            partial(self._replace(at_hand={}).gaps, clocks),
        )

    def _settled(self, block: StepBlock, ends: Ends, sums: "_Sums") -> Block:
        """Turn a block's recorded times into durations, while its starts and ends are in memory."""
        steps, graph, start_s, duration_s, microbatch = block
        end_s, began_s = ends.end_s, ends.first_s.min(axis=(0, 2))
        actual_s = ends.last_s.max(axis=(0, 2)) - began_s
        sums.actual_s[steps], sums.began_s[steps] = actual_s, began_s
        sums.computing.add(block, end_s, began_s, actual_s)
        clamped_delays = clamped_launch_delays(graph, start_s, end_s)
        clamped = put_transfers(graph, start_s, end_s, duration_s, self.rows.clock[:, steps])
        sums.counted[:] += (*clamped, clamped_delays)
        sums.waits_s[:, :, steps] = waits(graph, start_s, end_s, self.layout.pp_size)
        diagnosed = block_times(block, end_s, began_s, self.layout) if self.diagnosed else None
        unknown = unknown_transfers(graph, end_s, duration_s)
        return Block(steps, graph, duration_s, microbatch, diagnosed, unknown)

    def gaps(self, clocks: Clocks | None) -> Floats:
        """Return the longest idle time before a compute, by worker and step, as `longest_gaps` does. [s]"""
        steps, layout = self.rows.number_of_steps, self.layout
        found = np.zeros((2, layout.pp_size, steps, layout.dp_size))
        for first, end in self.spans:
            for block in self._trace(range(first, end)).blocks:
                start_s = by_one_clock(block, self.rows.clock, clocks, first).start_s
                gaps = longest_gaps(block.graph, start_s, start_s + block.duration_s, layout)
                found[:, :, first + block.steps] = gaps
        return found

    def blocking(self, found: Recorded, stated: tuple[int, ...] | None, plain_s: Floats) -> BlockingFound:
        """Find the types of transfers that block their worker.

        found   : result of reading all steps without blocking.
        plain_s : replayed times of the sampled steps without blocking. [s]
        """
        at = sampled(len(found.actual_s))
        # A large sample is not cached, but converted step by step for each choice, to save memory.
        is_large = self.rows.ops * len(at) > self.ops_together * len(found.actual_s)
        laid_out = self._laid_out if is_large else cache(self._laid_out)

        def blocks_of(blocking: Blocking, steps: Sequence[int]) -> list[StepBlock]:
            layout, blocks = self.layout._replace(blocking=blocking), list[StepBlock]()
            parts = [range(step, step + 1) for step in steps]
            for part in [steps] if isinstance(steps, range) and not is_large else parts:
                laid = laid_out(part)
                for block in laid.blocks(layout, {}, laid.classes(blocking)):
                    of_job = block._replace(steps=part.start + part.step * block.steps)
                    blocks.append(by_one_clock(of_job, self.rows.clock, found.clocks))
            return blocks

        is_probed = self.rows.ops * len(at) > PROBED_OPS * len(found.actual_s)
        sample = Sample(at, plain_s, blocks_of, lambda block: self.rows.clock[:, block.steps], is_probed)
        return choose_by_all_and_far(sample, found.actual_s[at], stated)

    def _laid_out(self, steps: range) -> Laid:
        return lay_out(self._stages(steps), self.layout, len(steps))

    def _stages(self, steps: range) -> list[StageRows]:
        every = range(self.rows.number_of_steps)
        if steps == every and steps not in self.at_hand and len(self.spans) == 1:
            self.at_hand[every] = self.rows.stages(0, every.stop)
        whole = self.at_hand.get(every)
        if whole is None:
            return self.rows.stages(steps.start, steps.stop, steps.step)
        if steps == every:
            return whole
        dp_size = self.layout.dp_size
        rows = [slice(step * dp_size, (step + 1) * dp_size) for step in steps]
        return [of_stage.some(rows) for of_stage in whole]

    def _trace(self, steps: range) -> Trace:
        try:
            return build_trace(self._stages(steps), self.layout, len(steps), self.graphs)
        except TraceDefectError as defect:
            raise TraceDefectError(defect.defect, defect.ops, steps[defect.step_index]) from None


@dataclass(frozen=True)
class _Sums:
    """Sums that the first pass accumulates block by block; written in place.

    actual_s, began_s : as in Recorded.
    waits_s           : times in which a whole stage waits in all steps, shaped as from `waits`. [s]
    counted           : clamped transfers, buffered sends, clamped launch delays.
    computing         : share of the workers that compute.
    """

    actual_s: Floats
    began_s: Floats
    waits_s: Floats
    counted: Ints = field(default_factory=lambda: np.zeros(3, dtype=np.int64))
    computing: ComputingSums = field(default_factory=ComputingSums)


def _of_sample(blocks: list[Block]) -> Floats:
    """Return replayed times of the steps on which blocking is tested, nan for others; shape (step,). [s]"""
    steps = sum(len(block.steps) for block in blocks)
    replayed_s, at = np.full(steps, np.nan), sampled(steps)
    for block in blocks:
        here = np.isin(block.steps, at)
        if here.any():
            replayed_s[block.steps[here]] = step_times(block.graph, block.duration_s[:, here])
    return replayed_s
