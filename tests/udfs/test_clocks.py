"""Jobs with wrong clocks give the results of right clocks; if clocks are right, nothing is changed."""

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.mechanisms.transfers import FlappingLink
from jobs.synthetic.mechanisms.work import LossLayer
from jobs.synthetic.mechanisms.workers import SickHost, WeakGpu
from jobs.synthetic.shape import TRANSFERS, JobShape
from schemas.vocabulary import OP_CODES
from tests.evaluation.blocking.draw import draw
from tests.support.skewed import (
    FROM_ONE_CLOCK,
    MS,
    Course,
    began_us,
    hosts_of,
    job_on_hosts,
    simulated,
    skewed,
    skews,
    without_hosts,
)
from udfs.custom_scenario import replay_scenarios
from udfs.kernel.arrays import Floats
from udfs.timeline.timelines import step_timelines
from udfs.what_if import SimulationSettings, simulate_job

SAME = 1e-3
"""Target for the relative error of the slowdown; the errors are below a fifth of it."""

PIPELINE = JobShape(dp_size=1, pp_size=4, microbatches=8, steps=20, tp_size=8)
BOTH = JobShape(dp_size=4, pp_size=4, microbatches=8, steps=20, tp_size=4)
COLLECTIVES = frozenset(
    {
        "params-all-gather",
        "grads-reduce-scatter",
        "separate-grads-all-reduce",
        "embedding-grads-all-reduce",
        "optimizer-clip-main-grad",
    }
)
KINDS: dict[str, JobShape] = {
    "replicas": JobShape(dp_size=4, microbatches=8, steps=20, tp_size=8),
    "pipeline": PIPELINE,
    "both": BOTH,
    "overlapped": replace(BOTH, overlapped=True, buckets=2),
    "batched": replace(BOTH, batched=True),
    "virtual": replace(BOTH, vpp_size=2, noop_transfers="all"),
    "virtual batched": replace(BOTH, vpp_size=2, noop_transfers="first_missing", batched=True),
    "transfers alone": replace(PIPELINE, absent=COLLECTIVES),
    "all of tp recorded": replace(BOTH, recorded_tp_ranks=4, steps=10),
}
SLOW = (LossLayer(0.03, 0.05), SickHost("node-0001", 1.3, 0.5), FlappingLink(0, 0.05, 0.5, 0.5))
"""Faults that are not errors of clocks."""


def table(name: str, *mechanisms: Mechanism) -> GeneratedJob:
    return job_on_hosts(KINDS[name], *mechanisms)


@pytest.mark.parametrize("kind", KINDS)
def test_clocks_that_are_off_change_nothing(kind: str) -> None:
    job = table(kind, *SLOW)
    true = simulated(job.rank_steps, job.manifest, FROM_ONE_CLOCK)["slowdown"]
    for skew, courses in skews(job.rank_steps, seed=3).items():
        found = simulated(skewed(job.rank_steps, courses), job.manifest)
        assert found["slowdown"] == pytest.approx(true, rel=SAME), skew
        assert found["is_clock_corrected"], skew


@pytest.mark.parametrize("kind", KINDS)
def test_good_clocks_change_no_bit(kind: str) -> None:
    """If clocks are right, results are equal to the last bit, however slow a stage, host or link is."""
    job = table(kind, *SLOW)
    found = simulated(job.rank_steps, job.manifest)
    assert not found["is_clock_corrected"]
    untouched = simulated(job.rank_steps, job.manifest, FROM_ONE_CLOCK)
    assert {**found, "simulation_settings": ""} == {**untouched, "simulation_settings": ""}


def test_ranks_are_clocks_where_no_host_is_named() -> None:
    job = table("both", *SLOW)
    true = simulated(job.rank_steps, job.manifest, FROM_ONE_CLOCK)["slowdown"]
    for courses in skews(job.rank_steps, seed=4).values():
        found = simulated(without_hosts(skewed(job.rank_steps, courses)), job.manifest)
        assert found["slowdown"] == pytest.approx(true, rel=SAME)
        assert found["clocks"] == 16


