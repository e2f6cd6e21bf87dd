"""Named queries give known answers for a made-up history, which has the paper's headline figures."""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from pyspark.sql import Row, SparkSession

import schemas
from jobs.transforms.fleet import cause_day, fleet_day, group_day, op_type_day, with_lost
from schemas.queries import QUERIES, QUERY_NAMES
from schemas.tables import TABLES
from schemas.views import VIEWS, mentioned
from schemas.vocabulary import (
    CAUSE_DAY,
    CAUSE_UNEXPLAINED,
    CAUSES,
    FLEET_DAY,
    GPU_TYPE_SLOWDOWN,
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
from tests.support.examples import DAY, NEXT_DAY, culprit, frame
from udfs.lost import lost_columns

FOLDER = Path(schemas.__file__).parent / "queries"


UNITS: list[dict[str, Any]] = [{}, {"log_date": NEXT_DAY}, {"job_id": "b"}]


def stated(spark: SparkSession, tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> Stated:
    """Return the given tables, and tables of daily sums computed from them."""
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


LITTLE = known.LITTLE
ANSWERS: dict[str, list[dict[str, Any]]] = {
    "straggling": [
        {
            "jobs": 400, "analysed": 200, "straggling": 85, "analysed_share": 0.5, "straggling_share": 0.425,
            "gpu_hours": 30000.0, "analysed_gpu_hours": 20000.0, "straggling_gpu_hours": 8500.0,
            "analysed_gpu_hours_share": 2 / 3, "wasted_gpu_hours": 2080.0, "wasted_gpu_hours_share": 0.104,
        }
    ],
    "coverage": [
        *({"status": status, "job_days": number} for status, number in known.LEFT_OUT.items()),
        {"status": "analysed", "job_days": 200, "job_days_share": 0.5, "gpu_hours_share": 2 / 3},
    ],
    # The 180th of 200 sorted wastes is 0.16, the 181st 0.3: the 90th percentile is 0.16 plus a tenth of 0.14.
    "waste_distribution": [
        {
            "waste_p50": LITTLE, "waste_p90": 0.16 + 0.1 * 0.14, "waste_p99": 0.3,
            "wasted_gpu_hours_p90": 17.4,
        }
    ],
    "waste_by_op_type": [
        {
            "op_type": "forward-compute", "job_days": 200, "slowed_job_days": 20,
            "wasted_gpu_hours_share": 0.052,
        },
        {"op_type": "grads-reduce-scatter", "wasted_gpu_hours_share": 0.0},
    ],
    "step_persistence": [
        {
            "is_straggling": True, "job_days": 85, "steps": 850, "normalised_slowdown_p50": 1.0,
            "normalised_slowdown_p90": 1.02 + 0.1 * 0.04,
        }
    ],
    "slow_workers": [
        {
            "straggling": 85, "worker_driven": 2, "worker_driven_share": 2 / 85,
            "worker_driven_slowdown": 1 / 0.7, "straggling_slowdown": (20 / 0.7 + 65 / 0.84) / 85,
        }
    ],
    "last_stage": [
        {
            "analysed": 200, "without_pipeline": 40, "stage_driven": 77, "stage_driven_share": 0.385,
            "straggling": 85, "straggling_stage_driven": 68,
        }
    ],
    "sequence_imbalance": [
        {"sequence_driven": 43, "sequence_driven_share": 0.215, "sequence_driven_slowdown": 1 / 0.84}
    ],
    "trend": [
        {
            "week": known.JANUARY, "job_days": 200, "analysed_job_days": 100, "straggling_job_days": 43,
            "wasted_gpu_hours": known.GPU_HOURS * sum(map(known.waste_of, range(0, known.ANALYSED, 2))),
        },
        {"week": known.FEBRUARY},
    ],
    "discrepancy": [
        {
            "replayed_job_days": 280, "analysed_job_days": 200, "analysed_p50": 0.02, "analysed_p90": 0.04,
            "replayed_p90": 0.5,
        }
    ],
}  # fmt: skip
"""Expected answers of named queries to the known history: the rows in order."""


@pytest.mark.parametrize("name", ANSWERS)
def test_answers_of_a_known_history(history: Stated, name: str) -> None:
    rows, wanted = ask(history, name), ANSWERS[name]
    assert len(rows) == len(wanted)
    for row, columns in zip(rows, wanted, strict=True):
        for column, value in columns.items():
            assert row[column] == (pytest.approx(value, rel=1e-12) if isinstance(value, float) else value)


def test_a_period_takes_both_of_its_ends(history: Stated) -> None:
    (january,) = ask(history, "straggling", known.JANUARY, known.JANUARY)
    assert figures(january, "jobs", "analysed", "straggling") == (200, 100, 43)
    (both,) = ask(history, "straggling", known.JANUARY, known.FEBRUARY)
    assert both.jobs == 400
    (none,) = ask(history, "straggling", date(2026, 3, 1))
    assert figures(none, "jobs", "straggling_share", "wasted_gpu_hours_share") == (0, None, None)


def test_weeks_are_the_last_seven_days_and_the_seven_before() -> None:
    days = [DAY + timedelta(days=age) for age in range(16)]
    found = ask({JOB_SLOWDOWN: [{"log_date": day} for day in days]}, "weeks")
    names = ("weeks_ago", "first_day", "last_day", "job_days")
    assert [figures(row, *names) for row in found] == [(0, days[9], days[15], 7), (1, days[2], days[8], 7)]


def test_groups_have_their_shares_and_how_much_of_them_was_analysed(history: Stated) -> None:
    found = {(row.dimension, row.value): row for row in ask(history, "groups")}
    names = ("jobs", "analysed", "straggling", "straggling_share")
    assert figures(found["fleet", "fleet"], *names) == (400, 200, 85, 0.425)
    large, small = found["size_bucket", "256-511"], found["size_bucket", "128-255"]
    assert figures(large, *names[1:]) == (85, 85, 1.0)
    assert figures(small, *names[1:]) == (115, 0, 0.0)
    assert figures(found["team", "(not stated)"], *names) == (200, 0, 0, None)
    assert small.waste_p90 == pytest.approx(LITTLE, rel=1e-12)
    wasted = sum(row.wasted_gpu_hours or 0 for (kind, _), row in found.items() if kind == "team")
    assert wasted == pytest.approx(2080.0, rel=1e-12)


def test_a_run_of_several_days_counts_once_by_its_sums(spark: SparkSession) -> None:
    """A run of several days counts once; its slowdown is its total simulated time / its total ideal time."""
    first = {"simulated_total_s": 10.0, "ideal_total_s": 5.0, "slowdown": 2.0, "slow_worker_share": 1.0}
    second = {"simulated_total_s": 100.0, "ideal_total_s": 95.0, "slow_worker_share": 0.25}
    later = {"status": "no_ops", "slowdown": None, "log_date": known.FEBRUARY}
    mild = {"job_id": "mild", "simulated_total_s": 109.0, "ideal_total_s": 100.0, "slowdown": 9.0}
    tables = stated(spark, {JOB_SLOWDOWN: [first, second | {"log_date": NEXT_DAY}, later, mild]})
    (row,) = ask(tables, "straggling")
    assert figures(row, "jobs", "analysed", "straggling") == (2, 2, 1)
    (workers,) = ask(tables, "slow_workers")
    assert figures(workers, "worker_driven", "worker_driven_slowdown") == (1, 1.1)
    covered = ask(tables, "coverage")
    assert [(row.status, row.job_days) for row in covered] == [("no_ops", 1), ("analysed", 3)]
    hours = [row.gpu_hours_share for row in covered if row.status == "analysed"]
    assert hours == [row.analysed_gpu_hours_share]


def test_mixed_hardware_counts_each_unit_once_by_team_and_types() -> None:
    mixed: dict[str, Any] = {"cause": "mixed_hardware", "lost_gpu_hours": 24.0}
    other_team = {"job_id": "b", "lost_gpu_hours": None, "lost_fraction": None, "flag_reason": "few_steps"}
    not_stated = {"gpu_type": "(not stated)", "factor": None}
    types: list[dict[str, Any]] = [{"gpu_type": "H100", "factor": 1.0}, {"factor": 1.5}, not_stated]
    tables = {
        GPU_TYPE_SLOWDOWN: [unit | each for unit in UNITS for each in types],
        JOB_SLOWDOWN: UNITS,
        JOBS: [*UNITS[:2], UNITS[2] | {"team": None}],
        JOB_CAUSES: [*(unit | mixed for unit in UNITS[:2]), mixed | other_team, {"lost_gpu_hours": 99.0}],
    }
    own, other = ask(tables, "mixed_hardware", DAY, NEXT_DAY)
    assert [row.runs for row in ask(tables | {JOB_CAUSES: []}, "mixed_hardware", DAY, NEXT_DAY)] == [1, 1]
    assert figures(own, "team", "gpu_types", "runs", "job_days") == ("language", "A100 + H100", 1, 2)
    assert figures(own, "largest_factor", "lost_gpu_hours", "saved_gpu_hours") == (1.5, 48.0, 96.0)
    assert figures(other, "team", "flagged_job_days", "lost_gpu_hours") == ("(not stated)", 1, None)
    assert len(ask(tables, "mixed_hardware", NEXT_DAY)) == 1


def test_runs_whose_names_look_alike_together_are_two() -> None:
    units = [{"job_id": "a/b", "run_id": "c"}, {"job_id": "a", "run_id": "b/c"}]
    tables = dict.fromkeys((GPU_TYPE_SLOWDOWN, JOB_SLOWDOWN, JOBS), units)
    (row,) = ask(tables, "mixed_hardware", DAY)
    assert figures(row, "runs", "job_days") == (2, 2)


def test_causes_share_what_is_lost(spark: SparkSession) -> None:
    """What all causes lose adds up to what analysed units lose; other units add nothing."""
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


def test_hours_lost_to_a_cause_are_unknown_where_none_of_its_units_states_them(spark: SparkSession) -> None:
    """A cause has null hours, and is sorted by its share of time, if no unit that it slows states hours."""
    rows: list[dict[str, Any]] = [
        {"lost_gpu_hours": 60.0, "lost_fraction": 0.5},
        {"cause": "pause", "lost_gpu_hours": 0.0, "lost_fraction": 0.0, "is_cause": False},
        {"cause": "communication", "lost_gpu_hours": 0.0, "lost_fraction": 0.0, "is_cause": False},
        {"cause": "pause", "lost_gpu_hours": None, "lost_fraction": 0.25, "log_date": NEXT_DAY},
    ]
    units: list[dict[str, Any]] = [{"log_date": DAY}, {"log_date": NEXT_DAY, "gpu_hours": None}]
    tables = stated(spark, {JOB_CAUSES: rows, JOB_SLOWDOWN: units})
    assert [(row.cause, row.lost_gpu_hours, row.lost_gpu_hours_share) for row in ask(tables, "causes")] == [
        ("slow_worker", 60.0, 1.0),
        ("pause", None, None),
        ("communication", 0.0, 0.0),
    ]
    lost = {row.figure: (row.gpu_hours, row.of_recorded) for row in ask(tables, "waterfall")}
    assert (lost["pause"], lost["communication"]) == ((None, None), (0.0, 0.0))


LOST: Final = ("lost_gpu_hours", "lost_s")
OF_ONE_CAUSE: Final = ("mixed_hardware",)
OF_SOME_CAUSES: Final = ("cause_news",)
SAY_WHAT_IS_LOST: Final = ("causes", "fix_first", "groups", "runs", "straggling", "trend", "weeks")


def _units_that_lose(rng: np.random.Generator) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return rows of job_slowdown and job_causes; unit c states no GPU-hours, unit d is not analysed."""
    slowdowns: list[dict[str, Any]] = []
    causes: list[dict[str, Any]] = []
    for job, day in product("abcd", (DAY, NEXT_DAY)):
        key, hours = {"job_id": job, "log_date": day}, None if job == "c" else 192.0
        status = "too_few_steps" if job == "d" else "analysed"
        slowdowns.append(key | {"gpu_hours": hours, "status": status})
        found: list[dict[str, Any]] = [
            {
                "cause": cause,
                "is_cause": bool(rng.random() < 0.5) and cause != CAUSE_UNEXPLAINED,
                "attributed_fraction": float(rng.normal(0.04, 0.03)) if cause != CAUSE_UNEXPLAINED else 0.0,
                "time_saved_fraction": float(rng.uniform(0.0, 0.1)),
                "culprits": [culprit(0.5, host=host) for host in ("x", "y", None)[: rng.integers(4)]],
            }
            for cause in CAUSES
        ]
        lost = lost_columns(found, hours, is_analysed=job != "d")
        causes += [key | row | each for row, each in zip(found, lost, strict=True)]
    return slowdowns, causes


def test_every_view_table_and_query_says_the_same_of_what_is_lost(spark: SparkSession) -> None:
    slowdowns, causes = _units_that_lose(np.random.default_rng(30))
    jobs = [{name: row[name] for name in ("job_id", "log_date")} for row in slowdowns]
    tables = dict(stated(spark, {JOB_SLOWDOWN: slowdowns, JOB_CAUSES: causes, JOBS: jobs}))
    units = with_lost(frame(spark, JOB_SLOWDOWN, slowdowns), frame(spark, JOB_CAUSES, causes))
    tables[FLEET_DAY] = fleet_day(units).toArrow()
    wanted = {
        "lost_gpu_hours": sum(row["lost_gpu_hours"] or 0.0 for row in causes),
        "lost_s": sum((row["lost_fraction"] or 0.0) * 51.0 for row in causes),
    }
    questions = {
        name: f"SELECT * FROM {name}" for name in (*VIEWS, FLEET_DAY, CAUSE_DAY) if name not in OF_SOME_CAUSES
    }
    questions |= {f"query {name}": QUERIES[name].over() for name in QUERIES if name not in OF_ONE_CAUSE}
    seen = set()
    for name, sql in questions.items():
        rows = [row.asDict() for row in answer(sql, tables)]
        for column in LOST if rows else ():
            for dimension in {row.get("dimension") for row in rows} if column in rows[0] else ():
                lost = [row[column] or 0.0 for row in rows if row.get("dimension") == dimension]
                assert sum(lost) == pytest.approx(wanted[column]), (name, column, dimension)
                seen.add(name)
    assert seen >= {"fix_first", "fix_parts", "job_days", "job_history", "straggling_jobs", "cause_month"}
    assert seen >= {"fleet_month", FLEET_DAY, CAUSE_DAY, *(f"query {name}" for name in SAY_WHAT_IS_LOST)}
    parts = [row.asDict() for row in answer("SELECT * FROM waterfall", tables) if row.figure in CAUSES]
    for column, of_part in zip(LOST, ("gpu_hours", "seconds"), strict=True):
        assert sum(row[of_part] or 0.0 for row in parts) == pytest.approx(wanted[column])
