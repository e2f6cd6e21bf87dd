"""A night warns of units whose run events show more training than their GPU-hours allow."""

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession

from jobs.gates.watch import night_warnings
from jobs.runtime.settings import Settings
from jobs.warehouse.tables import Warehouse
from schemas.effective_time import KNOWN_PARTS
from schemas.tables import TABLES
from schemas.vocabulary import JOB_SLOWDOWN, JOB_TIME, JOBS, RUN_EVENTS
from tests.support.examples import ROWS, table_rows

DAY = date(2026, 1, 5)
RUN = ROWS[JOBS]["run_id"]
MIDNIGHT_US = int(datetime(2026, 1, 5, tzinfo=UTC).timestamp()) * 1_000_000
HOUR_US = 3_600_000_000
UNKNOWN: dict[str, Any] = dict.fromkeys((f"{name}_gpu_hours" for name in KNOWN_PARTS), 0.0) | {
    "steps_kept": 0.0,
    "steps_lost": 0.0,
    "contradictions": 1,
}
"""Part of a row of job_time: no GPU-hours are known, because the run's events contradict each other."""


def texts(settings: Settings, folder: Path, times: list[dict[str, Any]]) -> list[str]:
    """Return a night's messages about units of 8 GPUs that did 10,000 steps of 5.1 s within 20 hours.

    times : changes to the units' rows of job_time
    """
    warehouse = Warehouse(cast("SparkSession", None), str(folder))
    units = [{"log_date": DAY, "job_id": row["job_id"]} for row in times]
    marks = [(0, 0), (20, 10_000)]
    rows = {
        JOB_TIME: [{"log_date": DAY} | row for row in times],
        JOBS: [unit | {"started_at": None, "ended_at": None} for unit in units],
        JOB_SLOWDOWN: units,
        RUN_EVENTS: [
            unit | {"event": "step", "at_us": MIDNIGHT_US + hour * HOUR_US, "step": step, "line": step + 1}
            for unit in units
            for hour, step in marks
        ],
    }
    for name, of_table in rows.items():
        of_step = {"duration_us": None} if name == RUN_EVENTS else {}
        warehouse.append(TABLES[name], table_rows(name, [row | of_step for row in of_table]))
    found = night_warnings(warehouse, settings.watch, [DAY])[DAY]
    return [each.text for each in found if each.kind == "more_training_than_hours"]


def test_steps_that_take_longer_than_there_was_time_are_named(
    test_settings: Settings, tmp_path: Path
) -> None:
    (said,) = texts(test_settings, tmp_path, [{"job_id": "a", "steps_kept": 20_000.0}, {"job_id": "b"}])
    assert said == (
        f"2026-01-05: job a, run {RUN}: its events count 20,000 steps, which take 226.7 GPU-hours at the "
        "5.1 s of its recorded ones, more than the 192.0 that it had (training_time_rate 1.18): the recorded "
        "steps are slower than the others; record some of the whole day"
    )


def test_gpu_hours_that_are_too_few_for_the_events_are_named_with_both(
    test_settings: Settings, tmp_path: Path
) -> None:
    """A night names a unit whose job.json states fewer GPU-hours than its events show, with both figures."""
    few, enough = ({"scheduled_gpu_hours": hours, "unknown_gpu_hours": hours} for hours in (96.0, 114.0))
    times = [{"job_id": "a"} | UNKNOWN | few, {"job_id": "b"} | UNKNOWN | enough, {"job_id": "c", **few}]
    (said,) = texts(test_settings, tmp_path, times)
    assert said == (
        f"2026-01-05: job a, run {RUN}: its events show 113.3 GPU-hours, but gpu_hours of its job.json is "
        "96.0: neither is believed, so all of its time is unknown; state the GPU-hours allocated on this log "
        "date"
    )


def test_only_the_first_units_are_named_and_the_others_counted(
    test_settings: Settings, tmp_path: Path
) -> None:
    many = [{"job_id": f"job {n}", "steps_kept": 20_000.0} for n in range(7)]
    found = texts(test_settings, tmp_path, many)
    assert (len(found), found[-1]) == (6, "2026-01-05: and 2 more units")
