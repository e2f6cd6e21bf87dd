"""Randomly sampled jobs have the promised frequencies of faults, and the simulator reads all of them."""

from collections import Counter
from dataclasses import replace

import pytest

from jobs.synthetic.job import recorded_job
from jobs.synthetic.mechanisms.mechanism import Window, Windowed
from jobs.synthetic.mechanisms.workers import SickHost, WeakGpu
from jobs.synthetic.sample_faults import FAULTS
from jobs.synthetic.sample_job import KINDS, sample_job
from jobs.synthetic.shape import USUAL_S, JobIdentity, JobShape
from jobs.synthetic.simulation import JobPlan, Simulation, true_savings
from tests.support.sampled import with_loads
from udfs.what_if import simulate_job

INSIGNIFICANT = 0.002
"""Share of a step that the host's usual launch delay costs at most."""


@pytest.fixture(scope="module")
def sampled() -> list[JobPlan]:
    return [sample_job(seed) for seed in range(400)]


@pytest.mark.parametrize("seed", range(30))
def test_the_simulator_reads_every_job(seed: int) -> None:
    """The simulator's step time is the true one, and its discrepancy is the true share of launch delays.

    Both are exact to 1 %; with batched transfers the discrepancy is exact to 3 % (see test_job.py).
    """
    plan = sample_job(seed, most_ops=20_000)
    simulation = Simulation(plan)
    job, truth = recorded_job(simulation), true_savings(simulation)
    (found,) = simulate_job(job.rank_steps, job.manifest)["job_slowdown"].to_pylist()
    assert found["status"] in ("too_few_steps", "analysed", "high_discrepancy")
    assert (found["status"] == "too_few_steps") == (plan.shape.steps < 10)
    tolerance = 0.03 if plan.shape.batched else 0.01
    assert found["discrepancy"] == pytest.approx(truth.time_saved_fraction["launch_delay"], abs=tolerance)
    assert found["actual_step_s"] == pytest.approx(truth.actual_step_s, rel=0.01)


@pytest.mark.parametrize("seed", range(60))
def test_healthy_jobs_lose_nothing_to_any_cause(seed: int) -> None:
    plan = sample_job(seed, most_ops=10_000)
    assert (plan.kind == "healthy") == (not plan.causes)
    if not plan.causes:
        saved = true_savings(Simulation(plan)).time_saved_fraction
        assert all(abs(fraction) < INSIGNIFICANT for fraction in saved.values())


def test_kinds_and_causes_come_as_often_as_promised(sampled: list[JobPlan]) -> None:
    kinds = Counter(plan.kind for plan in sampled)
    for kind, share in KINDS.items():
        assert kinds[kind] / len(sampled) == pytest.approx(share, abs=0.06)
    drawn = [[each.cause for each in plan.mechanisms if each.cause] for plan in sampled]
    assert min(sum(cause in causes for causes in drawn) for cause in FAULTS) > 30
    for causes in drawn:  # each cause at most once
        assert len(causes) == len(set(causes)) <= 4


def test_a_job_that_records_loads_is_otherwise_the_same(sampled: list[JobPlan]) -> None:
    slow = 0
    for plan in sampled[:60]:
        loading = with_loads(plan)
        assert replace(loading.shape, loads_data=False, loads_in_turn=False) == plan.shape
        assert {**loading.workload.usual_s, "data-load": USUAL_S["data-load"]} == {
            **plan.workload.usual_s,
            "data-load": USUAL_S["data-load"],
        }
        assert tuple(loading.mechanisms[: len(plan.mechanisms)]) == tuple(plan.mechanisms)
        more = [each.cause for each in loading.mechanisms[len(plan.mechanisms) :]]
        assert more in ([None], [None, "data_loading"])
        slow += len(more) - 1
    assert 20 < slow < 40


def test_every_layout_occurs(sampled: list[JobPlan]) -> None:
    shapes = [plan.shape for plan in sampled]
    habits = ("overlapped", "batched", "absent", "buckets", "noop_transfers", "line_order")
    for name in (*habits, "vpp_size", "cp_size"):
        assert len({getattr(shape, name) for shape in shapes}) > 1, name
    assert {shape.dp_size for shape in shapes} == {1, 2, 3, 4, 6, 8, 12, 16}
    assert {shape.pp_size for shape in shapes} == {1, 2, 3, 4, 6, 8}
    assert 4 == min(shape.steps for shape in shapes) < max(shape.steps for shape in shapes) <= 40
    mechanisms = [each for plan in sampled for each in plan.mechanisms]
    assert any(isinstance(each, SickHost) for each in mechanisms)
    windows = [each.window for each in mechanisms if isinstance(each, Windowed) and each.cause]
    assert 0.2 < sum(window != Window() for window in windows) / len(windows) < 0.5


def test_same_seed_same_job(sampled: list[JobPlan]) -> None:
    assert sample_job(17) == sampled[17]


def test_size_is_limited_and_a_limit_leaves_the_rest_alone(sampled: list[JobPlan]) -> None:
    for seed, large in enumerate(sampled[:20]):
        small = sample_job(seed, most_ops=5000)
        assert recorded_job(Simulation(large)).ops < 200_000
        assert small.shape.microbatches <= large.shape.microbatches
        assert small.workload == large.workload


def test_jobs_with_shared_hosts_have_no_sickness_of_their_own() -> None:
    plans = (sample_job(seed, has_own_hosts=False) for seed in range(200))
    assert not any(isinstance(each, SickHost) for plan in plans for each in plan.mechanisms)


def test_days_of_a_job_share_its_windows() -> None:
    def weak(first: int = 0, end: int | None = None) -> WeakGpu:
        return WeakGpu(0, 0, 1.5, window=Window(first, end))

    plan = JobPlan(JobShape(dp_size=2, steps=10), (weak(5, 15),))
    days = [plan.day(day, 100 + day, JobIdentity("j"), [SickHost("a", 1.2)]) for day in range(3)]
    sick = (SickHost("a", 1.2),)
    assert [day.mechanisms for day in days] == [(weak(5, 15), *sick), (weak(-5, 5), *sick), sick]
    assert [day.seed for day in days] == [100, 101, 102]


def test_only_ranks_that_another_can_stand_for_are_lost(sampled: list[JobPlan]) -> None:
    losing = next(plan for plan in sampled if plan.lost_ranks)
    kept, every = (recorded_job(Simulation(plan)) for plan in (losing, replace(losing, lost_ranks=())))
    ranks, all_ranks = (set(job.rank_steps["rank"].to_pylist()) for job in (kept, every))
    assert ranks == all_ranks - set(losing.lost_ranks) < all_ranks
    rows = kept.rank_steps.select(["dp_rank", "pp_rank"]).to_pylist()
    assert {(row["dp_rank"], row["pp_rank"]) for row in rows} == set(losing.shape.cells)
