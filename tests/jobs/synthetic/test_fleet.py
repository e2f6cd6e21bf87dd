"""Test plans of generated fleets: days and hosts of jobs, sick hosts, and each job's status."""

from collections import Counter, defaultdict
from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise

import pytest

from jobs.synthetic import paper
from jobs.synthetic.fleet import SHIFTS, Fleet, FleetJob, SickSpell
from jobs.synthetic.mechanisms.mechanism import Window
from jobs.synthetic.mechanisms.workers import SickHost
from jobs.synthetic.plan_fleet import plan_fleet, plan_history, recorded_ops
from jobs.synthetic.shape import GPUS_PER_HOST, JobShape
from jobs.synthetic.simulation import JobPlan
from schemas.vocabulary import Status
from udfs.errors import TraceError
from udfs.what_if import SimulationSettings, simulate_job

FIRST = date(2026, 1, 5)
JOBS, DAYS, OPS = 80, 30, 2_500_000
UNDIAGNOSED = SimulationSettings(diagnosed=False)


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return plan_fleet(60, 4, seed=2, first_day=FIRST)


@pytest.fixture(scope="module")
def history() -> Fleet:
    return plan_history(JOBS, DAYS, seed=1, first_day=FIRST, ops=OPS)


@pytest.fixture(scope="module")
def papers() -> Fleet:
    return plan_history(paper.JOBS, paper.DAYS, seed=0, first_day=FIRST, ops=300_000_000)


def status_of(history: Fleet, job: FleetJob) -> str:
    """Return the status that the simulator gives the first day of a job."""
    unit, _ = history.recorded(job, job.days.start)
    manifest = None if job.status == Status.NO_MANIFEST else unit.manifest
    try:
        results = simulate_job(unit.rank_steps, manifest, UNDIAGNOSED)
    except TraceError:
        return Status.CORRUPT_TRACE
    return str(results["job_slowdown"]["status"][0])


def test_same_seed_same_plan(fleet: Fleet, history: Fleet) -> None:
    assert plan_fleet(60, 4, 2, FIRST) == fleet
    assert plan_fleet(60, 4, 3, FIRST) != fleet
    assert plan_history(JOBS, DAYS, 1, FIRST, OPS) == history
    assert plan_history(JOBS, DAYS, 2, FIRST, OPS) != history


