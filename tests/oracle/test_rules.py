"""The model's rules one by one, on a few ops each."""

import pytest

from tests.oracle import Layout, Op, OracleError, what_if
from tests.oracle.step_graph import StepGraph, build_step_graph

Drawn = tuple[str, float, float, int, int]
"""op type, start [s], end [s], microbatch, chunk."""


def _ops(*drawn: Drawn, stage: int = 0, dp_rank: int = 0) -> list[Op]:
    return [
        Op(dp_rank, stage, 0, op_type, start, end - start, microbatch, chunk)
        for op_type, start, end, microbatch, chunk in drawn
    ]


def _waits(graph: StepGraph, op: int) -> set[int]:
    return set(graph.waits_for[op])


def _partners(graph: StepGraph, op: int) -> set[int]:
    return next({*group} - {op} for group in graph.groups if op in group)


def test_kth_compute_waits_for_kth_recv_which_waits_for_compute_before() -> None:
    ops = _ops(
        ("forward-recv", 0, 1, -1, -1),
        ("forward-compute", 1, 3, 0, 0),
        ("forward-recv", 3, 4, -1, -1),
        ("forward-compute", 4, 6, 1, 0),
        stage=1,
    ) + _ops(
        ("forward-compute", 0, 0.5, 0, 0),
        ("forward-send", 0.5, 1, -1, -1),
        ("forward-compute", 1, 1.5, 1, 0),
        ("forward-send", 1.5, 4, -1, -1),
    )
    graph = build_step_graph(ops, Layout(1, 2))
    assert (_waits(graph, 1), _waits(graph, 2), _waits(graph, 3)) == ({0}, {0, 1}, {1, 2})
    assert (_waits(graph, 5), _waits(graph, 7)) == ({4}, {5, 6})
    assert (_partners(graph, 0), _partners(graph, 2)) == ({5}, {7})


def test_one_recv_fewer_matches_from_the_second_compute_on() -> None:
    """Stage 0 of a virtual pipeline: nothing is received for the first forward of chunk 0."""
    ops = _ops(
        ("forward-compute", 0, 1, 0, 0),
        ("forward-send", 1, 2, -1, -1),
        ("forward-recv", 1, 5, -1, -1),
        ("forward-compute", 5, 6, 0, 1),
        ("forward-send", 6, 7, -1, -1),
    ) + _ops(
        ("forward-recv", 0, 2, -1, -1),
        ("forward-compute", 2, 4, 0, 0),
        ("forward-send", 4, 5, -1, -1),
        ("forward-recv", 4, 7, -1, -1),
        ("forward-compute", 7, 8, 0, 1),
        ("forward-send", 8, 8.1, -1, -1),
        stage=1,
    )
    graph = build_step_graph(ops, Layout(1, 2, vpp_size=2))
    assert (_waits(graph, 0), _waits(graph, 2), _waits(graph, 3)) == (set(), {0}, {0, 2})
    assert _partners(graph, 2) == {7}
    assert _partners(graph, 10) == set()  # the model's last chunk sends nothing
    assert _waits(graph, 10) == {7, 9}


@pytest.mark.parametrize(("late_s", "is_noop"), [(40e-6, False), (60e-6, True)])
def test_recv_after_the_last_compute_moved_nothing(late_s: float, *, is_noop: bool) -> None:
    ops = _ops(("forward-compute", 0, 1, 0, 0), ("forward-send", 1, 2, -1, -1)) + _ops(
        ("forward-compute", 1.5, 3, 0, 0), ("forward-recv", 1.5 + late_s, 2, -1, -1), stage=1
    )
    if is_noop:
        with pytest.raises(OracleError, match="1 forward sends of stage 0, 0 recvs of 1"):
            build_step_graph(ops, Layout(1, 2))
    else:
        assert _partners(build_step_graph(ops, Layout(1, 2)), 1) == {3}


@pytest.mark.parametrize(("early_s", "is_noop"), [(40e-6, False), (60e-6, True)])
def test_send_before_the_first_compute_has_ended_moved_nothing(early_s: float, *, is_noop: bool) -> None:
    ops = _ops(("forward-send", 0, 1 - early_s, -1, -1), ("forward-compute", 0, 1, 0, 0)) + _ops(
        ("forward-recv", 0, 1, -1, -1), ("forward-compute", 1, 2, 0, 0), stage=1
    )
    if is_noop:
        with pytest.raises(OracleError, match="0 forward sends of stage 0, 1 recvs of 1"):
            build_step_graph(ops, Layout(1, 2))
    else:
        assert _partners(build_step_graph(ops, Layout(1, 2)), 0) == {2}


def test_first_backward_transfers_wait_for_the_compute_two_places_before() -> None:
    ops = _ops(
        ("forward-compute", 0, 1, 0, 0),
        ("forward-compute", 1, 2, 1, 0),
        ("backward-recv", 1, 3, -1, -1),
        ("backward-compute", 3, 4, 0, 0),
        ("backward-send", 4, 5, -1, -1),
    ) + _ops(("backward-compute", 0, 1, 0, 0), ("backward-send", 1, 3, -1, -1), stage=1)
    graph = build_step_graph(ops, Layout(1, 2))
    assert (_waits(graph, 2), _waits(graph, 4)) == ({0}, {0, 3})


