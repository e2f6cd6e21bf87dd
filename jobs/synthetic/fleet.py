"""A fleet over days: sampled jobs on hosts from one pool, some of which are sick for a while."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import numpy as np

from jobs.synthetic.identity import GPUS_PER_HOST, JobIdentity
from jobs.synthetic.job import step_numbers
from jobs.synthetic.mechanisms.workers import SickHost
from jobs.synthetic.rank_log_files import run_folder, write_rank_logs
from jobs.synthetic.sample_job import SEEDS, run_sampled, sample_job
from jobs.synthetic.sample_layout import child_rng, log_uniform, sample_shape
from jobs.synthetic.shape import JobShape
from jobs.synthetic.truth import true_savings
from jobs.synthetic.window import Window

TRUTH: Final = "_truth"
"""Folder in the landing for what the generator knows; the ingest reads `log_date=` folders alone."""
SHIFTS: Final = 2
"""Hosts are given to jobs for half days, called shifts: they begin at 0:00 and 12:00 UTC."""
SHIFT_HOURS: Final = 12
RECORDED: Final = 0.98
"""Part of a job's shifts over which its recorded bursts are spread."""
SHORT_JOBS: Final = 0.4
"""Share of jobs that run for one shift; the others take whole days, one to all."""
SPELLS_PER_JOB: Final = 0.1
TEAMS: Final = ("foundation", "research", "speech", "vision", "ranking")
STEPS_PER_DAY: Final = 10_000
"""By how many the step numbers of a job rise from day to day."""


