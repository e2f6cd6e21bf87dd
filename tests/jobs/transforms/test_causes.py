"""Causes of units through Spark and Delta to cause_day, and what must hold between the tables of causes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from jobs.stage import publish
from jobs.transforms.causes import cause_day, miscounted_causes, units_of_other_gpu_hours
from jobs.transforms.what_if import incomplete_units, result_rows, units_without_result
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import (
    CAUSE_DAY,
    CAUSES,
    FLEET_DAY,
    JOB_CAUSES,
    JOB_SLOWDOWN,
    JOBS,
    OP_TYPE_SLOWDOWN,
    RANK_STEPS,
    RESULT_TABLES,
    UNIT_KEY,
)
from tests.diagnoses import DIAGNOSIS, unit_rows
from tests.examples import DAY, NEXT_DAY, frame
from tests.udfs.lines import manifest
from udfs.kernel import what_if
from udfs.unit_batches import MANIFEST, RESULT_SCHEMA, SIMULATED_COLUMNS, simulate_batches
from udfs.what_if import SimulationSettings

LAYOUT = manifest(dp_size=2, pp_size=2)
HOURS = ("attributed_gpu_hours", "recoverable_gpu_hours")
FIELDS = ", ".join(f"'{name}', each.{name}" for name in TABLES[JOB_CAUSES].value_schema.names)


def batch(job_id: str, facts: dict[str, Any]) -> pa.RecordBatch:
    """Rows of one unit as the simulation reads them, the manifest first."""
    types = {field.name: field.type for field in TABLES[RANK_STEPS].arrow_schema} | {MANIFEST: pa.string()}
    schema = pa.schema([(name, types[name]) for name in (*UNIT_KEY, MANIFEST, *SIMULATED_COLUMNS)])
    key = {"log_date": DAY, "job_id": job_id, "run_id": "r3"}
    rows = [{MANIFEST: json.dumps(facts)}, *unit_rows()]
    return pa.RecordBatch.from_pylist([key | row for row in rows], schema=schema)


def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


@pytest.fixture
def results(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> DataFrame:
    """Unit "a" with GPU-hours, "b" without, "c" not replayed; after a way through mapInArrow."""
    monkeypatch.setattr(what_if, "diagnose", lambda blocks, job: DIAGNOSIS)
    units = [
        batch("a", LAYOUT | {"gpu_hours": 64.0}),
        batch("b", LAYOUT),
        batch("c", LAYOUT | {"restarts": 99}),
    ]
    simulated = pa.Table.from_batches(simulate_batches(SimulationSettings())(units))
    return spark.createDataFrame(simulated).mapInArrow(unchanged, from_arrow_schema(RESULT_SCHEMA))


def test_causes_of_units_come_back_from_delta_as_they_went(
    spark: SparkSession, results: DataFrame, tmp_path: Path
) -> None:
    warehouse = Warehouse(spark, str(tmp_path))
    causes = result_rows(results)[JOB_CAUSES]
    assert publish("simulate", warehouse, {JOB_CAUSES: causes}, [DAY]).rows == {JOB_CAUSES: 14}
    stored = warehouse.read(TABLES[JOB_CAUSES])
    rows = {
        (row["job_id"], row["cause"]): row for row in stored.toArrow().to_pylist(maps_as_pydicts="strict")
    }
    assert set(rows) == {(job_id, cause) for job_id in "ab" for cause in CAUSES}
    slow, heavy = rows["a", "slow_worker"], rows["b", "stage_imbalance"]
    assert slow["evidence"] == {
        "effect": 0.5,
        "standard_error": 0.01,
        "peers": 1.0,
        "samples": 64.0,
        "indicator": 1.22,
    }
    assert [tuple(culprit.values()) for culprit in slow["culprits"]] == [
        (1, 0, 1, "node-01", 0.5, 0.25, "intermittent"),
        (None, 1, None, None, 0.125, 1.0, "always"),
    ]
    assert heavy["evidence"] == {"effect": 0.25, "peers": 1.0, "samples": 64.0}
    assert (heavy["flag_reason"], heavy["recoverable_gpu_hours"]) == ("few_peers", None)
    assert (rows["a", "data_imbalance"]["culprits"], rows["a", "data_imbalance"]["evidence"]) == ([], {})


def test_rules_across_the_result_tables_hold_and_are_seen_to_be_broken(results: DataFrame) -> None:
    kept = results.persist()
    assert incomplete_units(kept).count() == units_of_other_gpu_hours(kept).count() == 0
    for name in RESULT_TABLES:
        lacks_a_row = kept.withColumn(name, F.slice(name, F.lit(1), F.greatest(F.size(name) - 1, F.lit(0))))
        expected = {"a", "b", "c"} if name == JOB_SLOWDOWN else {"a", "b"}
        if name == OP_TYPE_SLOWDOWN:  # which types there are, nothing else tells
            expected = set()
        assert {row.job_id for row in incomplete_units(lacks_a_row).collect()} == expected, name
    changes = {
        "attributed_gpu_hours + 1e-9": {"a"},
        "recoverable_gpu_hours - 1e-9": {"a"},
        "attributed_gpu_hours * double(null)": {"a"},
        "coalesce(attributed_gpu_hours, 1)": {"b"},
    }
    for change, units in changes.items():
        hours = next(name for name in HOURS if name in change)
        changed = f"named_struct({FIELDS.replace(f'each.{hours}', change.replace(hours, f'each.{hours}'))})"
        broken = kept.withColumn(JOB_CAUSES, F.expr(f"transform({JOB_CAUSES}, each -> {changed})"))
        assert {row.job_id for row in units_of_other_gpu_hours(broken).collect()} == units, change
    kept.unpersist()


def test_units_lost_and_units_made_up_have_no_result_of_their_own(spark: SparkSession) -> None:
    jobs, found = (
        frame(spark, table, [{"job_id": name} for name in names])
        for table, names in ((JOBS, "ab"), (JOB_SLOWDOWN, "bc"))
    )
    assert units_without_result(found, found).count() == 0
    assert {row.job_id for row in units_without_result(jobs, found).collect()} == {"a", "c"}


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
