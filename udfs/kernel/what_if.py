"""Everything section 5 of the model asks of one job, from its recorded rows."""

from itertools import pairwise
from typing import Final, NamedTuple, Protocol

import numpy as np

from udfs.kernel.correlation import Moments, worker_moments
from udfs.kernel.durations import clamped_launch_delays, put_transfers
from udfs.kernel.errors import TraceDefectError
from udfs.kernel.graph import Layout, OpGraph
from udfs.kernel.ideal import POOLED_MEAN_MEDIAN, Ideal, ideal_durations, ideal_of_ops
from udfs.kernel.masked import Mask, op_dp_ranks, op_stages, replay_masks, replay_one_by_one
from udfs.kernel.program import Floats, Ints
from udfs.kernel.replay import last_ops, replay_lanes
from udfs.kernel.rows import StageRows
from udfs.kernel.stacked import ScenarioTimes, replay_scenarios
from udfs.kernel.trace import Graphs, StepBlock, build_trace

SLOWEST_PERCENT: Final = 3
"""Share of the workers that M_W makes ideal [%] (Eq. 5)."""

OPS_TOGETHER: Final = 1_000_000
"""Ops that are laid out and replayed at a time: beyond, only their durations are kept."""


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


class WhatIf(NamedTuple):
    """What a job cost and would have cost; float64, seconds, unless said otherwise.

    actual_s         : shape (step,); recorded step time, T_actual.
    times            : step times of every scenario.
    slowest_ideal_s  : shape (step,); the slowest workers ideal, all else as recorded.
    worker_slowdown_approx : shape (stage, dp_rank); the paper's shortcut, a ratio.
    is_slowest       : bool, shape (stage, dp_rank).
    correlation      : shape (stage, dp_rank); nan where it does not exist.
    ideal_duration_s : shape (stage, op type); nan where a type was never recorded.
    clamped_transfers, clamped_launch_delays, graphs : counts.
    """

    actual_s: Floats
    times: ScenarioTimes
    slowest_ideal_s: Floats
    worker_slowdown_approx: Floats
    is_slowest: Mask
    correlation: Floats
    ideal_duration_s: Floats
    clamped_transfers: int
    clamped_launch_delays: int
    graphs: int


class _Block(NamedTuple):
    """Steps with one graph, ready to be replayed.

    steps      : int, shape (step,); positions among the job's steps.
    duration_s : float64, shape (op, step, dp). [s]
    """

    steps: Ints
    graph: OpGraph
    duration_s: Floats


class _Recorded(NamedTuple):
    """What is left of a job's recorded times once its durations are known."""

    blocks: list[_Block]
    actual_s: Floats
    moments: list[Moments]
    clamped_transfers: int
    clamped_launch_delays: int
    graphs: int


def analyse(
    rows: JobRows,
    layout: Layout,
    worker_rank: Ints,
    ideal: Ideal = POOLED_MEAN_MEDIAN,
    ops_together: int = OPS_TOGETHER,
) -> WhatIf:
    """Replay a job in every scenario of section 5.

    Two passes over blocks of steps: the ideals need the durations of all steps; given the ideals, steps are
    independent. So no more than one block of start times, and of replays, is held at a time.

    rows         : the job's rows, every step complete.
    worker_rank  : int, shape (stage, dp_rank); global rank of each worker, settles ties among the slowest.
    ops_together : ops per block; a step is never divided.
    raises       : TraceDefectError where the ops contradict each other, or take no time, so that there is
                   nothing to compare with.
    """
    recorded = _read(rows, layout, ops_together)
    ideal_s = ideal_durations([(block.graph, block.duration_s) for block in recorded.blocks], ideal)
    replays = [_Replay.of(block, layout, ideal_s) for block in recorded.blocks]
    times = _in_step_order([replay.times for replay in replays], recorded.blocks)
    _refuse_timeless(recorded.blocks, times)
    approx = _approximate_worker_slowdown(times)
    is_slowest = _slowest(approx, worker_rank)
    slowest_ideal_s = np.empty(len(times.ideal))
    for replay in replays:
        slowest_ideal_s[replay.block.steps] = replay.without(is_slowest)
    return WhatIf(
        actual_s=recorded.actual_s,
        times=times,
        slowest_ideal_s=slowest_ideal_s,
        worker_slowdown_approx=approx,
        is_slowest=is_slowest,
        correlation=np.array([moments.correlation() for moments in recorded.moments]),
        ideal_duration_s=ideal_s,
        clamped_transfers=recorded.clamped_transfers,
        clamped_launch_delays=recorded.clamped_launch_delays,
        graphs=recorded.graphs,
    )


