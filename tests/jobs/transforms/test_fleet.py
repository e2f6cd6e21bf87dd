"""Daily rows of causes, of groups such as teams, and of op types have known sums, equal to the fleet's."""

from typing import Any

import pytest
from pyspark.sql import SparkSession
from scipy import stats

from jobs.gates.audit import audit
from jobs.transforms.fleet import cause_day, group_day, op_type_day, with_lost
from schemas.groups import DIMENSIONS
from schemas.job_causes import HOURS_OF
from schemas.tables import TABLES
from schemas.vocabulary import (
    CAUSE_DAY,
    GROUP_DAY,
    JOB_CAUSES,
    JOB_SLOWDOWN,
    JOBS,
    OP_TYPE_DAY,
    OP_TYPE_SLOWDOWN,
    SIZE_BOUNDS,
    SIZE_BUCKETS,
)
from tests.support.examples import DAY, NEXT_DAY, frame

Rows = dict[tuple[str, str], dict[str, Any]]

UNITS: list[dict[str, Any]] = [
    {"job_id": "a", "world_size": 128, "gpu_hours": 100.0, "wasted_gpu_hours": 20.0},
    {"job_id": "b", "world_size": 256, "gpu_hours": 50.0, "wasted_gpu_hours": 2.5, "slowdown": 1.05},
    {"job_id": "c", "world_size": 256, "status": "high_discrepancy", "slowdown": 2.0, "gpu_hours": 30.0},
    {"job_id": "d", "world_size": None, "status": "no_manifest", "slowdown": None, "gpu_hours": None},
    {"job_id": "e", "world_size": 9000, "gpu_hours": None, "wasted_gpu_hours": None, "slowdown": 1.3}
    | {"slow_worker_share": 0.5, "last_stage_share": 0.5, "forward_backward_correlation": 0.95},
    {"job_id": "a", "log_date": NEXT_DAY, "slowdown": 1.1, "slow_worker_share": 0.51},
]
TEAMS = {"a": "speech", "b": "speech", "c": "vision", "d": None, "e": None}


@pytest.fixture(scope="module")
def rows(spark: SparkSession) -> Rows:
    jobs = [{"job_id": job, "team": team} for job, team in TEAMS.items()]
    causes: list[dict[str, Any]] = [
        {"job_id": "a", "lost_fraction": 0.25, "lost_gpu_hours": 25.0},
        {"job_id": "a", "cause": "unexplained", "lost_fraction": 0.125, "lost_gpu_hours": 12.5},
        {"job_id": "b", "lost_fraction": 0.0, "lost_gpu_hours": 0.0},
        {"job_id": "c", "lost_fraction": None, "lost_gpu_hours": None},
        {"job_id": "e", "lost_fraction": 0.5, "lost_gpu_hours": None},
    ]
    units = with_lost(frame(spark, JOB_SLOWDOWN, UNITS), frame(spark, JOB_CAUSES, causes))
    made = group_day(units, frame(spark, JOBS, jobs)).persist()
    assert audit(TABLES[GROUP_DAY], made.toArrow()) == []
    today = made.where("log_date = DATE'2026-01-05'").collect()
    return {(row.dimension, row.value): row.asDict() for row in today}


