"""Inputs that once gave wrong results now agree with the reference, in any blocks, for every ideal."""

from functools import cache
from typing import Any

import pytest

from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.shape import JobShape
from tests.oracle import WhatIf
from tests.support.random_jobs import without_ops
from tests.support.regressions import REGRESSIONS
from tests.udfs.reference import assert_equal_results, oracle_of, slow_job
from udfs.kernel.recorded.trace import Trace, build_trace
from udfs.kernel.replay.ideal import IDEALS
from udfs.layout import read_layout
from udfs.simulate.rank_rows import replayed_rows
from udfs.what_if import SimulationSettings, simulate_job


@cache
def made(name: str) -> GeneratedJob:
    return REGRESSIONS[name]()


@cache
def wanted(name: str, ideal: str) -> WhatIf:
    return oracle_of(made(name).rank_steps, made(name).manifest, ideal)


def job_of(name: str, ops_together: int = 10**12) -> dict[str, Any]:
    chosen = SimulationSettings(ops_together=ops_together)
    (row,) = simulate_job(made(name).rank_steps, made(name).manifest, chosen)["job_slowdown"].to_pylist()
    return dict(row)


def trace_of(name: str) -> Trace:
    layout = read_layout(made(name).manifest)
    rows = replayed_rows(made(name).rank_steps, layout)
    return build_trace(rows.stages(), layout, len(rows.steps))


@pytest.mark.parametrize("ops_together", [1, 10**12])
@pytest.mark.parametrize("ideal", IDEALS)
@pytest.mark.parametrize("name", REGRESSIONS)
def test_against_the_reference(name: str, ideal: str, ops_together: int) -> None:
    chosen = SimulationSettings(ideal=ideal, ops_together=ops_together)
    assert_equal_results(
        simulate_job(made(name).rank_steps, made(name).manifest, chosen), wanted(name, ideal)
    )


def test_replicas_know_the_latest_end_before_they_meet() -> None:
    job = made("op_that_may_end_a_step_before_replicas_meet")
    found = simulate_job(job.rank_steps, job.manifest)
    assert found["step_slowdown"]["simulated_step_s"].to_pylist() == [50.0]
    assert found["step_slowdown"]["ideal_step_s"].to_pylist() == [27.0]
    assert found["dp_rank_slowdown"]["slowdown"].to_pylist() == [50 / 27, 1.0]
    workers = found["worker_slowdown"].to_pylist()
    assert {(row["dp_rank"], row["pp_rank"]): row["slowdown"] for row in workers} == {
        (0, 0): 50 / 27,
        (0, 1): 1.0,
        (1, 0): 1.0,
        (1, 1): 1.0,
    }


def test_recorded_no_ops_of_all_rows_are_one_graph_and_of_some_rows_several() -> None:
    assert len(trace_of("noop_transfers_of_all_rows").blocks) == 1
    assert {b.graph.has_dp_lanes for b in trace_of("noop_transfers_of_some_rows").blocks} == {True, False}


def test_collectives_of_unequal_number_are_paired_up_to_the_smaller() -> None:
    """Replicas that lack a collective are left out of it, and the other replicas wait for each other."""
    numbers = {
        len(meeting.members)
        for block in trace_of("collectives_of_unequal_number").blocks
        if not block.graph.has_dp_lanes
        for meeting in block.graph.meetings
        if meeting.across_dp
    }
    assert numbers == {2, 3, 6}, "collectives that a replica lacks are left out; six workers share the clip"


def test_sends_without_peer_lie_amid_those_that_have_one() -> None:
    (block,) = trace_of("sends_without_peer_amid_others").blocks
    assert any(not isinstance(ops, range) for meeting in block.graph.meetings for ops in meeting.members)


@pytest.mark.parametrize("ops_together", [1, 10, 10**12])
@pytest.mark.parametrize(
    ("name", "transfers", "delays"),
    [
        ("transfer_clamp_in_a_late_step", 2, 0),
        ("launch_delay_clamp_with_several_late_sources", 0, 2),
        ("launch_delay_clamps_of_every_step", 0, 24),
    ],
)
def test_clamps_are_counted_once_in_every_block(
    name: str, transfers: int, delays: int, ops_together: int
) -> None:
    found = job_of(name, ops_together)
    assert (found["clamped_transfers"], found["clamped_launch_delays"]) == (transfers, delays)


def test_graphs_are_counted() -> None:
    """Graphs are counted: one graph if all rows have equal ops, two if one row lacks an op."""
    job = slow_job(JobShape(dp_size=2, pp_size=2, steps=4), 0)
    for rows, graphs in ((job.rank_steps, 1), (without_ops(job.rank_steps, "gc", [0]), 2)):
        assert simulate_job(rows, job.manifest)["job_slowdown"]["graphs"].to_pylist() == [graphs]
