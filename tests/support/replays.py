"""Compute durations, delays and replays by the definitions of the model, to check the faster kernel."""

import numpy as np

from udfs.kernel.arrays import Floats
from udfs.kernel.graph.graph import OpGraph
from udfs.kernel.recorded.durations import CLAMP_S, put_transfers
from udfs.kernel.recorded.trace import StepBlock


def replayed_durations(block: StepBlock) -> Floats:
    """Return durations, where a transfer lasts from the later start of both ends; (op, step, dp_rank). [s]"""
    duration_s = block.duration_s.copy()
    put_transfers(block.graph, block.start_s, block.start_s + block.duration_s, duration_s)
    return duration_s


def launch_delays(block: StepBlock) -> Floats:
    """Return each op's start minus the latest end of its inputs, or 0 if that is -10 ms or less. [s]"""
    start_s, end_s = block.start_s, block.start_s + block.duration_s
    delay_s = start_s - start_s.min(axis=(0, 2))[:, None]
    for op, sources in enumerate(block.graph.waits_for):
        if sources:
            delay_s[op] = start_s[op] - end_s[list(sources)].max(axis=0)
    return np.where(delay_s <= CLAMP_S, 0.0, delay_s)


def replay(graph: OpGraph, duration_s: Floats, launch_delay_s: Floats | None = None) -> Floats:
    """Return the end of each op if it starts once all ops that it waits for have ended, plus its delay.

    duration_s     : float64, shape (op, scenario, step, dp_rank); of a transfer from the later start on. [s]
    launch_delay_s : same shape; delay before each op starts. [s]
    returns        : same shape, time since the start of the step. [s]
    """
    end_s = np.empty(duration_s.shape)
    for ops, across_dp, *_ in graph.nodes:
        sources = (list(graph.waits_for[op]) for op in ops)
        starts = [end_s[each].max(axis=0) if each else np.zeros(end_s.shape[1:]) for each in sources]
        if launch_delay_s is not None:
            starts = [start + launch_delay_s[op] for start, op in zip(starts, ops, strict=True)]
        latest = np.max(starts, axis=0)
        for op in ops:
            end_s[op] = (latest.max(axis=-1, keepdims=True) if across_dp else latest) + duration_s[op]
    return end_s


def step_time(end_s: Floats) -> Floats:
    """Return the latest end in each step, shape (scenario, step). [s]"""
    latest_s: Floats = end_s.max(axis=(0, 3))
    return latest_s
