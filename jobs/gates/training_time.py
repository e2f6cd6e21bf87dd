"""Find units whose events show more training time than their GPU-hours allow."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from functools import cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import JOB_TIME, JOBS, RUN_EVENTS, UNIT_KEY
from udfs.simulate.effective_time import MOST_OVERDRAWN, StepTimes, shown_gpu_hours
from udfs.simulate.run_course import in_order

Read = Callable[[str, date], pa.Table]
"""Function that returns the rows of a table, given by name, of one day."""

_STEPS: Final = ("actual_step_s", "simulated_step_s", "ideal_step_s")
_HOUR_S: Final = 3600.0


def training_time_texts(
    warehouse: Warehouse, log_dates: Sequence[date], job_slowdown: pa.Table
) -> dict[date, list[str]]:
    """Return, by day, one sentence for each unit with more training time than its GPU-hours allow.

    job_slowdown : rows of these days
    """
    read = cache(lambda name, day: warehouse.rows(TABLES[name], [day]))  # each table at most once a day
    times = warehouse.rows(TABLES[JOB_TIME], log_dates)
    jobs = job_slowdown.select([*UNIT_KEY, "status", "world_size", *_STEPS])
    found: dict[date, list[str]] = defaultdict(list)
    for row in times.join(jobs, UNIT_KEY, join_type="inner").sort_by("job_id").to_pylist():
        if said := _too_many_steps(row) or _too_few_hours(read, row):
            found[row["log_date"]].append("{log_date}: job {job_id}, run {run_id}: ".format(**row) + said)
    return found


def _too_many_steps(row: Mapping[str, Any]) -> str:
    """Return a sentence if a unit's counted steps would take more GPU-hours than the unit had; else empty."""
    steps, step_s, gpus = row["steps_kept"], row["actual_step_s"], row["world_size"]
    outages = row["outage_s"] * gpus / _HOUR_S - row["outage_gpu_hours"]
    wanted, there = steps * step_s * gpus / _HOUR_S, row["scheduled_gpu_hours"] + outages
    if wanted <= there * (1 + MOST_OVERDRAWN):
        return ""
    return (
        f"its events count {steps:,.0f} steps, which take {wanted:,.1f} GPU-hours at the {step_s:.3g} s of "
        f"its recorded ones, more than the {there:,.1f} that it had (training_time_rate "
        f"{wanted / there:.2f}): the recorded steps are slower than the others; record some of the whole day"
    )


def _too_few_hours(read: Read, row: Mapping[str, Any]) -> str:
    """Return a sentence if a unit's events show more GPU-hours than its job.json states."""
    if not row["contradictions"] or row["unknown_gpu_hours"] != row["scheduled_gpu_hours"]:
        return ""
    events, jobs = (_of_unit(read(name, row["log_date"]), row) for name in (RUN_EVENTS, JOBS))
    (facts,) = jobs.select([*UNIT_KEY, "started_at", "ended_at"]).to_pylist()
    facts["events"] = in_order(events).to_pylist()
    shown = shown_gpu_hours(facts, row, StepTimes(*(row[name] for name in _STEPS)))
    stated = row["scheduled_gpu_hours"]
    if shown <= stated * (1 + MOST_OVERDRAWN):
        return ""
    return (
        f"its events show {shown:,.1f} GPU-hours, but gpu_hours of its job.json is {stated:,.1f}: neither is "
        "believed, so all of its time is unknown; state the GPU-hours allocated on this log date"
    )


def _of_unit(rows: pa.Table, unit: Mapping[str, Any]) -> pa.Table:
    is_its = pc.and_(pc.equal(rows["job_id"], unit["job_id"]), pc.equal(rows["run_id"], unit["run_id"]))
    return rows.filter(is_its)
