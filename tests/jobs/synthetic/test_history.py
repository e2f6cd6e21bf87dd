"""A history: as large as asked for, drawn like the paper's, and every job meets the fate that was planned."""

from collections import Counter
from dataclasses import replace
from datetime import date, timedelta
from itertools import pairwise

import pytest

from jobs.synthetic import paper
from jobs.synthetic.history import History, plan_history
from jobs.synthetic.history_job import HistoryJob
from schemas.vocabulary import STATUS_CORRUPT_TRACE, STATUS_NO_MANIFEST
from udfs.errors import TraceError
from udfs.what_if import SimulationSettings, simulate_job

FIRST = date(2026, 1, 5)
JOBS, DAYS, OPS = 80, 30, 2_500_000


@pytest.fixture(scope="module")
def history() -> History:
    return plan_history(JOBS, DAYS, seed=1, first_day=FIRST, ops=OPS)


@pytest.fixture(scope="module")
def papers() -> History:
    return plan_history(paper.JOBS, paper.DAYS, seed=0, first_day=FIRST, ops=300_000_000)


def status_of(history: History, job: HistoryJob) -> str:
    """What the simulation says of the job's first day."""
    unit = history.recorded(job, job.days.start)
    manifest = None if job.status == STATUS_NO_MANIFEST else unit.manifest
    try:
        results = simulate_job(unit.rank_steps, manifest, SimulationSettings(diagnosed=False))
    except TraceError:
        return STATUS_CORRUPT_TRACE
    return str(results["job_slowdown"]["status"][0])


def test_same_seed_same_history(history: History) -> None:
    assert plan_history(JOBS, DAYS, 1, FIRST, OPS) == history
    assert plan_history(JOBS, DAYS, 2, FIRST, OPS) != history


def test_every_job_meets_the_fate_that_was_planned(history: History) -> None:
    fates = {job.job_id: (job.status, status_of(history, job)) for job in history.jobs}
    assert {name: both for name, both in fates.items() if both[0] != both[1]} == {}
    frequent = {status for status, share in paper.STATUS_SHARES.items() if share > 1 / JOBS}
    assert {planned for planned, _ in fates.values()} >= frequent


def test_as_many_ops_as_asked_for(papers: History, history: History) -> None:
    assert papers.ops == pytest.approx(300_000_000, rel=0.02)
    whole = next(job for job in history.jobs if job.status == "analysed" and len(job.days) == 2)
    alone = plan_history(1, 1, 5, FIRST, 100_000)
    recorded = alone.recorded(alone.jobs[0], alone.jobs[0].days.start).ops
    assert recorded == alone.ops
    assert history.recorded(whole, whole.days[0]).ops == history.recorded(whole, whole.days[1]).ops


def test_too_few_ops_are_refused() -> None:
    with pytest.raises(ValueError, match="more than the 1,000 asked for"):
        plan_history(5, 2, 0, FIRST, 1000)


def test_sizes_fates_and_days_are_the_papers(papers: History) -> None:
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


def test_hosts_serve_one_job_at_a_time_and_some_are_sick_for_weeks(papers: History) -> None:
    busy: dict[str, list[tuple[int, int]]] = {}
    for job in papers.jobs:
        for host in job.hosts:
            busy.setdefault(host, []).append((job.first, job.end))
    for spans in busy.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    lengths = [spell.end - spell.first for spell in papers.spells]
    assert min(lengths) < 6
    assert max(lengths) >= 28
    assert {spell.host for spell in papers.spells} <= busy.keys()


def test_one_team_balances_its_sequences_from_one_day_on(papers: History) -> None:
    job = next(
        job
        for job in papers.jobs
        if job.fields["team"] == paper.FIXED_TEAM
        and "data_imbalance" in job.causes
        and job.status == "analysed"
        and len(job.days) > 1
    )
    day = job.days[1]
    before, after = (replace(papers, fix_day=fixed_on).recorded(job, day) for fixed_on in (day + 1, day))
    assert before.manifest["labels"] == {paper.FIX_LABEL: "off"}
    assert after.manifest["labels"] == {paper.FIX_LABEL: "on"}
    slow, fast = (
        simulate_job(unit.rank_steps, unit.manifest, SimulationSettings(diagnosed=False))["job_slowdown"]
        for unit in (before, after)
    )
    assert slow["slowdown"][0].as_py() > fast["slowdown"][0].as_py()  # the very same day otherwise


def test_a_line_lies_under_the_day_of_its_time(history: History) -> None:
    job = next(job for job in history.jobs if len(job.days) > 1)
    for day in job.days:
        zeros = history.recorded(job, day).rank_steps["t0_us"].to_pylist()
        days = {FIRST + timedelta(days=(t0 // 1_000_000 - 1_767_571_200) // 86_400) for t0 in zeros}
        assert days == {FIRST + timedelta(days=day)}
