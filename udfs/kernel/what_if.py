"""Everything section 5 of the model asks of one job, from its trace."""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.correlation import worker_correlation
from udfs.kernel.durations import launch_delays, replayed_durations
from udfs.kernel.errors import TraceDefectError
from udfs.kernel.graph import Layout
from udfs.kernel.ideal import ideal_durations
from udfs.kernel.masked import Mask, op_dp_ranks, op_stages, replay_masks, replay_one_by_one
from udfs.kernel.program import Floats, Ints
from udfs.kernel.stacked import ScenarioTimes, replay_scenarios
from udfs.kernel.trace import StepBlock, Trace

SLOWEST_PERCENT: Final = 3
"""Share of the workers that M_W makes ideal [%] (Eq. 5)."""


class WhatIf(NamedTuple):
    """What a job cost and would have cost; float64, seconds, unless said otherwise.

    actual_s         : shape (step,); recorded step time, T_actual.
    times            : step times of every scenario.
    slowest_ideal_s  : shape (step,); the slowest workers ideal, all else as recorded.
    worker_slowdown_approx : shape (stage, dp_rank); the paper's shortcut, a ratio.
    is_slowest       : bool, shape (stage, dp_rank).
    correlation      : shape (stage, dp_rank); nan where it does not exist.
    ideal_duration_s : shape (op type,); nan where a type was never recorded.
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


def analyse(trace: Trace, layout: Layout, worker_rank: Ints) -> WhatIf:
    """Replay a job in every scenario of section 5.

    worker_rank : int, shape (stage, dp_rank); global rank of each worker, settles ties among the slowest.
    raises      : TraceDefectError where the ops take no time, so that there is nothing to compare with.
    """
    durations = [replayed_durations(block.graph, block.start_s, block.duration_s) for block in trace.blocks]
    replayed = [(block, found.duration_s) for block, found in zip(trace.blocks, durations, strict=True)]
    ideal_s = ideal_durations([(block.graph, duration_s) for block, duration_s in replayed])
    times = _joined(replayed, layout, ideal_s)
    _refuse_timeless(trace, times)
    approx = _approximate_worker_slowdown(times)
    is_slowest = _slowest(approx, worker_rank)
    actual_s, clamped_delays = _recorded(trace.blocks, len(times.ideal))
    pairs = zip(trace.forward_s, trace.backward_s, strict=True)
    return WhatIf(
        actual_s=actual_s,
        times=times,
        slowest_ideal_s=_without_slowest(replayed, ideal_s, is_slowest, len(times.ideal)),
        worker_slowdown_approx=approx,
        is_slowest=is_slowest,
        correlation=np.array([worker_correlation(forward_s, backward_s) for forward_s, backward_s in pairs]),
        ideal_duration_s=ideal_s,
        clamped_transfers=sum(found.clamped_transfers for found in durations),
        clamped_launch_delays=clamped_delays,
        graphs=len(trace.blocks),
    )


def _refuse_timeless(trace: Trace, times: ScenarioTimes) -> None:
    for block in trace.blocks:
        if not times.ideal[block.steps[0]] > 0.0 or not times.recorded.mean() > 0.0:
            defect = "the replayed ops take no time at all, beginning with"
            raise TraceDefectError(defect, [block.graph.ref(0)], int(block.steps[0]))


def _recorded(blocks: list[StepBlock], steps: int) -> tuple[Floats, int]:
    """Recorded step times, and how many launch delays were clamped."""
    actual_s = np.empty(steps)
    clamped = 0
    for block in blocks:
        end_s = block.start_s + block.duration_s
        latest_s, earliest_s = end_s.max(axis=0), block.start_s.min(axis=0)
        actual_s[block.steps] = latest_s.max(axis=-1) - earliest_s.min(axis=-1)
        clamped += launch_delays(block.graph, block.start_s, end_s).clamped
    return actual_s, clamped


def _joined(replayed: list[tuple[StepBlock, Floats]], layout: Layout, ideal_s: Floats) -> ScenarioTimes:
    """Scenario times of all blocks, in the order of the steps."""
    found = []
    for block, duration_s in replayed:
        if block.has_dp_lanes:
            found.append(replay_scenarios(block.graph, layout, duration_s, ideal_s))
        else:
            found.append(replay_one_by_one(block, layout, duration_s, ideal_s))
    if len(found) == 1:
        return found[0]
    order = np.argsort(np.concatenate([block.steps for block, _ in replayed]))
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


def _without_slowest(
    replayed: list[tuple[StepBlock, Floats]], ideal_s: Floats, is_slowest: Mask, steps: int
) -> Floats:
    """Step times with the slowest workers ideal and all else as recorded (Eq. 5)."""
    times_s = np.empty(steps)
    for block, duration_s in replayed:
        slow = is_slowest[op_stages(block), op_dp_ranks(block)]
        times_s[block.steps] = replay_masks(block, duration_s, ideal_s, ~slow[None])[0]
    return times_s