def test_last_gather_of_a_chunk_precedes_its_first_forward() -> None:
    ops = _ops(
        ("params-all-gather", 0, 1, -1, 0),
        ("params-all-gather", 1, 2, -1, 0),
        ("params-all-gather", 2, 3, -1, 1),
        ("forward-compute", 2, 3, 0, 0),
        ("forward-compute", 3, 4, 0, 1),
    )
    graph = build_step_graph(ops, Layout(1, 1, cp_size=2, vpp_size=2))
    assert (_waits(graph, 2), _waits(graph, 3), _waits(graph, 4)) == ({1}, {1}, {2, 3})


TAIL: tuple[Drawn, ...] = (
    ("forward-compute", 0, 1, 0, 0),
    ("backward-compute", 1, 2, 0, 0),
    ("gc", 2, 2, -1, -1),
    ("layernorm-grads-all-reduce", 3, 4, -1, -1),
    ("embedding-grads-all-reduce", 4, 5, -1, -1),
    ("grads-reduce-scatter", 5, 6, -1, 0),
    ("grads-reduce-scatter", 6, 7, -1, 0),
    ("optimizer-clip-main-grad", 7, 8, -1, -1),
    ("optimizer", 8, 9, -1, -1),
)


def test_tail_with_gradients_reduced_at_the_end() -> None:
    graph = build_step_graph(_ops(*TAIL), Layout(1, 1, cp_size=2))
    assert [_waits(graph, op) for op in range(1, 9)] == [{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}]


def test_tail_with_overlapped_gradients() -> None:
    separate = ("separate-grads-all-reduce", 6.5, 7.0, -1, -1)
    graph = build_step_graph(_ops(*TAIL, separate), Layout(1, 1, cp_size=2))
    assert (_waits(graph, 5), _waits(graph, 6)) == ({1}, {5})
    assert (_waits(graph, 3), _waits(graph, 9), _waits(graph, 7)) == ({2, 6}, {4}, {9})


def test_tail_without_data_parallelism_leaves_its_collectives_out() -> None:
    found = what_if(_ops(*TAIL), Layout(1, 1))
    assert set(build_step_graph(_ops(*TAIL), Layout(1, 1)).waits_for) == {0, 1, 2, 3, 4, 7, 8}
    assert "grads-reduce-scatter" not in found.op_type_slowdown
    assert found.transfer_s[5] is None
    assert found.simulated_step_s == {0: 6.0}


def test_tail_skips_what_was_not_recorded() -> None:
    ops = _ops(TAIL[0], TAIL[1], TAIL[3], TAIL[8])
    graph = build_step_graph(ops, Layout(1, 1))
    assert (_waits(graph, 2), _waits(graph, 3)) == ({1}, {2})


def test_who_meets_whom() -> None:
    """Clip over all stages and replicas, embedding within a replica, reduce-scatter within a stage."""
    ops = [op for dp in (0, 1) for stage in (0, 1, 2) for op in _ops(*TAIL, stage=stage, dp_rank=dp)]
    graph = build_step_graph(ops, Layout(2, 3))
    first = 9  # ops of one worker
    assert _partners(graph, 7) == {7 + first * worker for worker in range(1, 6)}
    assert _partners(graph, 5) == {5 + first * 3}
    assert _partners(graph, 4) == {4 + first * 2}
    assert 4 + first not in graph.waits_for  # no embedding on a middle stage
    assert _partners(graph, 8) == set()


def test_clamps_are_counted() -> None:
    ops = _ops(("gc", 0, 0, -1, -1), ("optimizer-clip-main-grad", 0.5, 1.0, -1, -1)) + _ops(
        ("gc", 1.1, 1.1, -1, -1),
        ("optimizer-clip-main-grad", 1.015, 2.0, -1, -1),
        stage=1,
    )
    found = what_if(ops, Layout(1, 2))
    assert found.transfer_s[1] == 0.0
    assert found.transfer_s[3] == pytest.approx(0.985)
    assert (found.clamped_transfers, found.clamped_launch_delays) == (1, 1)


def test_small_negative_times_stay() -> None:
    ops = _ops(("optimizer-clip-main-grad", 0, 1.0, -1, -1)) + _ops(
        ("optimizer-clip-main-grad", 1.005, 2.0, -1, -1), ("optimizer", 1.995, 2.5, -1, -1), stage=1
    )
    found = what_if(ops, Layout(1, 2))
    assert found.transfer_s[0] == pytest.approx(-0.005)
    assert found.launch_delay_s[2] == pytest.approx(-0.005)
    assert (found.clamped_transfers, found.clamped_launch_delays) == (0, 0)


def test_cycle_is_named() -> None:
    """A gather recorded after a reduce-scatter that waits for the backward of the chunk to be gathered."""
    ops = _ops(
        ("grads-reduce-scatter", 0, 1, -1, 0),
        ("params-all-gather", 1, 2, -1, 0),
        ("forward-compute", 2, 3, 0, 0),
        ("backward-compute", 3, 4, 0, 0),
        ("separate-grads-all-reduce", 4, 5, -1, -1),
    )
    with pytest.raises(OracleError, match=r"cycle: .*params-all-gather|cycle: .*backward-compute"):
        build_step_graph(ops, Layout(1, 1, cp_size=2))


def test_the_same_compute_twice_is_a_defect() -> None:
    ops = _ops(("forward-compute", 0, 1, 3, 0), ("forward-compute", 1, 2, 3, 0))
    with pytest.raises(OracleError, match=r"the same compute twice: .*microbatch 3 chunk 0"):
        build_step_graph(ops, Layout(1, 1))
