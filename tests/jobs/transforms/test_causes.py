"""Causes of units by day."""

from typing import Any

from pyspark.sql import SparkSession

from jobs.transforms.fleet import cause_day
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN
from tests.support.examples import DAY, NEXT_DAY, frame

NO_LOSS = {"lost_fraction": None, "lost_gpu_hours": None}
"""Of a unit that is not analysed."""


def test_cause_day_counts_units_where_it_holds_and_sums_hours_of_all(spark: SparkSession) -> None:
    flagged = {"flag_reason": "high_discrepancy"}
    rows: list[dict[str, Any]] = [
        {"job_id": "a"},
        {"job_id": "b"} | flagged,
        {"job_id": "c", "is_cause": False, "attributed_gpu_hours": -1.0, "recoverable_gpu_hours": 2.0}
        | flagged
        | {"lost_fraction": 0.0, "lost_gpu_hours": 0.0},
        {"job_id": "d", "attributed_gpu_hours": None, "recoverable_gpu_hours": None} | NO_LOSS,
        {"job_id": "d", "cause": "pause", "attributed_gpu_hours": None, "recoverable_gpu_hours": None}
        | NO_LOSS,
        {"job_id": "a", "log_date": NEXT_DAY, "cause": "pause", "is_cause": False},
    ]
    units: list[dict[str, Any]] = [{"job_id": job, "actual_total_s": 8.0} for job in "abcd"]
    found = cause_day(frame(spark, JOB_CAUSES, rows), frame(spark, JOB_SLOWDOWN, units)).collect()
    assert {tuple(row)[:2]: tuple(row)[2:] for row in found} == {
        (DAY, "slow_worker"): (4, 3, 1, 24.0 + 24.0 - 1.0, 48.0 + 48.0 + 2.0, 2, 48.0, 2.0),
        (DAY, "pause"): (1, 1, 0, None, None, 0, None, None),
        (NEXT_DAY, "pause"): (1, 0, 0, 24.0, 48.0, 0, 24.0, None),
    }
