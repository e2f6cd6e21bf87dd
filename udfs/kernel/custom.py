"""Custom scenarios: any set of ops made ideal, or scaled, and all others as recorded (model, section 4)."""

from collections.abc import Sequence
from math import isfinite
from typing import NamedTuple

import numpy as np

from udfs.kernel.durations import replayed_durations
from udfs.kernel.errors import TraceDefectError
from udfs.kernel.ideal import POOLED_MEAN_MEDIAN, Ideal, ideal_durations, ideal_of_ops
from udfs.kernel.masked import Mask
from udfs.kernel.program import Floats
from udfs.kernel.replay import replay, step_time
from udfs.kernel.trace import StepBlock, Trace


class CustomTimes(NamedTuple):
    """Step times; float64, seconds.

    actual   : shape (step,); recorded, T_actual.
    recorded : shape (step,); replay with recorded durations, T.
    ideal    : shape (step,); replay with every duration ideal, T_ideal.
    changed  : shape (scenario, step); replay with the scenario's ops changed.
    """

    actual: Floats
    recorded: Floats
    ideal: Floats
    changed: Floats


def replay_changes(
    trace: Trace,
    scenarios: Sequence[Sequence[Mask]],
    factor: float | None = None,
    ideal: Ideal = POOLED_MEAN_MEDIAN,
) -> CustomTimes:
    """Replay a job as recorded, ideal, and in each scenario with some of its ops changed.

    scenarios : for each scenario and block of the trace, which ops are changed; bool, broadcastable to
                (op, step, dp).
    factor    : None makes these ops ideal; a number gives each its own duration times that number. In a
                rendezvous it is the transfer that is changed, never the wait for the others.
    raises    : ValueError for a factor that is negative or not finite; TraceDefectError where the ops take no
                time, so that there is nothing to compare with.
    """
    if factor is not None and not (isfinite(factor) and factor >= 0.0):
        raise ValueError(f"factor is {factor}, wanted a finite number from 0 on")
    durations = [replayed_durations(block.graph, block.start_s, block.duration_s) for block in trace.blocks]
    replayed = [(block, found.duration_s) for block, found in zip(trace.blocks, durations, strict=True)]
    ideal_s = ideal_durations([(block.graph, duration_s) for block, duration_s in replayed], ideal)
    steps = sum(len(block.steps) for block in trace.blocks)
    times = CustomTimes(np.empty(steps), np.empty(steps), np.empty(steps), np.empty((len(scenarios), steps)))
    for number, (block, duration_s) in enumerate(replayed):
        ideal_op_s = ideal_of_ops(block.graph, ideal_s)[:, None, None]
        times.actual[block.steps] = _recorded_step_s(block)
        times.recorded[block.steps] = _step_s(block, duration_s)
        times.ideal[block.steps] = _step_s(block, ideal_op_s)
        changed_s = ideal_op_s if factor is None else duration_s * factor
        for position, masks in enumerate(scenarios):
            scenario_s = np.where(masks[number], changed_s, duration_s)
            times.changed[position, block.steps] = _step_s(block, scenario_s)
    _refuse_timeless(trace, times)
    return times


def _step_s(block: StepBlock, duration_s: Floats) -> Floats:
    """Replayed step times; duration_s has shape (op, step, dp), or 1 where a lane stands for all."""
    step_s: Floats = step_time(replay(block.graph, duration_s[:, None]))[0]
    return step_s


def _recorded_step_s(block: StepBlock) -> Floats:
    """Latest end minus earliest start of each step."""
    latest_s = (block.start_s + block.duration_s).max(axis=(0, 2))
    step_s: Floats = latest_s - block.start_s.min(axis=(0, 2))
    return step_s


def _refuse_timeless(trace: Trace, times: CustomTimes) -> None:
    for block in trace.blocks:
        if not times.ideal[block.steps[0]] > 0.0 or not times.recorded.mean() > 0.0:
            defect = "the replayed ops take no time at all, beginning with"
            raise TraceDefectError(defect, [block.graph.ref(0)], int(block.steps[0]))
