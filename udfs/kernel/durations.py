"""From recorded times to durations that can be replayed (model, section 3)."""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.graph import OpGraph, as_index
from udfs.kernel.program import Floats
from udfs.kernel.replay import latest_of_dp_ranks

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
    return Durations(replayed_s, put_transfers(graph, start_s, start_s + duration_s, replayed_s))


def put_transfers(graph: OpGraph, start_s: Floats, end_s: Floats, duration_s: Floats) -> int:
    """Replace the durations of ops in a rendezvous by their transfers, in place.

    start_s, end_s, duration_s : float64, shape (op, step, dp_rank). [s]
    returns                    : number of transfers set to 0.
    """
    clamped = 0
    for members, across_dp in graph.meetings:
        indices = [as_index(ops) for ops in members]
        latest_s = start_s[indices[0]]
        for ops in indices[1:]:
            latest_s = np.maximum(latest_s, start_s[ops])
        if across_dp:
            latest_s = latest_of_dp_ranks(latest_s)
        for ops in indices:
            transfer_s = end_s[ops] - latest_s
            if transfer_s.min() <= CLAMP_S:
                impossible = transfer_s <= CLAMP_S
                clamped += int(impossible.sum())
                transfer_s[impossible] = 0.0
            duration_s[ops] = transfer_s
    return clamped


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
    starts, ends, delays = list(start_s), list(end_s), list(delay_s)
    for op, sources in enumerate(graph.waits_for):
        ready_s = step_start_s
        if sources:
            ready_s = ends[sources[0]]
            for source in sources[1:]:
                ready_s = np.maximum(ready_s, ends[source], out=latest_s)
        np.subtract(starts[op], ready_s, out=delays[op])
    clamped = 0
    if delay_s.min() <= CLAMP_S:
        impossible = delay_s <= CLAMP_S
        clamped = int(impossible.sum())
        delay_s[impossible] = 0.0
    return LaunchDelays(delay_s, clamped)


def clamped_launch_delays(graph: OpGraph, start_s: Floats, end_s: Floats) -> int:
    """How many launch delays are impossible: usually none, which the ops' single waits tell at little cost.

    start_s, end_s : float64, shape (op, step, dp_rank), recorded. [s]
    """
    for sources, ops in graph.waits:
        if ops and (start_s[as_index(ops)] - end_s[as_index(sources)]).min() <= CLAMP_S:
            return launch_delays(graph, start_s, end_s).clamped
    return 0