def _read(rows: JobRows, layout: Layout, ops_together: int) -> _Recorded:
    """First pass: durations of all steps, and all that only recorded times tell."""
    steps = rows.number_of_steps
    blocks_wanted = max(1, round(rows.ops / ops_together))
    together = -(-steps // blocks_wanted)
    graphs: Graphs = {}
    blocks: list[_Block] = []
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
            blocks.append(_Block(first + block.steps, block.graph, block.duration_s))
            clamped += _settle(block, actual_s[first:])
        pairs = zip(trace.forward_s, trace.backward_s, strict=True)
        found_moments = [worker_moments(forward_s, backward_s) for forward_s, backward_s in pairs]
        moments = (
            [a.joined(b) for a, b in zip(moments, found_moments, strict=True)] if first else found_moments
        )
    return _Recorded(blocks, actual_s, moments, int(clamped[0]), int(clamped[1]), len(graphs))


def _settle(block: StepBlock, actual_s: Floats) -> tuple[int, int]:
    """Fill in recorded step times, put transfers in place of durations.

    returns : number of clamped transfers and of clamped launch delays.
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
    return put_transfers(graph, start_s, end_s, duration_s), clamped_delays


class _Replay(NamedTuple):
    """Second pass over one block."""

    block: _Block
    layout: Layout
    ideal_of_op: Floats
    is_last: list[bool]
    times: ScenarioTimes

    @classmethod
    def of(cls, block: _Block, layout: Layout, ideal_s: Floats) -> "_Replay":
        """Every scenario that needs no other block's times."""
        graph, duration_s = block.graph, block.duration_s
        ideal_of_op = ideal_of_ops(graph, ideal_s)
        is_last = last_ops(graph, duration_s, ideal_of_op)
        if graph.has_dp_lanes:
            times = replay_scenarios(graph, layout, duration_s, ideal_of_op, is_last)
        else:
            times = replay_one_by_one(graph, layout, duration_s, ideal_of_op)
        return cls(block, layout, ideal_of_op, is_last, times)

    def without(self, slow: Mask) -> Floats:
        """Step times with some workers ideal and all else as recorded (Eq. 5); shape (step,). [s]

        slow : bool, shape (stage, dp_rank).
        """
        _, graph, duration_s = self.block
        if not graph.has_dp_lanes:
            mask = slow[op_stages(graph), op_dp_ranks(graph, self.layout.dp_size)]
            masked_s: Floats = replay_masks(graph, duration_s, self.ideal_of_op, ~mask[None])[0]
            return masked_s
        lanes = list(duration_s.reshape(graph.size, -1))
        for stage in np.flatnonzero(slow.any(axis=1)).tolist():
            first, end = graph.first_op[stage], graph.first_op[stage + 1]
            own_s = duration_s[first:end].copy()
            own_s[:, :, slow[stage]] = self.ideal_of_op[first:end, None, None]
            lanes[first:end] = list(own_s.reshape(end - first, -1))
        return replay_lanes(graph, lanes, self.layout.dp_size, self.is_last)


def _refuse_timeless(blocks: list[_Block], times: ScenarioTimes) -> None:
    for block in blocks:
        if not times.ideal[block.steps[0]] > 0.0 or not times.recorded.mean() > 0.0:
            defect = "the replayed ops take no time at all, beginning with"
            raise TraceDefectError(defect, [block.graph.ref(0)], int(block.steps[0]))


def _in_step_order(found: list[ScenarioTimes], blocks: list[_Block]) -> ScenarioTimes:
    """Scenario times of all blocks, in the order of the steps."""
    if len(found) == 1:
        return found[0]
    order = np.argsort(np.concatenate([block.steps for block in blocks]))
    groups = sorted({group for times in found for group in times.by_type})
    return ScenarioTimes(
        recorded=np.concatenate([times.recorded for times in found])[order],
        ideal=np.concatenate([times.ideal for times in found])[order],
        last_stage_ideal=np.concatenate([times.last_stage_ideal for times in found])[order],
        by_type={
            group: np.concatenate([times.by_type.get(group, times.ideal) for times in found])[order]
            for group in groups
        },
        by_stage=np.concatenate([times.by_stage for times in found], axis=-1)[..., order],
        by_dp_rank=np.concatenate([times.by_dp_rank for times in found], axis=-1)[..., order],
        by_worker=np.concatenate([times.by_worker for times in found], axis=-1)[..., order],
    )


def _approximate_worker_slowdown(times: ScenarioTimes) -> Floats:
    """min(S_dp, S_pp) of each worker's cell (Eq. 4, the paper's shortcut); shape (stage, dp_rank)."""
    ideal = times.ideal.mean()
    by_stage = times.by_stage.mean(axis=1) / ideal
    by_dp_rank = times.by_dp_rank.mean(axis=1) / ideal
    lower: Floats = np.minimum(by_stage[:, None], by_dp_rank[None, :])
    return lower


def _slowest(slowdown: Floats, worker_rank: Ints) -> Mask:
    """The slowest 3 % of the workers, rounded up, ties to the lower rank; shape (stage, dp_rank)."""
    count = -(-slowdown.size * SLOWEST_PERCENT // 100)
    order = np.lexsort((worker_rank.ravel(), -slowdown.ravel()))
    slowest = np.zeros(slowdown.size, dtype=bool)
    slowest[order[:count]] = True
    return slowest.reshape(slowdown.shape)
