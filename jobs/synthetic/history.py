"""Months of a fleet, drawn like the paper's: jobs with their days, hosts, faults and fates."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from jobs.synthetic.fleet import SHIFTS, Fleet, FleetJob, SickSpell, give_hosts
from jobs.synthetic.history_job import HistoryJob, history_job
from jobs.synthetic.history_layout import sample_history_shape, shape_of_ops
from jobs.synthetic.job import GeneratedJob, recorded_job
from jobs.synthetic.mechanisms.data import PackedSequences
from jobs.synthetic.paper import (
    CHRONIC,
    FIX_AT,
    FIX_LABEL,
    FIXED_TEAM,
    MEAN_FURTHER_DAYS,
    MOST_DAYS,
    ONE_DAY,
    SPELLS_PER_JOB,
)
from jobs.synthetic.program import build_program
from jobs.synthetic.rank_log_files import write_rank_logs
from jobs.synthetic.sample_job import SEEDS
from jobs.synthetic.sample_layout import child_rng, log_uniform
from jobs.synthetic.shape import JobShape
from jobs.synthetic.simulation import JobPlan, Simulation
from schemas.vocabulary import STATUS_NO_MANIFEST, STATUS_NO_OPS, STATUS_TOO_FEW_STEPS

HISTORY_FILE: Final = "history.jsonl"
SPREAD: Final = 0.5
"""Standard deviation of the log of a unit's ops."""
ROUNDS: Final = 3
"""Corrections of the ops asked of each job: whole steps and microbatches do not add up at once."""
CHRONIC_SHIFTS: Final = (14 * SHIFTS, 60 * SHIFTS)
PASSING_SHIFTS: Final = (1, 3 * SHIFTS)


@dataclass(frozen=True)
class History(Fleet[HistoryJob]):
    """Jobs that meet their fates; of its truth it knows what was planned, not what each cause really costs.

    fix_day : from this day on, counted from 0, one team balances its sequences
    ops     : recorded ops over all units, nearly: some statuses leave logs out
    """

    fix_day: int = field(kw_only=True)
    ops: int = field(kw_only=True)

    def fields(self, job: HistoryJob, day: int) -> dict[str, Any]:
        """Further fields of a job's manifest on a day."""
        is_last = day == job.days.stop - 1
        return {
            **job.fields,
            "started_at": self.time_of(job.first).isoformat(),
            "ended_at": self.time_of(job.end).isoformat() if is_last else None,
            "labels": {FIX_LABEL: "on" if self._is_fixed(job, day) else "off"},
        }

    def write_plan(self, folder: Path) -> None:
        """Write what was planned: a line for each job with its fate and causes, the fix, the sick hosts."""
        super().write_plan(folder)
        lines: list[dict[str, Any]] = [{"fix_day": str(self.log_date(self.fix_day)), "team": FIXED_TEAM}]
        lines += [
            {
                "job_id": job.job_id,
                "first_day": job.days.start,
                "days": len(job.days),
                "status": job.status,
                "causes": job.causes,
                "team": job.fields["team"],
                "world_size": job.shape.world_size,
                "hosts": job.hosts,
            }
            for job in self.jobs
        ]
        (folder / HISTORY_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))

    def recorded(self, job: HistoryJob, day: int) -> GeneratedJob:
        """One job on one day as it was recorded, whatever is left of it."""
        mechanisms = list(job.mechanisms)
        if self._is_fixed(job, day):  # a team that balances its sequences has even ones
            mechanisms = [
                each.without() if isinstance(each, PackedSequences) else each for each in mechanisms
            ]
        there = (*mechanisms, *self.sick(job, day))
        seed = int(child_rng(job.seed, f"day {day}").integers(SEEDS))
        plan = JobPlan(job.shape, there, seed, self.identity(job, day), job.workload)
        return job.left(recorded_job(Simulation(plan)))

    def write_unit(self, landing: Path, job: HistoryJob, day: int) -> int:
        """Generate one job on one day: its logs, as its fate leaves them. Returns its recorded ops."""
        unit = self.recorded(job, day)
        folder = write_rank_logs(landing, self.log_date(day), unit)
        if job.status == STATUS_NO_MANIFEST:
            (folder / "job.json").unlink()
        return unit.ops

    def _is_fixed(self, job: HistoryJob, day: int) -> bool:
        return day >= self.fix_day and job.fields["team"] == FIXED_TEAM


