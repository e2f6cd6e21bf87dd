"""Rules of the graph that apply only to unusual recordings give the times of timelines made by hand."""

from typing import Any

import pyarrow as pa
import pytest

from tests.udfs.lines import Ops, line, manifest, rank_steps
from udfs.errors import TraceError
from udfs.what_if import simulate_job


def job(tables: dict[str, pa.Table]) -> dict[str, Any]:
    (row,) = tables["job_slowdown"].to_pylist()
    return dict(row)


def test_first_backward_send_waits_for_the_compute_two_places_before_even_if_it_moved_nothing() -> None:
    ops: Ops = [
        ("forward-compute", 0, 1, 0),
        ("forward-compute", 1, 1, 1),
        ("backward-send", 0.5, 0.1),
        ("backward-compute", 2, 1, 0),
    ]
    found = job(simulate_job(rank_steps(line(0, 0, 0, ops)), manifest()))
    assert found["clamped_launch_delays"] == 1


def test_jobs_with_the_same_ops_and_another_layout_have_graphs_of_their_own() -> None:
    """Jobs with equal ops and different layouts have different graphs: gathers depend on the layout."""
    rows = rank_steps(line(0, 0, 0, [("params-all-gather", 0, 1), ("forward-compute", 1, 1)]))
    for cp_size, step_s in ((1, 1.0), (2, 2.0), (1, 1.0)):
        assert job(simulate_job(rows, manifest(cp_size=cp_size)))["simulated_step_s"] == step_s


def test_recvs_match_from_the_second_compute_on_only_if_exactly_one_is_missing() -> None:
    """If two of three recvs are missing, the other recv belongs to the first compute, not to the second."""
    first: Ops = [("forward-compute", 0, 1), ("forward-send", 1, 1)]
    last: Ops = [("forward-recv", 0, 2), *(("forward-compute", 2.0 + i, 1.0, i) for i in range(3))]
    tables = simulate_job(rank_steps(line(0, 0, 0, first), line(0, 0, 1, last)), manifest(pp_size=2))
    assert job(tables)["simulated_step_s"] == 5.0


def test_times_10_ms_too_early_are_clamped_not_only_earlier_ones() -> None:
    send, recv = line(0, 0, 0, [("forward-send", 0, 0)]), line(0, 0, 1, [("forward-recv", 0.01, 1)])
    met = job(simulate_job(rank_steps(send, recv), manifest(pp_size=2)))
    assert (met["clamped_transfers"], met["clamped_launch_delays"]) == (1, 0)
    computes = line(0, 0, 0, [("forward-compute", 0, 0.01, 0), ("forward-compute", 0, 1, 1)])
    early = job(simulate_job(rank_steps(computes), manifest()))
    assert (early["clamped_transfers"], early["clamped_launch_delays"]) == (0, 1)


def test_a_send_beyond_the_last_compute_still_meets_its_peer() -> None:
    """If the profiler lost the compute of a send, the send still has its recv as its partner: T = 5 s."""
    first: Ops = [("forward-compute", 0, 1), ("forward-send", 1, 1), ("forward-send", 3, 1)]
    last: Ops = [
        ("forward-recv", 0, 2),
        ("forward-compute", 2, 1, 0),
        ("forward-recv", 3, 1),
        ("forward-compute", 4, 1, 1),
    ]
    tables = simulate_job(rank_steps(line(0, 0, 0, first), line(0, 0, 1, last)), manifest(pp_size=2))
    assert (job(tables)["actual_step_s"], job(tables)["simulated_step_s"]) == (5.0, 5.0)


def test_one_forward_of_a_chunk_waits_for_its_gather_and_one_reduce_scatter_for_its_last_backward() -> None:
    gathered: Ops = [("params-all-gather", 0, 3), ("forward-compute", 0, 1, 0), ("forward-compute", 1, 1, 1)]
    scattered: Ops = [
        ("backward-compute", 0, 2),
        ("grads-reduce-scatter", 0.5, 0.1),
        ("grads-reduce-scatter", 0.7, 0.1),
        ("separate-grads-all-reduce", 2, 1),
    ]
    for ops in (gathered, scattered):
        found = job(simulate_job(rank_steps(line(0, 0, 0, ops)), manifest(cp_size=2)))
        assert found["clamped_launch_delays"] == 1


def test_of_two_steps_that_contradict_themselves_the_first_is_named() -> None:
    lines = []
    for step, sends in ((2, 1), (4, 2), (6, 3)):
        first: Ops = [("forward-compute", 0, 1), *(("forward-send", 1.0 + i, 1.0) for i in range(sends))]
        last: Ops = [("forward-recv", 0, 2), ("forward-compute", 2, 1)]
        lines += [line(step, 0, 0, first), line(step, 0, 1, last)]
    with pytest.raises(TraceError, match="step 4: 2 sends of stage 0 meet 1 recvs of stage 1"):
        simulate_job(rank_steps(*lines), manifest(pp_size=2))


def test_a_duration_that_is_no_number_gives_no_figures() -> None:
    """A duration that is not a number refuses the job, even if the medians would be the same without it."""
    durations = {0: 1.0, 1: float("nan"), 2: 1.0}
    lines = [line(s, 0, 0, [("layernorm-grads-all-reduce", 0, each)]) for s, each in durations.items()]
    with pytest.raises(TraceError):
        simulate_job(rank_steps(*lines), manifest())
