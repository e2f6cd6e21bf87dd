"""Durations for the replay from recorded times (model, section 3), and which transfers moved no data."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Final

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints, Mask, latest
from udfs.kernel.graph.graph import OpGraph, meeting_indices, wait_indices
from udfs.kernel.replay.replay import latest_of_dp_ranks

CLAMP_S: Final = -10e-3
"""A transfer or launch delay at or below this [s] is not clock noise: it becomes 0 and is counted.

A send whose recv ran on the same clock is the exception: it was buffered, and keeps its negative time.
"""

NO_OP_TOLERANCE_S: Final = 50e-6
"""Least time by which a recorded no-op misses its computes; smaller differences may be rounding. [s]"""

SENDS: Final = (ot.FORWARD_SEND, ot.BACKWARD_SEND)


def put_transfers(
    graph: OpGraph, start_s: Floats, end_s: Floats, duration_s: Floats, clock: Ints | None = None
) -> tuple[int, int]:
    """In place, set ops that wait for each other to their transfer times, instead of recorded durations.

    A send that ends long before its recv begins was buffered if both ran on one clock. Its transfer time
    stays negative, so that nothing waits for the recv in a replay either.

    start_s, end_s, duration_s : float64, shape (op, step, dp_rank). [s]
    clock   : int, shape (stage, step, dp_rank); equal numbers are one clock. None: each worker has its own.
    returns : number of transfers set to 0, and of buffered sends.
    """
    clamped = buffered = 0
    for (members, across_dp), indices in zip(graph.meetings, meeting_indices(graph), strict=True):
        latest_s = latest(start_s, indices)
        if across_dp:
            latest_s = latest_of_dp_ranks(latest_s)
        is_eager = bool(graph.sent_by) and members[-1][0] in graph.sent_by
        for place, ops in enumerate(indices):
            if is_eager and not place:
                continue  # such a send takes as long as recorded
            transfer_s = end_s[ops] - latest_s
            if transfer_s.min() <= CLAMP_S:
                impossible = transfer_s <= CLAMP_S
                if clock is not None and graph.op_types[members[place][0]] in SENDS:
                    early = impossible & on_one_clock(graph, clock, *members)
                    buffered += int(early.sum())
                    impossible &= ~early
                clamped += int(impossible.sum())
                transfer_s[impossible] = 0.0
            duration_s[ops] = transfer_s
    return clamped, buffered


def clock_of_cells(graph: OpGraph, clock: Ints) -> list[Ints]:
    """Return the clock of each cell's rows, int, shape (step, dp); clock : as in `put_transfers`."""
    return [clock[cell.stage][:, cell.dp_ranks] for cell in graph.cells]


def on_one_clock(
    graph: OpGraph, clock: Ints, sends: Sequence[int] | Ints, recvs: Sequence[int] | Ints
) -> Mask:
    """Return whether both ends of each transfer have one clock; bool, shape (transfer, step, dp_rank)."""
    of_cell = np.array(clock_of_cells(graph, clock))
    sender, receiver = (
        np.searchsorted(graph.first_op, list(ops), side="right") - 1 for ops in (sends, recvs)
    )
    same: Mask = of_cell[sender] == of_cell[receiver]
    return same


def clamped_launch_delays(graph: OpGraph, start_s: Floats, end_s: Floats) -> int:
    """Count impossible launch delays: ops that start long before their inputs have ended.

    There are usually none. A check of single waits shows this quickly, so that most blocks need no count.

    start_s, end_s : float64, shape (op, step, dp_rank), recorded. [s]
    """
    if all((start_s[ops] - end_s[sources]).min() > CLAMP_S for sources, ops in wait_indices(graph)):
        return 0
    return sum(
        int(np.count_nonzero(start_s[op] - end_s[list(sources)].max(axis=0) <= CLAMP_S))
        for op, sources in enumerate(graph.waits_for)
        if sources
    )


def no_op_transfers(counts: tuple[int, ...], start_s: Floats, duration_s: Floats) -> Mask:
    """Mask transfers that never moved data (model, section 2, kind a).

    These are recvs that start after the last compute of their direction has started, and sends that end
    before the first compute of their direction has ended.

    counts              : ops of each type.
    start_s, duration_s : float64, shape (op, lane), ops by (type, start). [s]
    returns             : bool, shape (op, lane), or (op, 1) where no lane has any.
    """
    first_op = tuple(accumulate(counts, initial=0))
    found = []
    for compute, send, recv in ot.DIRECTIONS:
        first, end = first_op[compute], first_op[compute + 1]
        if first == end:
            continue
        latest_s = start_s[end - 1] + NO_OP_TOLERANCE_S
        earliest_s = start_s[first] + duration_s[first] - NO_OP_TOLERANCE_S
        # Ops are sorted by start, so that the search can stop at the first one that moved data.
        for op in reversed(range(first_op[recv], first_op[recv + 1])):
            is_late = start_s[op] > latest_s
            if not is_late.any():
                break
            found.append((op, is_late))
        for op in range(first_op[send], first_op[send + 1]):
            if not (start_s[op] < earliest_s).any():
                break
            found.append((op, start_s[op] + duration_s[op] < earliest_s))
    if not any(flags.any() for _, flags in found):
        return np.zeros((len(start_s), 1), dtype=bool)
    no_ops = np.zeros(start_s.shape, dtype=bool)
    for op, flags in found:
        no_ops[op] = flags
    return no_ops
