"""The replay as the model says it, every end kept: what the kernel's faster ones are compared with."""

import numpy as np

from udfs.kernel.arrays import Floats
from udfs.kernel.graph.graph import OpGraph


def replay(graph: OpGraph, duration_s: Floats, launch_delay_s: Floats | None = None) -> Floats:
    """End time of every op when each starts as soon as what it waits for has ended.

    duration_s     : float64, shape (op, scenario, step, dp_rank); transfers in a rendezvous. [s]
    launch_delay_s : same shape; how much later each op starts. [s]
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
    """Latest end of each step, shape (scenario, step). [s]"""
    latest_s: Floats = end_s.max(axis=(0, 3))
    return latest_s
