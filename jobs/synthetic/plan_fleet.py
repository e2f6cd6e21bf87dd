"""Random fleets: draws when jobs run, on which hosts, and which hosts are sick."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import lru_cache
from typing import Final

import numpy as np

from jobs.synthetic import paper
from jobs.synthetic.fleet import SHIFTS, Fleet, FleetJob, SickSpell
from jobs.synthetic.program import build_program
from jobs.synthetic.sample_faults import log_uniform
from jobs.synthetic.sample_job import MOST_OPS, SEEDS, sample_job
from jobs.synthetic.shape import JobShape
from jobs.synthetic.simulation import child_rng
from schemas.vocabulary import Status

SPELLS_PER_JOB: Final = 0.1
"""Sick hosts per job of a fleet; for some of them no recorded step lies in the spell."""
SPREAD: Final = 0.5
"""Standard deviation of the log of a job's ops per day in a history."""
ROUNDS: Final = 3
"""Passes that rescale the ops of all jobs: rounding to whole steps and microbatches changes their sum."""
CHRONIC_SHIFTS: Final = (14 * SHIFTS, 60 * SHIFTS)
PASSING_SHIFTS: Final = (1, 3 * SHIFTS)


def plan_fleet(jobs: int, days: int, seed: int, first_day: date, most_ops: int = MOST_OPS) -> Fleet:
    """Draw a fleet of jobs from sample_job, for which write_fleet also writes true savings.

    most_ops : approximate limit of the recorded ops of a job on a day
    """
    drawn = []
    for number in range(jobs):
        job_seed, first, end = _span(number, days, seed)
        length = (end - 1) // SHIFTS - first // SHIFTS + 1
        plan = sample_job(job_seed, days=length, has_own_hosts=False, most_ops=most_ops)
        fields = paper.draw_fields(child_rng(job_seed, "fields"), plan.shape, Status.ANALYSED)
        drawn.append(FleetJob(_name(number), first, end, plan, fields))
    return replace(_placed(drawn, days, seed, SPELLS_PER_JOB), first_day=first_day, has_truth=True)


def plan_history(jobs: int, days: int, seed: int, first_day: date, ops: int) -> Fleet:
    """Draw a fleet with sizes and faults distributed as in the paper, and about `ops` recorded ops in total.

    Raises ValueError if `ops` is too small for all units: each records at least ten steps of every worker.
    """
    drawn = []
    for number in range(jobs):
        job_seed, first, end = _span(number, days, seed)
        plan, fields, status = paper.draw_like_the_papers(job_seed)
        drawn.append(FleetJob(_name(number), first, end, plan, fields, status=status))
    fleet = _placed(_with_ops(drawn, ops), days, seed, paper.SPELLS_PER_JOB)
    return replace(fleet, first_day=first_day)


def recorded_ops(job: FleetJob) -> int:
    """Return the approximate number of ops in a job's logs over all its days, lost logs included."""
    if job.status == Status.NO_OPS:
        return 0
    shape = job.shape
    return len(job.days) * shape.steps * shape.dp_size * _program_ops(replace(shape, dp_size=2, steps=1))


@lru_cache(maxsize=4096)
def _program_ops(shape: JobShape) -> int:
    """Return the number of ops of one replica in one step, unrecorded types included."""
    return len(build_program(shape))


def _name(number: int) -> str:
    return f"job-{number:05d}"


def _span(number: int, days: int, seed: int) -> tuple[int, int, int]:
    """Draw a job; return its seed, first shift and end shift. A job of one day may run for one shift only."""
    rng = child_rng(seed, f"history job {number}")
    job_seed = int(rng.integers(SEEDS))
    if rng.random() < paper.ONE_DAY:
        first = int(rng.integers(days * SHIFTS))
        whole = first % SHIFTS == 0 and rng.random() < 0.5
        return job_seed, first, first + (SHIFTS if whole else 1)
    length = min(1 + int(rng.geometric(1 / paper.MEAN_FURTHER_DAYS)), paper.MOST_DAYS, days)
    first_day = int(rng.integers(days - length + 1))
    return job_seed, first_day * SHIFTS, (first_day + length) * SHIFTS