def figures(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def test_counts_and_hours_of_a_team(rows: Rows) -> None:
    counts = (
        "jobs",
        "replayed",
        "analysed",
        "straggling",
        "worker_driven",
        "stage_driven",
        "sequence_driven",
    )
    hours = ("gpu_hours", "analysed_gpu_hours", "straggling_gpu_hours", "wasted_gpu_hours", "lost_gpu_hours")
    assert figures(rows["team", "speech"], *counts) == (2, 2, 2, 1, 1, 0, 0)
    assert figures(rows["team", "speech"], *hours) == (150.0, 150.0, 100.0, 22.5, 37.5)
    assert figures(rows["team", "vision"], *counts) == (1, 1, 0, 0, 0, 0, 0)
    assert figures(rows["team", "vision"], *hours) == (30.0, None, None, None, None)
    assert figures(rows["team", "(not stated)"], *counts) == (2, 1, 1, 1, 0, 1, 1)


def test_groups_of_every_dimension_add_up_to_the_fleet(rows: Rows) -> None:
    assert {dimension for dimension, _ in rows} == set(DIMENSIONS)
    assert figures(rows["fleet", "fleet"], "analysed_s", "lost_s") == (3 * 51.0, 0.375 * 51.0 + 0.5 * 51.0)
    for name in ("jobs", "analysed", "straggling", "gpu_hours", "wasted_gpu_hours", "lost_s"):
        for dimension in DIMENSIONS:
            parts = [row[name] or 0 for (found, _), row in rows.items() if found == dimension]
            assert sum(parts) == pytest.approx(rows["fleet", "fleet"][name], rel=1e-12), (dimension, name)


def test_sizes_fall_into_buckets_that_end_before_their_bound(spark: SparkSession, rows: Rows) -> None:
    assert {value for dimension, value in rows if dimension == "size_bucket"} == {
        "128-255",
        "256-511",
        ">= 4096",
        "(not stated)",
    }
    edges = [
        {"job_id": f"{size}", "world_size": size} for bound in SIZE_BOUNDS for size in (bound - 1, bound)
    ]
    units = with_lost(frame(spark, JOB_SLOWDOWN, edges), frame(spark, JOB_CAUSES, []))
    made = group_day(units, frame(spark, JOBS, []))
    found = {row.value: row.jobs for row in made.where("dimension = 'size_bucket'").collect()}
    assert found == dict.fromkeys(SIZE_BUCKETS, 2) | {SIZE_BUCKETS[0]: 1, SIZE_BUCKETS[-1]: 1}


def test_op_types_of_analysed_units_alone(spark: SparkSession) -> None:
    op_types = [
        {"job_id": "a", "slowdown": 1.25, "waste_fraction": 0.2},
        {"job_id": "b", "slowdown": 1.0, "waste_fraction": 0.0},
        {"job_id": "c", "slowdown": 2.0, "waste_fraction": 0.5},
        {"job_id": "e", "slowdown": 1.25, "waste_fraction": 0.2},
        {"job_id": "a", "op_type": "gc", "slowdown": 0.8, "waste_fraction": -0.25},
    ]
    made = op_type_day(frame(spark, OP_TYPE_SLOWDOWN, op_types), frame(spark, JOB_SLOWDOWN, UNITS)).persist()
    assert audit(TABLES[OP_TYPE_DAY], made.toArrow()) == []
    found = {
        row.op_type: (row.jobs, row.slowed, row.gpu_hours, row.wasted_gpu_hours) for row in made.collect()
    }
    assert found == {"forward-compute": (3, 2, 150.0, 20.0), "gc": (1, 0, 100.0, -25.0)}


BOUNDS = [f"{name}_{end}" for name in HOURS_OF.values() for end in ("low", "high")]
NO_LOSS = {"lost_fraction": None, "lost_gpu_hours": None}
"""Columns of a cause in a unit that is not analysed."""


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
    assert {tuple(row)[:2]: tuple(row)[2 : -len(BOUNDS)] for row in found} == {
        (DAY, "slow_worker"): (4, 3, 1, 24.0 + 24.0 - 1.0, 48.0 + 48.0 + 2.0, 2, 48.0, 2.0),
        (DAY, "pause"): (1, 1, 0, None, None, 0, None, None),
        (NEXT_DAY, "pause"): (1, 0, 0, 24.0, 48.0, 0, 24.0, None),
    }


def test_hours_of_a_cause_are_unknown_where_none_of_its_units_states_them(spark: SparkSession) -> None:
    """A day's hours of a cause are unknown if no unit that loses time to the cause states its GPU-hours."""
    hours = ("attributed_gpu_hours", "recoverable_gpu_hours", "lost_gpu_hours")
    rows: list[dict[str, Any]] = [
        {"job_id": "a", "is_cause": False, "lost_fraction": 0.0} | dict.fromkeys(hours, 0.0),
        {"job_id": "b", "lost_fraction": 0.5} | dict.fromkeys(hours) | dict.fromkeys(BOUNDS),
    ]
    stated = {"job_id": "c", "lost_fraction": 0.5} | dict.fromkeys(hours, 48.0)

    def sums(*rows: dict[str, Any]) -> tuple[float | None, ...]:
        units = frame(spark, JOB_SLOWDOWN, [{"job_id": row["job_id"]} for row in rows])
        made = cause_day(frame(spark, JOB_CAUSES, rows), units).persist()
        assert audit(TABLES[CAUSE_DAY], made) == []
        (found,) = made.collect()
        return tuple(found[name] for name in hours)

    assert sums(*rows) == (None, None, None)
    assert sums(*rows, stated) == (48.0, 48.0, 48.0)
    assert sums(rows[0]) == (0.0, 0.0, 0.0), "no unit loses time to the cause"


def test_errors_of_units_are_independent(spark: SparkSession) -> None:
    """Half widths of 12 and 5 GPU-hours give 13 for the sum, as the errors of units are independent."""
    first = {"attributed_gpu_hours_low": 12.0, "attributed_gpu_hours_high": 36.0}
    other = {"attributed_gpu_hours": 8.0, "attributed_gpu_hours_low": 3.0, "attributed_gpu_hours_high": 13.0}
    rows: list[dict[str, Any]] = [
        {"job_id": "a", "lost_gpu_hours_low": 0.0, "lost_gpu_hours_high": 48.0} | first,
        {"job_id": "b"} | other,
        {"job_id": "c"} | dict.fromkeys(HOURS_OF.values()),
    ]
    made = cause_day(frame(spark, JOB_CAUSES, rows), frame(spark, JOB_SLOWDOWN, [{"job_id": "a"}])).persist()
    assert audit(TABLES[CAUSE_DAY], made) == []
    (found,) = made.collect()
    assert (found.attributed_gpu_hours_low, found.attributed_gpu_hours_high) == (32.0 - 13.0, 32.0 + 13.0)
    assert (found.lost_gpu_hours, found.lost_gpu_hours_low, found.lost_gpu_hours_high) == (48.0, None, None)


def test_units_of_few_stretches_are_better_known_together(spark: SparkSession) -> None:
    """The degrees of freedom of units add up in their sum, which narrows the interval of the sum."""
    ends = {"lost_gpu_hours_low": 14.0, "lost_gpu_hours_high": 34.0, "diagnosis_error_fraction": 0.06}
    rows: list[dict[str, Any]] = [{"job_id": job, "interval_freedom": 2.0} | ends for job in "abc"]
    units: list[dict[str, Any]] = [{"job_id": job, "gpu_hours": 100.0} for job in "abc"]
    made = cause_day(frame(spark, JOB_CAUSES, rows), frame(spark, JOB_SLOWDOWN, units))
    (found,) = made.collect()
    few, many = (stats.t.ppf(0.95, each) for each in (2, 6))
    half = (3 * (8.0 * many / few) ** 2 + 3 * 6.0**2) ** 0.5
    assert found.lost_gpu_hours_high == pytest.approx(72.0 + half, rel=0.002)


def test_units_outside_a_sum_are_not_in_its_interval(spark: SparkSession) -> None:
    ends = {"lost_gpu_hours_low": 14.0, "lost_gpu_hours_high": 34.0, "diagnosis_error_fraction": 0.01}
    outside = dict.fromkeys(("lost_gpu_hours", "lost_gpu_hours_low", "lost_gpu_hours_high"))
    rows: list[dict[str, Any]] = [{"job_id": "a"} | ends, {"job_id": "b"} | ends | outside]
    units: list[dict[str, Any]] = [{"job_id": "a", "gpu_hours": 100.0}, {"job_id": "b", "gpu_hours": 1e3}]
    (found,) = cause_day(frame(spark, JOB_CAUSES, rows), frame(spark, JOB_SLOWDOWN, units)).collect()
    assert found.lost_gpu_hours == 24.0
    assert (found.lost_gpu_hours_low, found.lost_gpu_hours_high) == pytest.approx((14.0, 34.0))
