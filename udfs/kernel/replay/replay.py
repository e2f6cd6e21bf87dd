"""Replay: when would each op have run, had it taken so long? (model, section 4)"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from udfs.kernel.arrays import Floats
from udfs.kernel.graph.graph import OpGraph, once_per_graph

FEW_DP_RANKS: Final = 8
"""Up to this many, comparing whole columns is faster than reducing row by row."""


def replay(
    graph: OpGraph,
    durations_s: Sequence[Floats],
    shape: tuple[int, int, int],
    is_last: Sequence[bool] | None = None,
    delays_s: Mapping[int, Floats] | None = None,
) -> Floats:
    """Step times of several scenarios, when each op starts as soon as what it waits for has ended.

    Only the ends that are still waited for are kept.

    durations_s : per op float64, shape (scenario, lane), or (1, lane) if they agree; lane = (step, dp). [s]
    shape       : (scenario, step, dp).
    is_last     : ops that may end a step, from `last_ops`; all of them if left out.
    delays_s    : how much later some ops start, float64, of the same shapes. [s]
    returns     : float64, shape (scenario, step). [s]
    """
    rows = (shape[0], shape[1] * shape[2])
    late = delays_s or {}
    ends = list(np.empty((graph.slots, *rows)))
    latest_s, met_s, late_s = np.empty((3, *rows))
    at_once_s, step_s = np.zeros(rows), np.zeros(rows)
    add, maximum, is_punctual = np.add, np.maximum, late.keys().isdisjoint
    for ops, across_dp, sources, source_slots, op_slots in graph.nodes:
        if is_punctual(ops):
            start = ends[source_slots[0]] if sources else at_once_s
            for slot in source_slots[1:]:
                start = maximum(start, ends[slot], out=latest_s)
        else:
            live = dict(zip(sources, [ends[slot] for slot in source_slots], strict=True))
            start = _later(graph, ops, live, late, at_once_s, late_s)
        if across_dp and shape[2] > 1 and start is not at_once_s:
            by_dp = start.reshape(-1, shape[2])
            met_s.reshape(by_dp.shape)[...] = latest_of_dp_ranks(by_dp)
            start = met_s
        for op, slot in op_slots:
            end = add(start, durations_s[op], ends[slot])
            if is_last is None or is_last[op]:
                maximum(step_s, end, out=step_s)
    times_s: Floats = step_s.reshape(shape).max(axis=2)
    return times_s


def _later(
    graph: OpGraph,
    ops: tuple[int, ...],
    live: Mapping[int, Floats],
    delays_s: Mapping[int, Floats],
    at_once_s: Floats,
    out: Floats,
) -> Floats:
    """Latest start of ops of which some are delayed beyond what they wait for."""
    for place, op in enumerate(ops):
        start = at_once_s
        for source in graph.waits_for[op]:
            start = np.maximum(start, live[source])
        start = start + delays_s[op] if op in delays_s else start
        np.maximum(out if place else start, start, out=out)
    return out


def step_times(graph: OpGraph, duration_s: Floats) -> Floats:
    """Step times of one scenario; float64, shape (step,). [s]

    duration_s : float64, shape (op, step, dp_rank); transfers in a rendezvous. [s]
    """
    by_op = duration_s.reshape(graph.size, 1, -1)
    times_s: Floats = replay(graph, list(by_op), (1, *duration_s.shape[1:]))[0]
    return times_s


def latest_of_dp_ranks(values_s: Floats) -> Floats:
    """Largest over the dp ranks, the last axis, which is kept with length 1. [s]"""
    *others, dp_ranks = values_s.shape
    if dp_ranks > FEW_DP_RANKS:
        # NumPy's `max` along a short axis takes twice as long.
        latest_s = np.maximum.reduceat(values_s.reshape(-1), np.arange(0, values_s.size, dp_ranks))
    else:
        latest_s = values_s.reshape(-1, dp_ranks).T.copy().max(axis=0)
    return latest_s.reshape(*others, 1)


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
