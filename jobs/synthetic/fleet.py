"""Fleets: generated jobs over several days, on hosts that may be slow for some time, written as a landing."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from jobs.emitter.rank_log_writer import finish_day
from jobs.runtime.progress import spread
from jobs.synthetic.job import GeneratedJob, recorded_job
from jobs.synthetic.log_files import run_folder, write_inspector_logs, write_rank_logs
from jobs.synthetic.mechanisms.mechanism import Window
from jobs.synthetic.mechanisms.work import PackedSequences
from jobs.synthetic.mechanisms.workers import SickHost
from jobs.synthetic.paper import FIX_LABEL, FIXED_TEAM
from jobs.synthetic.run_events import Part, RunCourse, RunHabits, run_through, write_events
from jobs.synthetic.shape import JobIdentity, JobShape
from jobs.synthetic.simulation import JobPlan, Simulation, true_savings
from schemas.vocabulary import Status

FIRST_DAY: Final = date(2026, 1, 5)
TRUTH: Final = "_truth"
"""Folder in the landing for the planted faults and true savings; ingest reads only `log_date=` folders."""
SHIFTS: Final = 2
"""Jobs run in half days, called shifts: they begin at 0:00 and 12:00 UTC."""
SHIFT_HOURS: Final = 12
RECORDED: Final = 0.98
"""The recorded bursts of a job are spread over this part of its shifts on a day."""
STEPS_PER_DAY: Final = 10_000
"""Difference between the numbers of a job's first steps on successive days."""
SEEDS_PER_JOB: Final = 100
"""The seed of a job on a day is the job's seed times this plus the number of the day."""
SIZES: Final = ("dp_size", "pp_size", "vpp_size", "steps", "microbatches")


