"""Replay: when would each op have run, had it taken so long? (model, section 4)"""

import numpy as np

from udfs.kernel.graph import OpGraph
from udfs.kernel.program import Floats


def replay(graph: OpGraph, duration_s: Floats, launch_delay_s: Floats | None = None) -> Floats:
    """End time of every op when each starts as soon as what it waits for has ended.

    duration_s     : float64, shape (op, scenario, step, dp_rank); transfers in a rendezvous. [s]
    launch_delay_s : same shape or broadcastable to it; how much later each op starts, 0 if left out. [s]
    returns        : float64, shape of duration_s, time since the start of the step. [s]
    """
    end_s = np.empty(duration_s.shape)
    ends = list(end_s)
    durations = list(duration_s)
    delays = None if launch_delay_s is None else list(launch_delay_s)
    for unit in graph.units:
        starts = [_start(ends, graph.waits_for[op], ends[op]) for op in unit.ops]
        if delays is not None:
            starts = [start + delays[op] for start, op in zip(starts, unit.ops, strict=True)]
        latest = starts[0]
        for start in starts[1:]:
            latest = np.maximum(latest, start)
        if unit.across_dp:
            latest = latest.max(axis=-1, keepdims=True)
        for op in unit.ops:
            np.add(latest, durations[op], out=ends[op])
    return end_s


def _start(ends: list[Floats], sources: tuple[int, ...], out: Floats) -> Floats:
    """Latest end of `sources`, 0 if there are none; may be written to `out`."""
    if not sources:
        out.fill(0.0)
        return out
    if len(sources) == 1:
        return ends[sources[0]]
    np.maximum(ends[sources[0]], ends[sources[1]], out=out)
    for source in sources[2:]:
        np.maximum(out, ends[source], out=out)
    return out


def step_time(end_s: Floats) -> Floats:
    """Latest end of each step.

    end_s   : float64, shape (op, scenario, step, dp_rank). [s]
    returns : float64, shape (scenario, step). [s]
    """
    latest_s: Floats = end_s.max(axis=0).max(axis=-1)
    return latest_s