@dataclass
class FleetJob:
    """One job of the fleet: shifts [first, end), counted from the fleet's first, and its hosts."""

    number: int
    seed: int
    shape: JobShape
    first: int
    end: int
    hosts: list[str] = field(default_factory=list)

    @property
    def job_id(self) -> str:
        """Number of the job, as text."""
        return f"job-{self.number:05d}"

    @property
    def days(self) -> range:
        """The fleet's days on which it runs, counted from 0."""
        return range(self.first // SHIFTS, (self.end - 1) // SHIFTS + 1)

    def shifts_of(self, day: int) -> range:
        """Shifts of a day in which it runs."""
        return range(max(self.first, day * SHIFTS), min(self.end, (day + 1) * SHIFTS))


Job = TypeVar("Job", bound=FleetJob)


@dataclass(frozen=True)
class SickSpell:
    """A host whose GPUs are all slow, in shifts [first, end), whatever it serves."""

    host: str
    factor: float
    first: int
    end: int

    def in_job(self, job: FleetJob, day: int) -> SickHost | None:
        """The spell in the recorded steps of a day, spread over the job's shifts; None: it is not there."""
        shifts, steps = job.shifts_of(day), job.shape.steps
        first, end = max(self.first, shifts.start), min(self.end, shifts.stop)
        if self.host not in job.hosts or first >= end:
            return None
        begins, ends = ((shift - shifts.start) * steps // len(shifts) for shift in (first, end))
        return SickHost(self.host, self.factor, window=Window(begins, ends))


@dataclass(frozen=True)
class Fleet(Generic[Job]):
    """Jobs as sample_job draws them, placed in time and on hosts, and the spells of sick hosts.

    most_ops : about so many ops of a job are recorded on a day, at most
    """

    jobs: Sequence[Job]
    spells: Sequence[SickSpell]
    first_day: date
    most_ops: int = 150_000

    @property
    def units(self) -> list[tuple[Job, int]]:
        """Each job on each of its days, by day."""
        last = max(job.days.stop for job in self.jobs)
        return [(job, day) for day in range(last) for job in self.jobs if day in job.days]

    def log_date(self, day: int) -> date:
        """Log date of a day that is counted from 0."""
        return self.first_day + timedelta(days=day)

    def sick(self, job: Job, day: int) -> list[SickHost]:
        """Spells that strike a job on a day."""
        return [sick for spell in self.spells if (sick := spell.in_job(job, day)) is not None]

    def identity(self, job: Job, day: int) -> JobIdentity:
        """Who and where a job is on a day, and when it records."""
        shifts = job.shifts_of(day)
        hours = SHIFT_HOURS * len(shifts)
        return JobIdentity(
            job_id=job.job_id,
            run_id="r1",
            first_step=STEPS_PER_DAY * (day - job.days.start),
            first_t0_us=int(self.time_of(shifts.start).timestamp()) * 1_000_000,
            hosts=tuple(job.hosts),
            recorded_s=RECORDED * hours * 3600,
            fields={**self.fields(job, day), "gpu_hours": float(job.shape.world_size * hours)},
        )

    def time_of(self, shift: int) -> datetime:
        """When a shift begins."""
        midnight = datetime.combine(self.first_day, datetime.min.time(), UTC)
        return midnight + timedelta(hours=SHIFT_HOURS * shift)

    def fields(self, job: Job, day: int) -> dict[str, Any]:
        """Further fields of a job's manifest on a day."""
        del day
        return {"cluster": "synthetic", "team": TEAMS[job.number % len(TEAMS)]}

    def write_plan(self, folder: Path) -> None:
        """Write which hosts are sick and when, beside the truth of single units."""
        spells = [asdict(spell) for spell in self.spells]
        (folder / "hosts.json").write_text(json.dumps(spells, allow_nan=False) + "\n")

    def write_unit(self, landing: Path, job: Job, day: int) -> int:
        """Generate one job on one day: its logs, its manifest and its truth. Returns its recorded ops."""
        identity = self.identity(job, day)
        sampled = sample_job(job.seed, days=len(job.days), hosts=job.hosts, most_ops=self.most_ops)
        plan = sampled.day(day - job.days.start, identity, self.sick(job, day))
        recorded, simulation = run_sampled(plan, sampled.lost_ranks)
        write_rank_logs(landing, self.log_date(day), recorded)
        sizes = ("dp_size", "pp_size", "vpp_size", "steps", "microbatches")
        record: dict[str, Any] = {
            "log_date": self.log_date(day).isoformat(),
            "job_id": identity.job_id,
            "run_id": identity.run_id,
            "kind": sampled.kind,
            **{name: getattr(plan.shape, name) for name in sizes},
            "noise": plan.workload.noise,
            "lost_ranks": list(sampled.lost_ranks),
            **asdict(true_savings(simulation, step_numbers(plan))),
        }
        folder = run_folder(landing / TRUTH, self.log_date(day), identity.job_id, identity.run_id)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "truth.json").write_text(json.dumps(record, allow_nan=False) + "\n")
        return recorded.ops


def plan_fleet(jobs: int, days: int, seed: int, first_day: date, most_ops: int = 150_000) -> Fleet[FleetJob]:
    """Draw a fleet: jobs as sample_job draws them, when they run, and on which hosts.

    A job takes hosts that are free; only where there are not enough come new ones, so that hosts serve job
    after job. One host per ten jobs gets sick, 3 to 60 % slower, for at least one shift.
    """
    planned = [_job(number, days, seed, most_ops) for number in range(jobs)]
    give_hosts(planned, child_rng(seed, "hosts"))
    spells = _spells(planned, days * SHIFTS, child_rng(seed, "spells"))
    return Fleet(planned, spells, first_day, most_ops)


def _job(number: int, days: int, seed: int, most_ops: int) -> FleetJob:
    rng = child_rng(seed, f"job {number}")
    job_seed = int(rng.integers(SEEDS))
    shape = sample_shape(job_seed, most_ops)
    if rng.random() < SHORT_JOBS:
        first = int(rng.integers(days * SHIFTS))
        return FleetJob(number, job_seed, shape, first, first + 1)
    length = int(rng.integers(1, days + 1))
    first_day = int(rng.integers(days - length + 1))
    return FleetJob(number, job_seed, shape, first_day * SHIFTS, (first_day + length) * SHIFTS)


def give_hosts(jobs: Sequence[FleetJob], rng: np.random.Generator) -> None:
    """Give every job hosts, in the order in which they start; hosts of ended jobs are free again."""
    free: list[str] = []
    known = 0
    running: list[FleetJob] = []
    for job in sorted(jobs, key=lambda job: (job.first, job.number)):
        for ended in [other for other in running if other.end <= job.first]:
            running.remove(ended)
            free += ended.hosts
        needed = -(-job.shape.world_size // GPUS_PER_HOST)
        while len(free) < needed:
            free.append(f"node-{known:04d}")
            known += 1
        chosen = sorted(rng.choice(len(free), needed, replace=False).tolist(), reverse=True)
        job.hosts = sorted(free.pop(place) for place in chosen)
        running.append(job)


def _spells(jobs: Sequence[FleetJob], shifts: int, rng: np.random.Generator) -> list[SickSpell]:
    """Draw sick hosts, each of which serves some job while it is sick."""
    found: dict[str, SickSpell] = {}
    for _ in range(round(SPELLS_PER_JOB * len(jobs))):
        job = jobs[int(rng.integers(len(jobs)))]
        host = str(rng.choice(job.hosts))
        first = max(job.first - int(rng.integers(SHIFTS)), 0)
        length = int(rng.integers(SHIFTS, max(shifts, SHIFTS) + 1))
        factor = 1 + log_uniform(rng, 0.03, 0.6)
        found.setdefault(host, SickSpell(host, factor, first, min(first + length, shifts)))
    return sorted(found.values(), key=lambda spell: spell.host)
