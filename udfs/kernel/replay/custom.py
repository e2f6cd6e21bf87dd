"""Custom scenarios: any set of ops made ideal, or scaled, and all others as recorded (model, section 4)."""

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import NamedTuple

import numpy as np

from udfs.kernel.graph.program import Floats, Ints
from udfs.kernel.recorded.first_pass import Block, Recorded, refuse_timeless
from udfs.kernel.replay.ideal import POOLED_MEAN_MEDIAN, Ideal, ideal_durations, ideal_of_ops
from udfs.kernel.replay.masked import Mask
from udfs.kernel.replay.replay import replay, step_time


class CustomTimes(NamedTuple):
    """Step times; float64, seconds.

    recorded    : shape (step,); replay with recorded durations, T.
    ideal       : shape (step,); replay with every duration ideal, T_ideal.
    changed     : shape (scenario, step); replay with the scenario's ops changed.
    changed_ops : int64, shape (scenario,); how many ops that are.
    """

    recorded: Floats
    ideal: Floats
    changed: Floats
    changed_ops: Ints


def replay_changes(
    recorded: Recorded,
    masks: Iterable[Sequence[Mask]],
    factor: float | None = None,
    ideal: Ideal = POOLED_MEAN_MEDIAN,
) -> CustomTimes:
    """Replay a job as recorded, ideal, and in each scenario with some of its ops changed, block by block.

    masks  : for each block, taken when it is replayed, and each scenario, which ops are changed; bool,
             broadcastable to (op, step, dp).
    factor : None makes these ops ideal; a number gives each its duration times that number. In a
             rendezvous it is the transfer that is changed, never the wait for the others.
    raises : ValueError for a factor that is negative or not finite; TraceDefectError where the ops take no
             time, so that no slowdown is defined.
    """
    if factor is not None and not (isfinite(factor) and factor >= 0.0):
        raise ValueError(f"factor is {factor}, wanted a finite number from 0 on")
    ideal_s = ideal_durations([(block.graph, block.duration_s) for block in recorded.blocks], ideal)
    step_s, ops = [], []
    for block, of_scenarios in zip(recorded.blocks, masks, strict=True):
        ideal_op_s = ideal_of_ops(block.graph, ideal_s)[:, None, None]
        changed_s = ideal_op_s if factor is None else block.duration_s * factor
        changes = (np.where(mask, changed_s, block.duration_s) for mask in of_scenarios)
        step_s.append([_step_s(block, duration_s) for duration_s in (block.duration_s, ideal_op_s, *changes)])
        shape = block.duration_s.shape
        ops.append([np.broadcast_to(mask, shape).sum(dtype=np.int64) for mask in of_scenarios])
    order = np.argsort(np.concatenate([block.steps for block in recorded.blocks]))
    times = np.take(np.concatenate(step_s, axis=1), order, axis=1)
    refuse_timeless(recorded.blocks, times[0], times[1])
    return CustomTimes(times[0], times[1], times[2:], np.sum(ops, axis=0))


def _step_s(block: Block, duration_s: Floats) -> Floats:
    """Replayed step times; duration_s has shape (op, step, dp), or 1 where a lane or step stands for all."""
    step_s: Floats = step_time(replay(block.graph, duration_s[:, None]))[0]
    return np.broadcast_to(step_s, block.steps.shape)