def test_sends_that_end_early_are_no_clocks() -> None:
    """Buffered sends, which end early, do not change the estimated clocks."""
    job = table("transfers alone", *SLOW)
    buffered = _buffered(job.rank_steps)
    assert not simulated(buffered, job.manifest)["is_clock_corrected"]
    true = simulated(buffered, job.manifest, FROM_ONE_CLOCK)["slowdown"]
    late = {hosts_of(buffered)[2]: lambda _t_us: 50 * MS}
    assert simulated(skewed(buffered, late), job.manifest)["slowdown"] == pytest.approx(true, rel=SAME)


def _buffered(rank_steps: pa.Table) -> pa.Table:
    rows = rank_steps.to_pylist()
    sends = {OP_CODES["forward-send"], OP_CODES["backward-send"]}
    for row in rows:
        for place, code in enumerate(row["op"]):
            if code in sends:
                row["duration_us"][place] = min(row["duration_us"][place], 30.0)
    return pa.Table.from_pylist(rows, schema=rank_steps.schema)


@pytest.mark.parametrize("late_us", [5 * MS, 20 * MS])
@pytest.mark.parametrize("is_buffered", [False, True])
def test_a_process_that_always_leaves_a_collective_late_has_no_clock_ahead(
    late_us: float, *, is_buffered: bool
) -> None:
    """A process that always leaves a collective late does not count as having a clock that is ahead."""
    job = table("pipeline", *SLOW)
    rows = (_buffered(job.rank_steps) if is_buffered else job.rank_steps).to_pylist()
    for row in rows:
        if row["pp_rank"] == 1:
            row["duration_us"][row["op"].index(OP_CODES["optimizer-clip-main-grad"])] += late_us
    late = pa.Table.from_pylist(rows, schema=job.rank_steps.schema)
    found = simulated(late, job.manifest)
    assert not found["is_clock_corrected"]
    assert found["slowdown"] == simulated(late, job.manifest, FROM_ONE_CLOCK)["slowdown"]


def test_clocks_that_nothing_joins_are_not_analysed() -> None:
    shape = replace(PIPELINE, absent=frozenset(TRANSFERS) | COLLECTIVES)
    job = job_on_hosts(shape)
    found = simulated(job.rank_steps, job.manifest)
    assert found["status"] == "unknown_clocks"
    assert "no transfer or collective joins" in found["status_detail"]
    tables = simulate_job(job.rank_steps, job.manifest)
    rows = tables["host_clock"].to_pylist()
    assert len({row["part"] for row in rows}) == len(rows) == 4
    assert all(row["error_s"] is None and row["offset_s"] == 0.0 for row in rows)


def test_one_host_has_one_clock_whatever_its_sends_say() -> None:
    """Ranks of one host have one clock, so the transfers between them do not change estimated clocks."""
    job = job_on_hosts(replace(PIPELINE, tp_size=1))
    buffered = _buffered(job.rank_steps)
    found = simulate_job(buffered, job.manifest)
    assert found["job_slowdown"]["clocks"].to_pylist() == [1]
    assert "clock_skew" not in found["job_causes"]["flag_reason"].to_pylist()


def test_what_was_corrected_stands_beside_the_result() -> None:
    job = table("both")
    first_us = min(job.rank_steps["t0_us"].to_pylist())
    courses = {
        "node-0003": lambda t_us: 20 * MS + 100e-6 * (t_us - first_us),
        "node-0005": lambda t_us: 30 * MS if t_us > first_us + 60e6 else 0.0,
    }
    found = simulate_job(skewed(job.rank_steps, courses), job.manifest)
    rows = {row["clock"]: row for row in found["host_clock"].to_pylist()}
    (unit,) = found["job_slowdown"].to_pylist()
    assert set(rows) == set(hosts_of(job.rank_steps))
    assert all(row["is_corrected"] and row["host"] == name for name, row in rows.items())
    drift = {name: row["drift_ppm"] for name, row in rows.items()}
    assert drift == pytest.approx({name: 100.0 * (name == "node-0003") for name in drift}, abs=0.5)
    assert {name: row["jumps"] for name, row in rows.items() if row["jumps"]} == {"node-0005": 1}
    assert rows["node-0005"]["largest_jump_s"] == pytest.approx(0.03, abs=2e-4)
    assert abs(rows["node-0001"]["offset_s"]) < 1e-4
    assert unit["clocks"] == len(rows)
    assert abs(unit["clock_offset_s"]) == max(abs(row["offset_s"]) for row in rows.values())
    assert 0.0 < unit["clock_residual_s"] < 1e-3