def plan_history(jobs: int, days: int, seed: int, first_day: date, ops: int) -> History:
    """Draw a history of so many jobs and about so many recorded ops.

    Raises ValueError where the ops are too few: every unit needs ten steps of each of its workers.
    """
    placed = [_placed(number, days, seed) for number in range(jobs)]
    drawn = _with_ops([history_job(job) for job in placed], ops)
    give_hosts(drawn, child_rng(seed, "history hosts"))
    spells = _spells(drawn, days * SHIFTS, child_rng(seed, "history spells"))
    return History(drawn, spells, first_day, fix_day=round(FIX_AT * days), ops=sum(map(_ops, drawn)))


def _placed(number: int, days: int, seed: int) -> FleetJob:
    """Draw when a job runs, and its sizes; a job of one day may take half of it."""
    rng = child_rng(seed, f"history job {number}")
    job_seed = int(rng.integers(SEEDS))
    shape = sample_history_shape(job_seed)
    if rng.random() < ONE_DAY:
        first = int(rng.integers(days * SHIFTS))
        whole = first % SHIFTS == 0 and rng.random() < 0.5
        return FleetJob(number, job_seed, shape, first, first + (SHIFTS if whole else 1))
    length = min(1 + int(rng.geometric(1 / MEAN_FURTHER_DAYS)), MOST_DAYS, days)
    first_day = int(rng.integers(days - length + 1))
    return FleetJob(number, job_seed, shape, first_day * SHIFTS, (first_day + length) * SHIFTS)


def _with_ops(jobs: Sequence[HistoryJob], ops: int) -> list[HistoryJob]:
    """Give every job steps and microbatches, so that all of them together record about `ops` ops."""
    units = sum(len(job.days) for job in jobs)
    weights = [
        float(np.exp(SPREAD * child_rng(job.seed, "ops").standard_normal() - SPREAD**2 / 2)) for job in jobs
    ]
    asked, sized = ops / units, list(jobs)
    for _ in range(ROUNDS):
        sized = [_sized(job, asked * weight) for job, weight in zip(jobs, weights, strict=True)]
        asked *= ops / max(sum(map(_ops, sized)), 1)
    found = sum(map(_ops, sized))
    if found > 1.25 * ops:
        raise ValueError(f"{units:,} units record at least {found:,} ops, more than the {ops:,} asked for")
    return sized


def _sized(job: HistoryJob, ops: float) -> HistoryJob:
    shape = shape_of_ops(job.shape, ops, job.seed)
    if job.status == STATUS_TOO_FEW_STEPS:
        shape = replace(shape, steps=job.shape.steps)
    return replace(job, shape=shape)


def _ops(job: HistoryJob) -> int:
    """Ops that a job records over all its days."""
    if job.status == STATUS_NO_OPS:
        return 0
    shape = job.shape
    return len(job.days) * shape.steps * shape.dp_size * _program_ops(replace(shape, dp_size=2, steps=1))


@lru_cache(maxsize=4096)
def _program_ops(shape: JobShape) -> int:
    """Ops of one replica in one step."""
    return len(build_program(shape))


def _spells(jobs: Sequence[FleetJob], shifts: int, rng: np.random.Generator) -> list[SickSpell]:
    """Draw sick hosts: a few for weeks and not very, most for hours or days and more."""
    found: dict[str, SickSpell] = {}
    for _ in range(max(round(SPELLS_PER_JOB * len(jobs)), 1)):
        job = jobs[int(rng.integers(len(jobs)))]
        is_chronic = rng.random() < CHRONIC
        low, high = CHRONIC_SHIFTS if is_chronic else PASSING_SHIFTS
        length = int(log_uniform(rng, low, high + 1))
        factor = 1 + (log_uniform(rng, 0.15, 0.5) if is_chronic else log_uniform(rng, 0.2, 1.5))
        host = str(rng.choice(job.hosts))
        found.setdefault(host, SickSpell(host, factor, job.first, min(job.first + length, shifts)))
    return sorted(found.values(), key=lambda spell: spell.host)
