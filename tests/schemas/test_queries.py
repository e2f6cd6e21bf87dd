"""Named queries on a history whose answers are known; each of the paper's headline figures is one of them."""

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

import schemas
from jobs.transforms.fleet import cause_day, group_day, op_type_day, with_lost
from schemas.queries import QUERIES, QUERY_NAMES
from schemas.tables import TABLES
from schemas.views import mentioned
from schemas.vocabulary import (
    CAUSE_DAY,
    GROUP_DAY,
    JOB_CAUSES,
    JOB_SLOWDOWN,
    JOBS,
    OP_TYPE_DAY,
    OP_TYPE_SLOWDOWN,
    STEP_SLOWDOWN,
)
from tests.support import known_history as known
from tests.support.answers import Stated, answer
from tests.support.examples import DAY, NEXT_DAY, frame

FOLDER = Path(schemas.__file__).parent / "queries"


def stated(spark: SparkSession, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> Stated:
    """These tables, with what the days sum up of them."""
    rows = {name: frame(spark, name, tables.get(name, [])) for name in TABLES}
    days = {
        GROUP_DAY: group_day(with_lost(rows[JOB_SLOWDOWN], rows[JOB_CAUSES]), rows[JOBS]),
        OP_TYPE_DAY: op_type_day(rows[OP_TYPE_SLOWDOWN], rows[JOB_SLOWDOWN]),
        CAUSE_DAY: cause_day(rows[JOB_CAUSES], rows[JOB_SLOWDOWN]),
    }
    return {**tables, **{name: each.toArrow() for name, each in days.items()}}


@pytest.fixture(scope="module")
def history(spark: SparkSession) -> Stated:
    return stated(
        spark,
        {
            JOB_SLOWDOWN: known.job_slowdown(),
            JOBS: known.jobs(),
            STEP_SLOWDOWN: known.steps(),
            OP_TYPE_SLOWDOWN: known.op_types(),
        },
    )


def ask(tables: Stated, name: str, *period: date) -> list[Row]:
    return answer(QUERIES[name].over(*period), tables)


def figures(row: Row, *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


def test_every_file_is_a_query_and_says_what_it_means() -> None:
    files = {file.stem for file in FOLDER.glob("*.sql")}
    assert files | {"hosts", "fix_first"} == {*QUERY_NAMES}
    for query in QUERIES.values():
        assert "$" not in query.sql + query.meaning
        assert "--" not in query.sql
        assert query.meaning.endswith((".", "?"))
        assert query.sources
        assert ":" not in query.over(DAY, NEXT_DAY)


def test_only_what_a_query_reads_is_made_ready() -> None:
    assert mentioned(" ".join(QUERIES["straggling"].sources)) == {
        "job_days",
        "job_slowdown",
        "jobs",
        "job_causes",
    }
    assert mentioned(" ".join(QUERIES["trend"].sources)) == {"group_day"}


def test_straggling_jobs_and_what_they_waste(history: Stated) -> None:
    (row,) = ask(history, "straggling")
    assert figures(row, "jobs", "analysed", "straggling") == (400, 200, 85)
    assert figures(row, "analysed_share", "straggling_share") == (0.5, 0.425)
    assert figures(row, "gpu_hours", "analysed_gpu_hours", "straggling_gpu_hours") == (
        30000.0,
        20000.0,
        8500.0,
    )
    assert row.analysed_gpu_hours_share == pytest.approx(2 / 3, rel=1e-15)
    assert row.wasted_gpu_hours == pytest.approx(2080.0, rel=1e-12)
    assert row.wasted_gpu_hours_share == pytest.approx(0.104, rel=1e-12)


def test_a_period_takes_both_of_its_ends(history: Stated) -> None:
    (january,) = ask(history, "straggling", known.JANUARY, known.JANUARY)
    assert figures(january, "jobs", "analysed", "straggling") == (200, 100, 43)
    (both,) = ask(history, "straggling", known.JANUARY, known.FEBRUARY)
    assert both.jobs == 400
    (none,) = ask(history, "straggling", date(2026, 3, 1))
    assert figures(none, "jobs", "straggling_share", "wasted_gpu_hours_share") == (0, None, None)


def test_the_funnel_of_statuses(history: Stated) -> None:
    rows = ask(history, "coverage")
    assert {row.status: row.jobs for row in rows} == known.LEFT_OUT | {"analysed": 200}
    assert [row.status for row in rows] == [*known.LEFT_OUT, "analysed"]
    assert rows[-1].jobs_share == 0.5
    assert rows[-1].gpu_hours_share == pytest.approx(2 / 3, rel=1e-15)
    assert sum(row.gpu_hours for row in rows) == 30000.0


def test_percentiles_of_waste_are_exact(history: Stated) -> None:
    """Of 200 wastes in order the 180th is 0.16 and the 181st 0.3: the 90th percentile is a tenth between."""
    (row,) = ask(history, "waste_distribution")
    assert row.waste_p50 == pytest.approx(known.LITTLE, rel=1e-12)
    assert row.waste_p90 == pytest.approx(0.16 + 0.1 * 0.14, rel=1e-12)
    assert row.waste_p99 == pytest.approx(0.3, rel=1e-12)
    assert row.wasted_gpu_hours_p90 == pytest.approx(17.4, rel=1e-12)


def test_waste_by_op_type(history: Stated) -> None:
    computes, transfers = ask(history, "waste_by_op_type")
    assert figures(computes, "op_type", "job_days", "slowed_job_days") == ("forward-compute", 200, 20)
    assert computes.wasted_gpu_hours_share == pytest.approx(0.052, rel=1e-12)
    assert figures(transfers, "op_type", "wasted_gpu_hours_share") == ("grads-reduce-scatter", 0.0)


def test_slowness_persists_from_step_to_step(history: Stated) -> None:
    (row,) = ask(history, "step_persistence")
    assert figures(row, "is_straggling", "job_days", "steps") == (True, 85, 850)
    assert row.normalised_slowdown_p50 == pytest.approx(1.0, rel=1e-12)
    assert row.normalised_slowdown_p90 == pytest.approx(1.02 + 0.1 * 0.04, rel=1e-12)


def test_drivers_of_slowness(history: Stated) -> None:
    (workers,) = ask(history, "slow_workers")
    assert figures(workers, "straggling", "worker_driven") == (85, 2)
    assert workers.worker_driven_share == pytest.approx(2 / 85, rel=1e-15)
    assert workers.worker_driven_slowdown == pytest.approx(1 / 0.7, rel=1e-12)
    assert workers.straggling_slowdown == pytest.approx((20 / 0.7 + 65 / 0.84) / 85, rel=1e-12)
    (stage,) = ask(history, "last_stage")
    assert figures(stage, "analysed", "without_pipeline", "stage_driven") == (200, 40, 77)
    assert stage.stage_driven_share == pytest.approx(0.385, rel=1e-15)
    assert figures(stage, "straggling", "straggling_stage_driven") == (85, 68)
    (sequences,) = ask(history, "sequence_imbalance")
    assert figures(sequences, "sequence_driven", "sequence_driven_share") == (43, 0.215)
    assert sequences.sequence_driven_slowdown == pytest.approx(1 / 0.84, rel=1e-12)


def test_groups_have_their_shares_and_how_much_of_them_was_analysed(history: Stated) -> None:
    found = {(row.dimension, row.value): row for row in ask(history, "groups")}
    fleet = found["fleet", "fleet"]
    assert figures(fleet, "jobs", "analysed", "straggling", "straggling_share") == (400, 200, 85, 0.425)
    large, small = found["size_bucket", "256-511"], found["size_bucket", "128-255"]
    assert figures(large, "analysed", "straggling_share") == (85, 1.0)
    assert figures(small, "analysed", "straggling", "straggling_share") == (115, 0, 0.0)
    assert small.waste_p90 == pytest.approx(known.LITTLE, rel=1e-12)
    assert sum(row.wasted_gpu_hours or 0 for (kind, _), row in found.items() if kind == "team") == (
        pytest.approx(2080.0, rel=1e-12)
    )
    assert figures(found["team", "(not stated)"], "jobs", "analysed", "straggling_share") == (200, 0, None)


def test_the_trend_by_weeks(history: Stated) -> None:
    january, february = ask(history, "trend")
    assert figures(january, "week", "job_days", "analysed_job_days", "straggling_job_days") == (
        known.JANUARY,
        200,
        100,
        43,
    )
    assert february.week == known.FEBRUARY
    wasted = january.wasted_gpu_hours + february.wasted_gpu_hours
    assert wasted == pytest.approx(2080.0, rel=1e-12)


def test_discrepancies_of_those_analysed_and_of_all_replayed(history: Stated) -> None:
    (row,) = ask(history, "discrepancy")
    assert figures(row, "replayed_job_days", "analysed_job_days") == (280, 200)
    assert figures(row, "analysed_p50", "analysed_p90", "replayed_p90") == (0.02, 0.04, 0.5)


def test_a_run_of_several_days_counts_once_by_its_sums(spark: SparkSession) -> None:
    """Days of 2.0 and 1.05 make 110 s of 100: straggling; of the 10 s lost, slow workers lost 5 and 1.25."""
    first = {"simulated_total_s": 10.0, "ideal_total_s": 5.0, "slowdown": 2.0, "slow_worker_share": 1.0}
    second = {"simulated_total_s": 100.0, "ideal_total_s": 95.0, "slow_worker_share": 0.25}
    later = {"status": "no_ops", "slowdown": None, "log_date": known.FEBRUARY}
    mild = {"job_id": "mild", "simulated_total_s": 109.0, "ideal_total_s": 100.0, "slowdown": 9.0}
    tables = stated(spark, {JOB_SLOWDOWN: [first, second | {"log_date": NEXT_DAY}, later, mild]})
    (row,) = ask(tables, "straggling")
    assert figures(row, "jobs", "analysed", "straggling") == (2, 2, 1)
    (workers,) = ask(tables, "slow_workers")
    assert figures(workers, "worker_driven", "worker_driven_slowdown") == (1, 1.1)
    assert [(row.status, row.jobs) for row in ask(tables, "coverage")] == [("analysed", 2)]


def test_causes_share_what_is_lost(spark: SparkSession) -> None:
    """Of units that are not analysed nothing is lost, though their causes hold."""
    rows: list[dict[str, Any]] = [
        {"lost_gpu_hours": 60.0, "lost_fraction": 0.5},
        {"job_id": "b", "lost_gpu_hours": None, "lost_fraction": None},
        {"cause": "pause", "lost_gpu_hours": 15.0, "lost_fraction": 0.25, "log_date": NEXT_DAY},
        {"cause": "unexplained", "is_cause": False, "lost_gpu_hours": 5.0, "lost_fraction": 0.05},
        {"cause": "pause", "lost_gpu_hours": 99.0, "log_date": known.FEBRUARY},
    ]
    units: list[dict[str, Any]] = [
        {"actual_total_s": 10.0},
        {"actual_total_s": 10.0, "job_id": "b", "status": "high_discrepancy"},
        {"actual_total_s": 8.0, "log_date": NEXT_DAY},
    ]
    tables = stated(spark, {JOB_CAUSES: rows, JOB_SLOWDOWN: units})
    found = ask(tables, "causes", DAY, NEXT_DAY)
    assert [tuple(row) for row in found] == [
        ("slow_worker", 1, 60.0, 0.75, pytest.approx(5.0 / 7.5)),
        ("pause", 1, 15.0, 0.1875, pytest.approx(2.0 / 7.5)),
        ("unexplained", 0, 5.0, 0.0625, pytest.approx(0.5 / 7.5)),
    ]
    (fleet,) = ask(tables, "straggling", DAY, DAY)
    assert figures(fleet, "lost_gpu_hours", "lost_share_of_time") == (65.0, pytest.approx(0.55))
