"""Sampled jobs: what was promised about them, and that the simulator reads every one."""

from collections import Counter

import pytest

from jobs.synthetic.identity import JobIdentity
from jobs.synthetic.mechanisms.mechanism import Windowed
from jobs.synthetic.mechanisms.workers import SickHost, WeakGpu
from jobs.synthetic.sample_job import KINDS, SampledJob, run_sampled, sample_job
from jobs.synthetic.shape import JobShape
from jobs.synthetic.simulation import LABELS, JobPlan
from jobs.synthetic.truth import true_savings
from jobs.synthetic.window import Window
from udfs.what_if import simulate_job

INSIGNIFICANT = 0.002
"""What the host's usual delay costs a job at most, relative."""


@pytest.fixture(scope="module")
def sampled() -> list[SampledJob]:
    return [sample_job(seed) for seed in range(400)]


@pytest.mark.parametrize("seed", range(30))
def test_the_simulator_reads_every_job(seed: int) -> None:
    """It explains the step times up to late data; less well where transfers are batched (see test_job)."""
    job = sample_job(seed, most_ops=20_000)
    recorded, simulation = run_sampled(job.plan, job.lost_ranks)
    (found,) = simulate_job(recorded.rank_steps, recorded.manifest)["job_slowdown"].to_pylist()
    truth = true_savings(simulation)
    assert found["status"] in ("too_few_steps", "analysed", "high_discrepancy")
    assert (found["status"] == "too_few_steps") == (job.plan.shape.steps < 10)
    tolerance = 0.03 if job.plan.shape.batched else 0.01
    assert found["discrepancy"] == pytest.approx(truth.time_saved_fraction["launch_delay"], abs=tolerance)
    assert found["actual_step_s"] == pytest.approx(truth.actual_step_s, rel=0.01)


@pytest.mark.parametrize("seed", range(60))
def test_healthy_jobs_lose_nothing_to_any_cause(seed: int) -> None:
    job = sample_job(seed, most_ops=10_000)
    if job.kind != "healthy":
        assert {mechanism.cause for mechanism in job.plan.mechanisms} - {None}
        return
    _, simulation = run_sampled(job.plan, job.lost_ranks)
    assert all(abs(f) < INSIGNIFICANT for f in true_savings(simulation).time_saved_fraction.values())


def test_kinds_and_causes_come_as_often_as_promised(sampled: list[SampledJob]) -> None:
    kinds = Counter(job.kind for job in sampled)
    for kind, share in KINDS.items():
        assert kinds[kind] / len(sampled) == pytest.approx(share, abs=0.06)
    causes = Counter(mechanism.cause for job in sampled for mechanism in job.plan.mechanisms)
    assert min(causes[cause] for cause in LABELS) > 30
    for job in sampled:
        found = [mechanism.cause for mechanism in job.plan.mechanisms if mechanism.cause is not None]
        assert len(found) == len(set(found))
        wanted = {"healthy": (0, 0), "single": (1, 1), "several": (2, 4)}[job.kind]
        assert wanted[0] <= len(found) <= wanted[1]


def test_every_layout_occurs(sampled: list[SampledJob]) -> None:
    shapes = [job.plan.shape for job in sampled]
    for name in (
        "overlapped",
        "batched",
        "vpp_size",
        "cp_size",
        "absent",
        "buckets",
        "noop_transfers",
        "line_order",
    ):
        assert len({getattr(shape, name) for shape in shapes}) > 1, name
    assert {shape.dp_size for shape in shapes} == {1, 2, 3, 4, 6, 8, 12, 16}
    assert {shape.pp_size for shape in shapes} == {1, 2, 3, 4, 6, 8}
    assert 4 == min(shape.steps for shape in shapes) < max(shape.steps for shape in shapes) <= 40
    assert any(job.lost_ranks for job in sampled)
    assert any(isinstance(mechanism, SickHost) for job in sampled for mechanism in job.plan.mechanisms)
    windows = [
        m.window for job in sampled for m in job.plan.mechanisms if isinstance(m, Windowed) and m.cause
    ]
    assert 0.2 < sum(window != Window() for window in windows) / len(windows) < 0.5


def test_same_seed_same_job(sampled: list[SampledJob]) -> None:
    assert sample_job(17) == sampled[17]
    again, twice = (run_sampled(sample_job(3).plan, ())[0].rank_steps for _ in range(2))
    assert again.equals(twice)


def test_size_is_limited_and_a_limit_leaves_the_rest_alone() -> None:
    for seed in range(20):
        small, large = sample_job(seed, most_ops=5000).plan, sample_job(seed).plan
        assert run_sampled(large, ())[0].ops < 200_000
        assert small.shape.microbatches <= large.shape.microbatches
        assert small.workload == large.workload


def test_jobs_with_shared_hosts_have_no_sickness_of_their_own() -> None:
    for seed in range(200):
        plan = sample_job(seed, has_own_hosts=False).plan
        assert not any(isinstance(mechanism, SickHost) for mechanism in plan.mechanisms)


def test_days_of_a_job_share_its_windows() -> None:
    shape = JobShape(dp_size=2, steps=10)
    job = SampledJob(JobPlan(shape, (WeakGpu(0, 0, 1.5, window=Window(5, 15)),)))
    identity = JobIdentity("j")
    first, second, third = (job.day(day, 100 + day, identity) for day in range(3))
    assert first.mechanisms == (WeakGpu(0, 0, 1.5, window=Window(5, 15)),)
    assert second.mechanisms == (WeakGpu(0, 0, 1.5, window=Window(-5, 5)),)
    assert third.mechanisms == ()
    assert [first.seed, second.seed, third.seed] == [100, 101, 102]
    more = job.day(2, 102, identity, (SickHost("a", 1.2),))
    assert more.mechanisms == (SickHost("a", 1.2),)


def test_only_ranks_that_another_can_stand_for_are_lost(sampled: list[SampledJob]) -> None:
    losing = next(job for job in sampled if job.lost_ranks)
    recorded, _ = run_sampled(losing.plan, losing.lost_ranks)
    rows = recorded.rank_steps.select(["rank", "dp_rank", "pp_rank"]).to_pylist()
    assert not {row["rank"] for row in rows} & set(losing.lost_ranks)
    workers = {(row["dp_rank"], row["pp_rank"]) for row in rows}
    assert len(workers) == losing.plan.shape.dp_size * losing.plan.shape.pp_size
