"""Transfers that a worker issues in one call are recognised, on a hand-made graph of four ops.

The ops are forward-compute 0, backward-compute 1, forward-send 2 and backward-recv 3. The send waits for the
forward, the backward waits for the recv, and send and recv are issued in one call.
"""

from typing import Final

import numpy as np
import pytest

from tests.support.replays import replay
from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats
from udfs.kernel.diagnosis.more_waits import Calls, call_graph, find_calls
from udfs.kernel.graph.graph import ALL_DP_RANKS, Cell, OpGraph, ReplayNode, StageProgram

FORWARD, BACKWARD, SEND, RECV = range(4)
TYPES: Final = (ot.FORWARD_COMPUTE, ot.BACKWARD_COMPUTE, ot.FORWARD_SEND, ot.BACKWARD_RECV)
TOGETHER: Final = Calls(((SEND, RECV),), {})


def graph_of(waits_for: tuple[tuple[int, ...], ...], order: tuple[int, ...]) -> OpGraph:
    counts = tuple(TYPES.count(op_type) for op_type in range(ot.COUNT))
    cell = Cell(0, ALL_DP_RANKS, StageProgram(counts, (), (), (-1,) * 4, ()))
    nodes: list[ReplayNode] = [((op,), False, waits_for[op], waits_for[op], ((op, op),)) for op in order]
    return OpGraph((cell,), (0, 4), TYPES, (0,) * 4, waits_for, (), tuple(nodes), 4, ())


DRAWN: Final = graph_of(((), (RECV,), (FORWARD,), ()), (FORWARD, SEND, RECV, BACKWARD))


def times(lanes: int) -> tuple[Floats, Floats, Floats]:
    """Return start, end and transfer time of a forward, a send and a recv in one call, and a backward. [s]"""
    start = np.array([0.0, 3.0, 1.0, 1.0])
    end = np.array([1.0, 4.0, 3.0, 3.0])
    transfer = np.array([1.0, 1.0, 0.5, 2.0])
    shape = (1, lanes, 1)
    return tuple(np.tile(values[:, None, None], shape) for values in (start, end, transfer))  # type: ignore[return-value]  # three


def test_transfers_that_start_and_end_together_are_a_call() -> None:
    calls = find_calls(DRAWN, *times(20))
    assert [set(members) for members in calls.members] == [{SEND, RECV}]


def test_whose_peer_came_last_is_free_for_the_others() -> None:
    """In a call, only the op whose peer arrived last shows how long its transfer took."""
    calls = find_calls(DRAWN, *times(2))
    assert {op: free.all() for op, free in calls.is_free.items()} == {SEND: False, RECV: True}
    assert {op: free.any() for op, free in calls.is_free.items()} == {SEND: False, RECV: True}


@pytest.mark.parametrize(("apart", "is_call"), [(1, True), (2, False)])
@pytest.mark.parametrize("which", ["start", "end"])
def test_nearly_all_lanes_must_coincide(apart: int, is_call: bool, which: str) -> None:
    start_s, end_s, transfer_s = times(20)
    changed = {"start": start_s, "end": end_s}[which]
    changed[SEND, 20 - apart :] += 0.01
    assert bool(find_calls(DRAWN, start_s, end_s, transfer_s).members) is is_call


@pytest.mark.parametrize(("late_s", "is_call"), [(0.9e-7, True), (1.1e-7, False)])
def test_what_a_log_rounds_away_is_the_same_time(late_s: float, is_call: bool) -> None:
    start_s, end_s, transfer_s = times(20)
    start_s[SEND] += late_s
    assert bool(find_calls(DRAWN, start_s, end_s, transfer_s).members) is is_call


def test_waiting_for_one_transfer_of_a_call_waits_for_all() -> None:
    joined = call_graph(DRAWN, TOGETHER)
    assert [set(sources) for sources in joined.waits_for] == [set(), {SEND, RECV}, {FORWARD}, {FORWARD}]
    ends = replay(joined, np.array([1.0, 1.0, 5.0, 2.0]).reshape(4, 1, 1, 1))
    assert ends.ravel().tolist() == [1.0, 7.0, 6.0, 3.0]
    alone = replay(DRAWN, np.array([1.0, 1.0, 5.0, 2.0]).reshape(4, 1, 1, 1))
    assert alone.ravel().tolist() == [1.0, 3.0, 6.0, 2.0]


def test_each_job_on_a_graph_has_its_own_calls() -> None:
    of_computes = call_graph(DRAWN, Calls(((FORWARD, RECV),), {}))
    assert [set(sources) for sources in of_computes.waits_for] == [
        set(),
        {FORWARD, RECV},
        {FORWARD, RECV},
        set(),
    ]
    assert call_graph(DRAWN, TOGETHER).waits_for != of_computes.waits_for


def test_without_calls_the_graph_stays() -> None:
    assert call_graph(DRAWN, Calls((), {})) is DRAWN


def test_a_call_that_would_wait_for_itself_changes_nothing() -> None:
    """Joining transfers to a call changes nothing if an op of the call would then wait for the call's end."""
    crossed = graph_of(((), (RECV,), (BACKWARD,), ()), (FORWARD, RECV, BACKWARD, SEND))
    assert call_graph(crossed, TOGETHER) is crossed
