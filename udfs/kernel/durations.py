"""From recorded times to durations that can be replayed (model, section 3)."""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.graph import OpGraph
from udfs.kernel.program import Floats

CLAMP_S: Final = -10e-3
"""A transfer or launch delay at or below this [s] is no clock noise: it becomes 0 and is counted."""


class Durations(NamedTuple):
    """What each op costs in a replay.

    duration_s        : float64, shape (op, step, dp_rank); own durations, transfers in a rendezvous. [s]
    clamped_transfers : number of transfers set to 0.
    """

    duration_s: Floats
    clamped_transfers: int


def replayed_durations(graph: OpGraph, start_s: Floats, duration_s: Floats) -> Durations:
    """Durations as recorded, and in a rendezvous own end minus the latest start of the group.

    start_s, duration_s : float64, shape (op, step, dp_rank). [s]
    """
    replayed_s = duration_s.copy()
    clamped = 0
    for ops, latest_s in _latest_starts(graph, start_s):
        transfer_s = start_s[ops] + duration_s[ops]
        transfer_s -= latest_s
        if transfer_s.min() <= CLAMP_S:
            impossible = transfer_s <= CLAMP_S
            clamped += int(impossible.sum())
            transfer_s[impossible] = 0.0
        replayed_s[ops] = transfer_s
    return Durations(replayed_s, clamped)


def _latest_starts(graph: OpGraph, start_s: Floats) -> list[tuple[list[int], Floats]]:
    """Ops of like groups, and the latest start of each op's group, broadcastable to the ops' shape."""
    like: dict[tuple[int, bool], list[tuple[int, ...]]] = {}
    for unit in graph.units:
        if graph.in_rendezvous[unit.ops[0]]:
            like.setdefault((len(unit.ops), unit.across_dp), []).append(unit.ops)
    batches: list[tuple[list[int], Floats]] = []
    for (_, across_dp), groups in like.items():
        members = [list(ops) for ops in zip(*groups, strict=True)]
        latest_s = start_s[members[0]]
        for ops in members[1:]:
            np.maximum(latest_s, start_s[ops], out=latest_s)
        if across_dp:
            latest_s = latest_s.max(axis=2, keepdims=True)
        batches.extend((ops, latest_s) for ops in members)
    return batches


class LaunchDelays(NamedTuple):
    """What the graph does not explain (model, section 3).

    delay_s : float64, shape (op, step, dp_rank); start minus the latest end of what the op waits for. [s]
    clamped : number of delays set to 0.
    """

    delay_s: Floats
    clamped: int


def launch_delays(graph: OpGraph, start_s: Floats, end_s: Floats) -> LaunchDelays:
    """Recorded launch delay of every op.

    start_s, end_s : float64, shape (op, step, dp_rank), recorded. [s]
    """
    delay_s = np.empty_like(start_s)
    step_start_s = start_s.min(axis=0).min(axis=-1)[:, None]
    latest_s = np.empty(start_s.shape[1:])
    ends = list(end_s)
    for op, sources in enumerate(graph.waits_for):
        ready_s = step_start_s
        if sources:
            ready_s = ends[sources[0]]
            for source in sources[1:]:
                ready_s = np.maximum(ready_s, ends[source], out=latest_s)
        np.subtract(start_s[op], ready_s, out=delay_s[op])
    clamped = 0
    if delay_s.min() <= CLAMP_S:
        impossible = delay_s <= CLAMP_S
        clamped = int(impossible.sum())
        delay_s[impossible] = 0.0
    return LaunchDelays(delay_s, clamped)