@dataclass(frozen=True)
class FleetJob:
    """A job of the fleet over all of its days.

    first, end : the job runs in shifts [first, end), counted from the start of the fleet
    plan       : its layout, times and mechanisms; plan.shape.steps are recorded per day, and windows of
                 mechanisms count the recorded steps of all days
    fields     : further fields of its manifest
    status     : status that its units should get; logs are made to fit
    inspected  : whether logs of NCCL Inspector are written beside its rank logs
    habits     : how it starts, saves and fails; None: no events.jsonl is written
    """

    job_id: str
    first: int
    end: int
    plan: JobPlan
    fields: Mapping[str, Any] = field(default_factory=dict)
    hosts: Sequence[str] = ()
    status: str = Status.ANALYSED
    compress: bool = False
    inspected: bool = False
    habits: RunHabits | None = None

    @property
    def shape(self) -> JobShape:
        """Return the layout of the job."""
        return self.plan.shape

    @property
    def days(self) -> range:
        """Return the numbers of the days on which the job runs; the fleet's first day is 0."""
        return range(self.first // SHIFTS, (self.end - 1) // SHIFTS + 1)

    def shifts_of(self, day: int) -> range:
        """Return the shifts of a day in which the job runs."""
        return range(max(self.first, day * SHIFTS), min(self.end, (day + 1) * SHIFTS))


@dataclass(frozen=True)
class SickSpell:
    """Period in which all GPUs of a host are slow, whatever job they serve: shifts [first, end)."""

    host: str
    factor: float
    first: int
    end: int

    def in_job(self, job: FleetJob, day: int) -> SickHost | None:
        """Return this spell as a fault of a job on a day; None if the job does not use the sick host then."""
        shifts, steps = job.shifts_of(day), job.shape.steps
        first, end = max(self.first, shifts.start), min(self.end, shifts.stop)
        if self.host not in job.hosts or first >= end:
            return None
        begins, ends = ((shift - shifts.start) * steps // len(shifts) for shift in (first, end))
        return SickHost(self.host, self.factor, window=Window(begins, ends))


@dataclass(frozen=True)
class Fleet:
    """Jobs placed in time and on hosts, and spells of sick hosts.

    fix_day   : from this day on, counted from 0, one team balances its sequences; None: no team does
    has_truth : whether to rerun each unit without each cause, and write what the cause really costs
    """

    jobs: Sequence[FleetJob]
    spells: Sequence[SickSpell] = ()
    first_day: date = FIRST_DAY
    fix_day: int | None = None
    has_truth: bool = False

    @property
    def units(self) -> list[tuple[FleetJob, int]]:
        """Return each job with each of its days, sorted by day."""
        last = max(job.days.stop for job in self.jobs)
        return [(job, day) for day in range(last) for job in self.jobs if day in job.days]

    def log_date(self, day: int) -> date:
        """Return the date of a day counted from 0."""
        return self.first_day + timedelta(days=day)

    def time_of(self, shift: int) -> datetime:
        """Return the time at which a shift starts."""
        midnight = datetime.combine(self.first_day, datetime.min.time(), UTC)
        return midnight + timedelta(hours=SHIFT_HOURS * shift)

    def sick(self, job: FleetJob, day: int) -> list[SickHost]:
        """Return the faults that spells of sick hosts cause in a job on a day."""
        return [sick for spell in self.spells if (sick := spell.in_job(job, day)) is not None]

    def identity(self, job: FleetJob, day: int) -> JobIdentity:
        """Return the identity of a job on a day: ids, hosts, times and manifest fields."""
        shifts = job.shifts_of(day)
        hours = SHIFT_HOURS * len(shifts)
        of_day: dict[str, Any] = {
            "started_at": self.time_of(job.first).isoformat(),
            "ended_at": self.time_of(job.end).isoformat() if day == job.days[-1] else None,
            "gpu_hours": float(job.shape.world_size * hours),
        }
        if self.fix_day is not None:
            of_day["labels"] = {FIX_LABEL: "on" if self._is_fixed(job, day) else "off"}
        return JobIdentity(
            job_id=job.job_id,
            run_id="r1",
            first_step=STEPS_PER_DAY * (day - job.days.start),
            first_t0_us=int(self.time_of(shifts.start).timestamp()) * 1_000_000,
            hosts=tuple(job.hosts),
            recorded_s=RECORDED * hours * 3600,
            fields={**of_day, **job.fields},
        )

    def plan(self, job: FleetJob, day: int) -> JobPlan:
        """Return a job's plan for a day, with the day's seed and sick hosts; after the fix, balanced data."""
        seed = SEEDS_PER_JOB * job.plan.seed + day
        plan = job.plan.day(day - job.days.start, seed, self.identity(job, day), self.sick(job, day))
        if not self._is_fixed(job, day):
            return plan
        left = (each.without() if isinstance(each, PackedSequences) else each for each in plan.mechanisms)
        return replace(plan, mechanisms=tuple(left))

    def recorded(self, job: FleetJob, day: int) -> tuple[GeneratedJob, Simulation]:
        """Run one job on one day; return the rows of all logs that are not lost, and the simulation."""
        simulation = Simulation(self.plan(job, day))
        unit = recorded_job(simulation)
        return (unit.contradicting() if job.status == Status.CORRUPT_TRACE else unit), simulation

    def write_unit(self, landing: Path, job_and_day: tuple[FleetJob, int]) -> int:
        """Write the logs, manifest and truth of one unit; return the number of recorded ops."""
        job, day = job_and_day
        unit, simulation = self.recorded(job, day)
        folder = write_rank_logs(landing, self.log_date(day), unit, compress=job.compress)
        if job.inspected:
            write_inspector_logs(folder, unit)
        if job.habits is not None:
            write_events(
                folder, self.course(job, day, simulation).events, job.job_id, unit.manifest["run_id"]
            )
        if job.status == Status.NO_MANIFEST:
            (folder / "job.json").unlink()
        if self.has_truth:
            self._write_truth(landing, job, day, simulation)
        return unit.ops

    def course(self, job: FleetJob, day: int, simulation: Simulation) -> RunCourse:
        """Draw the events of a job on a day; its step times are drawn from the recorded step times.

        Events number the steps differently from the logs, because a job runs more than STEPS_PER_DAY steps a
        day.
        """
        rng, shifts = simulation.rng("events"), job.shifts_of(day)
        begin_s, until_s = (self.time_of(shift).timestamp() for shift in (shifts.start, shifts.stop))
        recorded_s = simulation.step_us(simulation.timeline()) / 1e6
        steps = int((until_s - begin_s) / recorded_s.mean())
        is_first = day == job.days.start
        part = Part(begin_s, until_s, steps * (day - job.days.start), goes_on=not is_first)
        return run_through(job.habits or RunHabits(), rng.choice(recorded_s, steps), part, rng)

    def write_plan(self, folder: Path) -> None:
        """Write all spells to hosts.json, and to plan.jsonl a line about the fix and a line for each job."""
        spells = [asdict(spell) for spell in self.spells]
        (folder / "hosts.json").write_text(json.dumps(spells, allow_nan=False) + "\n")
        fix_day = None if self.fix_day is None else self.log_date(self.fix_day).isoformat()
        lines: list[dict[str, Any]] = [{"fix_day": fix_day, "team": FIXED_TEAM}]
        lines += [
            {
                "job_id": job.job_id,
                "first_day": job.days.start,
                "days": len(job.days),
                "status": job.status,
                "causes": job.plan.causes,
                "team": job.fields.get("team"),
                "world_size": job.shape.world_size,
                "hosts": list(job.hosts),
            }
            for job in self.jobs
        ]
        (folder / "plan.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

    def _write_truth(self, landing: Path, job: FleetJob, day: int, simulation: Simulation) -> None:
        plan, log_date = simulation.plan, self.log_date(day)
        record = {
            "log_date": log_date.isoformat(),
            "job_id": plan.identity.job_id,
            "run_id": plan.identity.run_id,
            "kind": job.plan.kind,
            **{name: getattr(plan.shape, name) for name in SIZES},
            "noise": plan.workload.noise,
            "lost_ranks": list(plan.lost_ranks),
            **asdict(true_savings(simulation)),
        }
        folder = run_folder(landing / TRUTH, log_date, plan.identity.job_id, plan.identity.run_id)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "truth.json").write_text(json.dumps(record, allow_nan=False) + "\n")

    def _is_fixed(self, job: FleetJob, day: int) -> bool:
        return self.fix_day is not None and day >= self.fix_day and job.fields.get("team") == FIXED_TEAM


def write_fleet(landing: Path, fleet: Fleet, workers: int = 1) -> int:
    """Write a fleet into a landing folder; return the number of recorded ops.

    The same fleet gives the same bytes with any number of worker processes. If standard error is a terminal,
    it shows a progress bar.
    """
    (landing / TRUTH).mkdir(parents=True)
    fleet.write_plan(landing / TRUTH)
    lean = replace(fleet, jobs=())  # sent to a process with each unit
    ops = sum(spread("fleet", partial(lean.write_unit, landing), fleet.units, workers))
    for day in {day for _, day in fleet.units}:
        finish_day(landing, fleet.log_date(day))
    return ops