def _placed(jobs: Sequence[FleetJob], days: int, seed: int, spells_per_job: float) -> Fleet:
    """Return a fleet of these jobs on random hosts, with sick spells and the day of the team's fix."""
    on_hosts = _with_hosts(jobs, child_rng(seed, "history hosts"))
    spells = _spells(on_hosts, days * SHIFTS, spells_per_job, child_rng(seed, "history spells"))
    return Fleet(on_hosts, spells, fix_day=round(paper.FIX_AT * days))


def _with_hosts(jobs: Sequence[FleetJob], rng: np.random.Generator) -> list[FleetJob]:
    """Return the jobs with hosts, drawn in order of their starts; hosts of ended jobs are used again."""
    free: list[str] = []
    known = 0
    running: list[FleetJob] = []
    hosts: dict[str, FleetJob] = {}
    for job in sorted(jobs, key=lambda job: (job.first, job.job_id)):
        for ended in [other for other in running if other.end <= job.first]:
            running.remove(ended)
            free += ended.hosts
        needed = job.shape.hosts
        while len(free) < needed:
            free.append(f"node-{known:04d}")
            known += 1
        chosen = sorted(rng.choice(len(free), needed, replace=False).tolist(), reverse=True)
        hosts[job.job_id] = replace(job, hosts=sorted(free.pop(place) for place in chosen))
        running.append(hosts[job.job_id])
    return [hosts[job.job_id] for job in jobs]


def _spells(
    jobs: Sequence[FleetJob], shifts: int, per_job: float, rng: np.random.Generator
) -> list[SickSpell]:
    """Draw sick hosts: a few are slow by 15 to 50 % for weeks, most by 20 to 150 % for hours or days."""
    found: dict[str, SickSpell] = {}
    for _ in range(max(round(per_job * len(jobs)), 1)):
        job = jobs[int(rng.integers(len(jobs)))]
        is_chronic = rng.random() < paper.CHRONIC
        low, high = CHRONIC_SHIFTS if is_chronic else PASSING_SHIFTS
        length = int(log_uniform(rng, low, high + 1))
        factor = 1 + (log_uniform(rng, 0.15, 0.5) if is_chronic else log_uniform(rng, 0.2, 1.5))
        host = str(rng.choice(list(job.hosts)))
        found.setdefault(host, SickSpell(host, factor, job.first, min(job.first + length, shifts)))
    return sorted(found.values(), key=lambda spell: spell.host)


def _with_ops(jobs: Sequence[FleetJob], ops: int) -> list[FleetJob]:
    """Return the jobs with steps and microbatches such that all of them record about `ops` ops in total."""
    units = sum(len(job.days) for job in jobs)
    normal = [child_rng(job.plan.seed, "ops").standard_normal() for job in jobs]
    weights = np.exp(SPREAD * np.array(normal) - SPREAD**2 / 2)
    asked, sized = ops / units, list(jobs)
    for _ in range(ROUNDS):
        sized = [_sized(job, float(asked * weight)) for job, weight in zip(jobs, weights, strict=True)]
        asked *= ops / max(sum(map(recorded_ops, sized)), 1)
    found = sum(map(recorded_ops, sized))
    if found > 1.25 * ops:
        raise ValueError(f"{units:,} units record at least {found:,} ops, more than the {ops:,} requested")
    return sized


def _sized(job: FleetJob, ops: float) -> FleetJob:
    shape = paper.shape_of_ops(job.shape, ops, job.plan.seed)
    if job.status == Status.TOO_FEW_STEPS:
        shape = replace(shape, steps=job.shape.steps)
    return replace(job, plan=replace(job.plan, shape=shape))