@pytest.mark.parametrize("name", ["fleet", "papers"])
def test_a_host_serves_one_job_at_a_time_and_comes_back(name: str, request: pytest.FixtureRequest) -> None:
    jobs = request.getfixturevalue(name).jobs
    serves = defaultdict(list)
    for job in jobs:
        assert len(set(job.hosts)) == -(-job.shape.world_size // GPUS_PER_HOST)
        for host in job.hosts:
            serves[host].append((job.first, job.end))
    for spans in serves.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert sum(len(spans) > 1 for spans in serves.values()) > len(serves) / 4


def test_units_are_the_days_of_the_jobs(fleet: Fleet) -> None:
    assert {day for _, day in fleet.units} == set(range(4))
    for job in fleet.jobs:
        identities = [fleet.identity(other, day) for other, day in fleet.units if other is job]
        assert len(identities) == len(job.days) == len({identity.first_step for identity in identities})
        hours = sum(identity.fields["gpu_hours"] for identity in identities)
        assert hours == job.shape.world_size * 24.0 / SHIFTS * (job.end - job.first)


def test_a_sick_host_is_sick_in_all_that_it_serves_meanwhile(fleet: Fleet) -> None:
    assert len(fleet.spells) >= 5
    for spell in fleet.spells:
        served = {
            job.job_id
            for job in fleet.jobs
            if spell.host in job.hosts and job.first < spell.end and spell.first < job.end
        }
        struck = {
            job.job_id
            for job, day in fleet.units
            if any(sick.host == spell.host for sick in fleet.sick(job, day))
        }
        assert struck == served != set()


def test_a_spell_is_cut_to_the_shifts_of_a_job() -> None:
    job = FleetJob("job", 2, 6, JobPlan(JobShape(steps=20)), hosts=["a"])  # two shifts a day: on days 1 and 2
    spell = SickSpell("a", 1.3, first=3, end=5)
    assert spell.in_job(job, 1) == SickHost("a", 1.3, window=Window(10, 20))
    assert spell.in_job(job, 2) == SickHost("a", 1.3, window=Window(0, 10))
    assert SickSpell("a", 1.3, 0, 2).in_job(job, 1) is None
    assert SickSpell("b", 1.3, 0, 9).in_job(job, 1) is None
    short = replace(job, first=3, end=4)
    assert spell.in_job(short, 1) == SickHost("a", 1.3, window=Window(0, 20))


def test_every_job_meets_the_fate_that_was_planned(history: Fleet) -> None:
    fates = {job.job_id: (job.status, status_of(history, job)) for job in history.jobs}
    assert {name: both for name, both in fates.items() if both[0] != both[1]} == {}
    frequent = {status for status, share in paper.STATUS_SHARES.items() if share > 1 / JOBS}
    assert {planned for planned, _ in fates.values()} >= frequent


def test_as_many_ops_as_asked_for(papers: Fleet, history: Fleet) -> None:
    assert sum(map(recorded_ops, papers.jobs)) == pytest.approx(300_000_000, rel=0.02)
    whole = next(job for job in history.jobs if job.status == Status.ANALYSED and len(job.days) == 2)
    assert sum(history.recorded(whole, day)[0].ops for day in whole.days) == recorded_ops(whole)
    with pytest.raises(ValueError, match="more than the 1,000 requested"):
        plan_history(5, 2, 0, FIRST, 1000)


def test_sizes_fates_and_days_are_the_papers(papers: Fleet) -> None:
    jobs = papers.jobs
    assert (len(jobs), len({day for _, day in papers.units})) == (3079, 150)
    sizes = [job.shape.world_size for job in jobs]
    assert min(sizes) == 128
    assert sum(size >= 256 for size in sizes) / len(jobs) == pytest.approx(0.317, abs=0.03)
    assert sum(size >= 5000 for size in sizes) / len(jobs) == pytest.approx(0.036, abs=0.015)
    fates = Counter(job.status for job in jobs)
    for status, share in paper.STATUS_SHARES.items():
        assert fates[status] / len(jobs) == pytest.approx(share, abs=0.03), status
    assert sum(len(job.days) == 1 for job in jobs) / len(jobs) == pytest.approx(0.7, abs=0.03)
    lengths = [spell.end - spell.first for spell in papers.spells]
    assert min(lengths) < 3 * SHIFTS
    assert max(lengths) >= 14 * SHIFTS


def test_one_team_balances_its_sequences_from_one_day_on(papers: Fleet) -> None:
    job = next(
        job
        for job in papers.jobs
        if job.fields["team"] == paper.FIXED_TEAM
        and "data_imbalance" in job.plan.causes
        and job.status == Status.ANALYSED
        and len(job.days) > 1
    )
    day = job.days[1]
    before, after = (replace(papers, fix_day=fixed_on).recorded(job, day)[0] for fixed_on in (day + 1, day))
    assert before.manifest["labels"] == {paper.FIX_LABEL: "off"}
    assert after.manifest["labels"] == {paper.FIX_LABEL: "on"}
    slow, fast = (
        simulate_job(unit.rank_steps, unit.manifest, UNDIAGNOSED)["job_slowdown"] for unit in (before, after)
    )
    assert slow["slowdown"][0].as_py() > fast["slowdown"][0].as_py()  # the two differ only in balancing


def test_a_line_lies_under_the_day_of_its_time(history: Fleet) -> None:
    job = next(job for job in history.jobs if len(job.days) > 1)
    for day in job.days:
        zeros = history.recorded(job, day)[0].rank_steps["t0_us"].to_pylist()
        days = {FIRST + timedelta(days=(t0 // 1_000_000 - 1_767_571_200) // 86_400) for t0 in zeros}
        assert days == {FIRST + timedelta(days=day)}
