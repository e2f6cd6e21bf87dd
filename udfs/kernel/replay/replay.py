"""Replay: when would each op have run, had it taken so long? (model, section 4)"""

from typing import Final

import numpy as np

from udfs.kernel.graph.graph import OpGraph, once_per_graph
from udfs.kernel.graph.program import Floats

FEW_DP_RANKS: Final = 8
"""Up to this many, comparing whole columns is faster than reducing row by row."""


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
    for ops, across_dp, *_ in graph.units:
        starts = [_start(ends, graph.waits_for[op], ends[op]) for op in ops]
        if delays is not None:
            starts = [start + delays[op] for start, op in zip(starts, ops, strict=True)]
        latest = starts[0]
        for start in starts[1:]:
            latest = np.maximum(latest, start)
        if across_dp:
            latest = latest_of_dp_ranks(latest)
        for op in ops:
            np.add(latest, durations[op], out=ends[op])
    return end_s


def _start(ends: list[Floats], sources: tuple[int, ...], out: Floats) -> Floats:
    """Latest end of `sources`, 0 without any; may be written to `out`."""
    if not sources:
        out.fill(0.0)
        return out
    if len(sources) == 1:
        return ends[sources[0]]
    np.maximum(ends[sources[0]], ends[sources[1]], out=out)
    for source in sources[2:]:
        np.maximum(out, ends[source], out=out)
    return out


def latest_of_dp_ranks(values_s: Floats) -> Floats:
    """Largest over the dp ranks, the last axis, which is kept with length 1. [s]"""
    *others, dp_ranks = values_s.shape
    if dp_ranks > FEW_DP_RANKS:
        # NumPy's `max` along a short axis takes twice as long.
        latest_s = np.maximum.reduceat(values_s.reshape(-1), np.arange(0, values_s.size, dp_ranks))
    else:
        latest_s = values_s.reshape(-1, dp_ranks).T.copy().max(axis=0)
    return latest_s.reshape(*others, 1)


def step_time(end_s: Floats) -> Floats:
    """Latest end of each step.

    end_s   : float64, shape (op, scenario, step, dp_rank). [s]
    returns : float64, shape (scenario, step). [s]
    """
    latest_s: Floats = end_s.max(axis=0).max(axis=-1)
    return latest_s


def last_ops(graph: OpGraph, shortest_s: Floats) -> list[bool]:
    """Ops that may end a step: nothing that surely takes no negative time follows them.

    shortest_s : float64, shape (op,); the least that each op may take. [s]
    """
    return _last_ops(graph, frozenset(np.flatnonzero(~(shortest_s >= 0.0)).tolist()))


@once_per_graph
def _last_ops(graph: OpGraph, negative: frozenset[int]) -> list[bool]:
    """Ops that may end a step; `negative` are those that may take negative time."""
    is_last = [True] * graph.size
    for op, sources in enumerate(graph.waits_for):
        if op not in negative:
            for source in sources:
                is_last[source] = False
    return is_last


def replay_rows(
    graph: OpGraph,
    durations_s: list[Floats],
    delays_s: dict[int, Floats],
    shape: tuple[int, int, int],
    is_last: list[bool],
) -> Floats:
    """Step times of several scenarios; only the ends that are still waited for are kept.

    durations_s : per op float64, shape (scenario, lane), or (1, lane) if they agree; lane = (step, dp). [s]
    delays_s    : how much later some ops start, float64, of the same shapes. [s]
    shape       : (scenario, step, dp).
    is_last     : ops that may end a step.
    returns     : float64, shape (scenario, step). [s]
    """
    rows = (shape[0], shape[1] * shape[2])
    ends = list(np.empty((graph.slots, *rows)))
    latest_s, met_s, late_s = np.empty((3, *rows))
    at_once_s, step_s = np.zeros(rows), np.zeros(rows)
    add, maximum, is_punctual = np.add, np.maximum, delays_s.keys().isdisjoint
    for ops, across_dp, sources, source_slots, op_slots in graph.units:
        if is_punctual(ops):
            start = ends[source_slots[0]] if sources else at_once_s
            for slot in source_slots[1:]:
                start = maximum(start, ends[slot], out=latest_s)
        else:
            live = dict(zip(sources, [ends[slot] for slot in source_slots], strict=True))
            start = _later(graph, ops, live, delays_s, at_once_s, late_s)
        if across_dp and shape[2] > 1 and start is not at_once_s:
            by_dp = start.reshape(-1, shape[2])
            met_s.reshape(by_dp.shape)[...] = latest_of_dp_ranks(by_dp)
            start = met_s
        for op, slot in op_slots:
            end = add(start, durations_s[op], ends[slot])
            if is_last[op]:
                maximum(step_s, end, out=step_s)
    times_s: Floats = step_s.reshape(shape).max(axis=2)
    return times_s


def _later(
    graph: OpGraph,
    ops: tuple[int, ...],
    live: dict[int, Floats],
    delays_s: dict[int, Floats],
    at_once_s: Floats,
    out: Floats,
) -> Floats:
    """Latest start of ops of which some are delayed beyond what they wait for."""
    starts = []
    for op in ops:
        start = at_once_s
        for source in graph.waits_for[op]:
            start = np.maximum(start, live[source])
        starts.append(start + delays_s[op] if op in delays_s else start)
    out[...] = starts[0]
    for start in starts[1:]:
        np.maximum(out, start, out=out)
    return out
