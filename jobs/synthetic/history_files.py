"""A history in a landing folder: the logs of a job on all its days, as its fate leaves them."""

import json
from collections.abc import Iterable
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from jobs.synthetic.fleet import RECORDED, SHIFT_HOURS, SHIFTS, STEPS_PER_DAY
from jobs.synthetic.history import History
from jobs.synthetic.history_job import HistoryJob
from jobs.synthetic.identity import JobIdentity
from jobs.synthetic.job import GeneratedJob, recorded_job
from jobs.synthetic.mechanisms.data import PackedSequences
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.paper import FIX_LABEL, FIXED_TEAM
from jobs.synthetic.rank_log_files import run_folder, write_rank_logs
from jobs.synthetic.sample_job import SEEDS
from jobs.synthetic.sample_layout import child_rng
from jobs.synthetic.simulation import JobPlan, Simulation
from jobs.synthetic.truth_files import TRUTH, write_sick_hosts
from schemas.vocabulary import (
    OP_CODES,
    STATUS_BAD_LAYOUT,
    STATUS_CORRUPT_TRACE,
    STATUS_MISSING_WORKERS,
    STATUS_NO_MANIFEST,
    STATUS_NO_OPS,
)

RUN_ID: Final = "r1"
HISTORY_FILE: Final = "history.jsonl"
_PAIRED: Final = OP_CODES["forward-recv"]
"""Matched with its send by number: one too few on one rank, and the trace contradicts itself."""


def write_job(landing: Path, history: History, job: HistoryJob) -> int:
    """Write one job on all its days; returns its recorded ops."""
    return sum(_write_unit(landing, history, job, day) for day in job.placed.days)


def write_plan(landing: Path, history: History) -> None:
    """Write what was planned: a line for each job with its fate and causes, the fix, the sick hosts."""
    write_sick_hosts(landing, [asdict(spell) for spell in history.spells])
    fix = {"fix_day": str(history.first_day + timedelta(days=history.fix_day)), "team": FIXED_TEAM}
    lines = [fix, *map(_planned, history.jobs)]
    (landing / TRUTH / HISTORY_FILE).write_text("".join(json.dumps(line) + "\n" for line in lines))


def read_plan(landing: Path) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Read what was planned: the fix, and the jobs."""
    fix, *jobs = map(json.loads, (landing / TRUTH / HISTORY_FILE).read_text().splitlines())
    return fix, jobs


def unit_of(history: History, job: HistoryJob, day: int) -> GeneratedJob:
    """One job on one day as it was recorded, whatever is left of it."""
    identity = _identity(history, job, day)
    sick = [spell.in_job(job.placed, day) for spell in history.spells if spell.host in job.placed.hosts]
    mechanisms = [*_on_day(history, job, day), *(each for each in sick if each is not None)]
    seed = int(child_rng(job.placed.seed, f"day {day}").integers(SEEDS))
    plan = JobPlan(job.placed.shape, tuple(mechanisms), seed, identity, job.workload)
    return _left(job.status, recorded_job(Simulation(plan)))


def _write_unit(landing: Path, history: History, job: HistoryJob, day: int) -> int:
    unit = unit_of(history, job, day)
    log_date = history.first_day + timedelta(days=day)
    write_rank_logs(landing, log_date, unit)
    if job.status == STATUS_NO_MANIFEST:
        (run_folder(landing, log_date, job.placed.job_id, RUN_ID) / "job.json").unlink()
    return unit.ops


def _on_day(history: History, job: HistoryJob, day: int) -> Iterable[Mechanism]:
    """Mechanisms of a day: a team that balances its sequences has even ones."""
    if not _is_fixed(history, job, day):
        return job.mechanisms
    return [each.without() if isinstance(each, PackedSequences) else each for each in job.mechanisms]


def _is_fixed(history: History, job: HistoryJob, day: int) -> bool:
    return day >= history.fix_day and job.fields["team"] == FIXED_TEAM


def _identity(history: History, job: HistoryJob, day: int) -> JobIdentity:
    placed = job.placed
    midnight = datetime.combine(history.first_day, datetime.min.time(), UTC)
    shifts = placed.shifts_of(day)
    start, ended = (midnight + timedelta(hours=SHIFT_HOURS * shift) for shift in (shifts.start, placed.end))
    hours = SHIFT_HOURS * len(shifts)
    return JobIdentity(
        job_id=placed.job_id,
        run_id=RUN_ID,
        first_step=STEPS_PER_DAY * (day - placed.days.start),
        first_t0_us=int(start.timestamp()) * 1_000_000,
        hosts=tuple(placed.hosts),
        recorded_s=RECORDED * hours * 3600,
        fields={
            **job.fields,
            "started_at": (midnight + timedelta(hours=SHIFT_HOURS * placed.first)).isoformat(),
            "ended_at": ended.isoformat() if day == (placed.end - 1) // SHIFTS else None,
            "gpu_hours": float(placed.shape.world_size * hours),
            "labels": {FIX_LABEL: "on" if _is_fixed(history, job, day) else "off"},
        },
    )


def _left(status: str, unit: GeneratedJob) -> GeneratedJob:
    """What a fate leaves of a day's record."""
    rows, manifest = unit.rank_steps, unit.manifest
    if status == STATUS_NO_OPS:
        return GeneratedJob(rows.slice(0, 0), manifest)
    if status == STATUS_MISSING_WORKERS:
        return unit.without_ranks([max(rows["rank"].to_pylist())])
    if status == STATUS_BAD_LAYOUT:
        return replace(unit, manifest={**manifest, "world_size": manifest["world_size"] + 1})
    if status == STATUS_CORRUPT_TRACE:
        return replace(unit, rank_steps=_contradicting(rows))
    return unit


def _contradicting(rows: pa.Table) -> pa.Table:
    """The rows of a pipeline, of which the last lacks a recv."""
    last = rows.slice(rows.num_rows - 1).to_pylist()[0]
    place = last["op"].index(_PAIRED)
    for name in ("op", "start_us", "duration_us", "microbatch", "model_chunk"):
        last[name] = [value for number, value in enumerate(last[name]) if number != place]
    return pa.concat_tables([rows.slice(0, rows.num_rows - 1), pa.Table.from_pylist([last], rows.schema)])


def _planned(job: HistoryJob) -> dict[str, Any]:
    placed = job.placed
    return {
        "job_id": placed.job_id,
        "first_day": placed.days.start,
        "days": len(placed.days),
        "status": job.status,
        "causes": job.causes,
        "team": job.fields["team"],
        "world_size": placed.shape.world_size,
        "hosts": placed.hosts,
    }
