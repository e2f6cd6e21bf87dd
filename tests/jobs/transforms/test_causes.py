"""Causes of units by day."""

from typing import Any

from pyspark.sql import SparkSession

from jobs.transforms.causes import cause_day
from schemas.vocabulary import JOB_CAUSES
from tests.examples import DAY, NEXT_DAY, frame


def test_cause_day_counts_units_where_it_holds_and_sums_hours_of_all(spark: SparkSession) -> None:
    flagged = {"flag_reason": "high_discrepancy"}
    rows: list[dict[str, Any]] = [
        {"job_id": "a"},
        {"job_id": "b"} | flagged,
        {"job_id": "c", "is_cause": False, "attributed_gpu_hours": -1.0, "recoverable_gpu_hours": 2.0}
        | flagged,
        {"job_id": "d", "attributed_gpu_hours": None, "recoverable_gpu_hours": None},
        {"job_id": "d", "cause": "pause", "attributed_gpu_hours": None, "recoverable_gpu_hours": None},
        {"job_id": "a", "log_date": NEXT_DAY, "cause": "pause", "is_cause": False},
    ]
    found = cause_day(frame(spark, JOB_CAUSES, rows)).collect()
    assert {tuple(row)[:2]: tuple(row)[2:] for row in found} == {
        (DAY, "slow_worker"): (4, 3, 1, 24.0 + 24.0 - 1.0, 48.0 + 48.0 + 2.0),
        (DAY, "pause"): (1, 1, 0, None, None),
        (NEXT_DAY, "pause"): (1, 0, 0, 24.0, 48.0),
    }
