"""A fleet's plan: when jobs run, on which hosts, and which of those are sick."""

from collections import defaultdict
from datetime import date
from itertools import pairwise

import pytest

from jobs.synthetic.fleet import SHIFTS, Fleet, FleetJob, SickSpell, plan_fleet
from jobs.synthetic.identity import GPUS_PER_HOST
from jobs.synthetic.mechanisms.workers import SickHost
from jobs.synthetic.shape import JobShape
from jobs.synthetic.window import Window

FIRST = date(2026, 1, 5)
DAYS = 4


@pytest.fixture(scope="module")
def fleet() -> Fleet[FleetJob]:
    return plan_fleet(60, DAYS, seed=2, first_day=FIRST)


def test_same_seed_same_fleet(fleet: Fleet[FleetJob]) -> None:
    assert plan_fleet(60, DAYS, 2, FIRST) == fleet
    assert plan_fleet(60, DAYS, 3, FIRST) != fleet


def test_a_host_serves_one_job_at_a_time_and_comes_back(fleet: Fleet[FleetJob]) -> None:
    serves = defaultdict(list)
    for job in fleet.jobs:
        assert len(set(job.hosts)) == -(-job.shape.world_size // GPUS_PER_HOST)
        for host in job.hosts:
            serves[host].append((job.first, job.end, job.number))
    for spans in serves.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert sum(len(spans) > 1 for spans in serves.values()) > len(serves) / 4


def test_a_single_day_has_hosts_that_come_back_too() -> None:
    jobs = plan_fleet(60, 1, 2, FIRST).jobs
    hosts = [host for job in jobs for host in job.hosts]
    assert len(set(hosts)) < len(hosts)


def test_units_are_the_days_of_the_jobs(fleet: Fleet[FleetJob]) -> None:
    assert {day for _, day in fleet.units} == set(range(DAYS))
    for job in fleet.jobs:
        identities = [fleet.identity(other, day) for other, day in fleet.units if other is job]
        assert len(identities) == len(job.days)
        assert sum(identity.fields["gpu_hours"] for identity in identities) == (
            job.shape.world_size * 24.0 / SHIFTS * (job.end - job.first)
        )
        assert len({identity.first_step for identity in identities}) == len(identities)


def test_a_sick_host_is_sick_in_all_that_it_serves_meanwhile(fleet: Fleet[FleetJob]) -> None:
    assert len(fleet.spells) >= 5
    for spell in fleet.spells:
        served = [
            job
            for job in fleet.jobs
            if spell.host in job.hosts and job.first < spell.end and spell.first < job.end
        ]
        assert served
        ill = {
            job.job_id
            for job, day in fleet.units
            if any(sick.host == spell.host for sick in fleet.sick(job, day))
        }
        assert ill == {job.job_id for job in served}


def test_a_spell_is_cut_to_the_shifts_of_a_job() -> None:
    job = FleetJob(0, 1, JobShape(steps=20), first=2, end=6, hosts=["a"])  # on days 1 and 2
    spell = SickSpell("a", 1.3, first=3, end=5)
    assert spell.in_job(job, 1) == SickHost("a", 1.3, window=Window(10, 20))
    assert spell.in_job(job, 2) == SickHost("a", 1.3, window=Window(0, 10))
    assert SickSpell("a", 1.3, 0, 2).in_job(job, 1) is None
    assert SickSpell("b", 1.3, 0, 9).in_job(job, 1) is None
    short = FleetJob(0, 1, JobShape(steps=20), first=3, end=4, hosts=["a"])
    assert spell.in_job(short, 1) == SickHost("a", 1.3, window=Window(0, 20))
