"""Causes of units by day, and what must hold between the tables of causes."""

from typing import Any

from pyspark.sql import SparkSession

from jobs.transforms.causes import cause_day, miscounted_causes
from schemas.vocabulary import (
    CAUSE_DAY,
    CAUSES,
    FLEET_DAY,
    JOB_CAUSES,
)
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


def test_miscounted_causes_are_those_that_job_causes_and_the_fleet_do_not_bear_out(
    spark: SparkSession,
) -> None:
    def wrong(changes: dict[int, dict[str, Any]], lost: int | None = None, replayed: int = 2) -> set[str]:
        """Causes of the day found wrong where rows of cause_day are changed or lost."""
        causes = [
            {"cause": cause, "attributed_gpu_hours": 48.0, "recoverable_gpu_hours": 96.0, "jobs": 2}
            | changes.get(number, {})
            for number, cause in enumerate(CAUSES)
            if number != lost
        ]
        units = [{"cause": cause, "job_id": job_id} for cause in CAUSES for job_id in "ab"]
        fleet = frame(spark, FLEET_DAY, [{"replayed": replayed}, {"log_date": NEXT_DAY, "replayed": 0}])
        rows = miscounted_causes(frame(spark, JOB_CAUSES, units), frame(spark, CAUSE_DAY, causes), fleet)
        return {row.cause for row in rows.collect()}

    assert wrong({0: {"attributed_gpu_hours": 48.0 * (1 + 1e-11)}}) == set()
    changes: dict[int, dict[str, Any]] = {
        0: {"jobs": 1},
        1: {"flagged_jobs": 1},
        2: {"attributed_gpu_hours": 48.1},
        3: {"recoverable_gpu_hours": None},
        4: {"replayed": 3},
    }
    assert wrong(changes, lost=5) == set(CAUSES[:6])
    assert wrong({}, replayed=3) == set(CAUSES), "the fleet counts another number of replayed units"