def test_a_unit_read_by_blocks_of_steps_is_corrected_alike() -> None:
    job = table("both", *SLOW)
    rows = skewed(job.rank_steps, skews(job.rank_steps, seed=6)["drift to 200 ppm"])
    whole, parts = (
        simulated(rows, job.manifest, SimulationSettings(ops_together=ops, diagnosed=False))
        for ops in (10**9, 1)
    )
    assert parts["slowdown"] == pytest.approx(whole["slowdown"], rel=1e-12)
    assert parts["is_clock_corrected"]


def test_timelines_and_custom_scenarios_see_corrected_times() -> None:
    job = table("pipeline")
    rows = skewed(job.rank_steps, {"node-0002": lambda _t_us: 50 * MS})
    step = int(job.rank_steps["step"][0].as_py())
    true, found = (step_timelines(each, job.manifest, step) for each in (job.rank_steps, rows))
    for kind in ("recorded", "replayed"):
        assert found.step_s(kind) == pytest.approx(true.step_s(kind), rel=SAME)
    slowdown = simulated(rows, job.manifest)["slowdown"]
    for ops_together in (10**9, 1):
        answer = replay_scenarios(
            rows, job.manifest, ["pp_rank = 0"], settings=SimulationSettings(ops_together=ops_together)
        )
        assert answer.slowdown == pytest.approx(slowdown, rel=1e-12)


def test_causes_stay_what_they_are() -> None:
    job = table("both", LossLayer(0.02, 0.04), WeakGpu(1, 3, 1.5))

    def causes(rank_steps: pa.Table) -> dict[str, float]:
        rows = simulate_job(rank_steps, job.manifest)["job_causes"].to_pylist()
        return {row["cause"]: row["time_saved_fraction"] for row in rows if row["is_cause"]}

    true = causes(job.rank_steps)
    assert len(true) >= 2
    for skew, courses in skews(job.rank_steps, seed=8).items():
        found = causes(skewed(job.rank_steps, courses))
        assert found.keys() == true.keys(), skew
        assert all(math.isclose(found[each], true[each], abs_tol=2e-3) for each in true), skew


def test_clocks_that_are_off_anew_in_each_step_flag_what_hangs_on_them() -> None:
    """If a clock jumps by 5 ms in each step, the causes that depend on clocks get a flag."""
    job = table("replicas")
    began, rng = began_us(job.rank_steps), np.random.default_rng(4)
    off_us = {host: rng.normal(0.0, 5 * MS, len(began)) for host in hosts_of(job.rank_steps)}

    def course(of_host: Floats) -> Course:
        return lambda t_us: float(of_host[np.searchsorted(began, t_us, side="right") - 1])

    rows = skewed(job.rank_steps, {host: course(each) for host, each in off_us.items()})
    found = simulate_job(rows, job.manifest)["job_causes"].to_pylist()
    flags = {row["cause"]: row["flag_reason"] for row in found}
    assert flags["communication"] == flags["launch_delay"] == "clock_skew"
    assert {flag for cause, flag in flags.items() if cause not in ("communication", "launch_delay")} == {None}


def test_streams_that_start_transfers_together_are_no_call() -> None:
    """Transfers that start together on different streams are not one call, and show no clock error."""
    job = draw(65072, "streams")
    found = simulate_job(job.rank_steps, job.manifest)
    (unit,) = found["job_slowdown"].to_pylist()
    (named,) = (row for row in found["job_causes"].to_pylist() if row["is_cause"])
    assert (unit["status"], unit["clocks"]) == ("analysed", 3)
    assert (job.fault, named["cause"], named["flag_reason"]) == ("link", "communication", None)
