"""From recorded times to durations that can be replayed (model, section 3)."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.graph.graph import OpGraph, as_index
from udfs.kernel.replay.replay import latest_of_dp_ranks

CLAMP_S: Final = -10e-3
"""A transfer or launch delay at or below this [s] is no clock noise: it becomes 0 and is counted.

But for a send whose recv ran on the same clock: there it is no clock at all, but a buffered send.
"""

SENDS: Final = (ot.FORWARD_SEND, ot.BACKWARD_SEND)


class Durations(NamedTuple):
    """What each op costs in a replay.

    duration_s        : float64, shape (op, step, dp_rank); own durations, transfers in a rendezvous. [s]
    clamped_transfers : number of transfers set to 0.
    buffered_sends    : number of sends that ended long before their recv began, by one clock.
    """

    duration_s: Floats
    clamped_transfers: int
    buffered_sends: int


def replayed_durations(
    graph: OpGraph, start_s: Floats, duration_s: Floats, clock: Ints | None = None
) -> Durations:
    """Durations as recorded, and in a rendezvous own end minus the latest start of the group.

    start_s, duration_s : float64, shape (op, step, dp_rank). [s]
    clock               : as put_transfers takes it.
    """
    replayed_s = duration_s.copy()
    return Durations(replayed_s, *put_transfers(graph, start_s, start_s + duration_s, replayed_s, clock))


def put_transfers(
    graph: OpGraph, start_s: Floats, end_s: Floats, duration_s: Floats, clock: Ints | None = None
) -> tuple[int, int]:
    """Replace the durations of ops in a rendezvous by their transfers, in place.

    A send that ends before its recv begins was buffered, where both ran on one clock: its transfer stays
    negative, so that nothing waits for the recv in a replay either.

    start_s, end_s, duration_s : float64, shape (op, step, dp_rank). [s]
    clock   : int, shape (stage, step, dp_rank); equal numbers are one clock. None: each worker has its own.
    returns : number of transfers set to 0, and of buffered sends.
    """
    clamped = buffered = 0
    for members, across_dp in graph.meetings:
        indices = [as_index(ops) for ops in members]
        latest_s = start_s[indices[0]]
        for ops in indices[1:]:
            latest_s = np.maximum(latest_s, start_s[ops])
        if across_dp:
            latest_s = latest_of_dp_ranks(latest_s)
        for place, ops in enumerate(indices):
            transfer_s = end_s[ops] - latest_s
            if transfer_s.min() <= CLAMP_S:
                impossible = transfer_s <= CLAMP_S
                if clock is not None and graph.op_types[members[place][0]] in SENDS:
                    early = impossible & _on_one_clock(graph, clock, *members)
                    buffered += int(early.sum())
                    impossible &= ~early
                clamped += int(impossible.sum())
                transfer_s[impossible] = 0.0
            duration_s[ops] = transfer_s
    return clamped, buffered


def _on_one_clock(graph: OpGraph, clock: Ints, sends: Sequence[int], recvs: Sequence[int]) -> Mask:
    """Whether both ends of each transfer have the same clock; bool, shape (transfer, step, dp_rank)."""
    of_cell = np.array(
        [
            clock[cell.stage] if graph.has_dp_lanes else clock[cell.stage][:, [cell.dp_rank]]
            for cell in graph.cells
        ]
    )
    sender, receiver = (
        np.searchsorted(graph.first_op, list(ops), side="right") - 1 for ops in (sends, recvs)
    )
    same: Mask = of_cell[sender] == of_cell[receiver]
    return same


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
    """How many launch delays are impossible: usually none, as the ops' single waits show at little cost.

    start_s, end_s : float64, shape (op, step, dp_rank), recorded. [s]
    """
    for sources, ops in graph.waits:
        if ops and (start_s[as_index(ops)] - end_s[as_index(sources)]).min() <= CLAMP_S:
            return launch_delays(graph, start_s, end_s).clamped
    return 0
