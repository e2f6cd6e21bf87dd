"""Replacing rows of a day changes no other day, and other engines read the same rows."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from jobs.warehouse.reader import on_units
from jobs.warehouse.tables import Warehouse
from schemas.table import SchemaError
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.views import VIEWS
from schemas.vocabulary import JOB_CAUSES, JOBS, PIPELINE_RUNS, RANK_STEPS, STAGE_SLOWDOWN
from tests.support.examples import DAY, NEXT_DAY, ROWS, frame, table_rows

STAGES = TABLES[STAGE_SLOWDOWN]
SECOND_DAY = {"log_date": NEXT_DAY}


@pytest.fixture
def warehouse(spark: SparkSession, tmp_path: Path) -> Warehouse:
    return Warehouse(spark, str(tmp_path / "warehouse"))


def stages(*slowdowns: float, day: date = DAY) -> pa.Table:
    changes = [{"pp_rank": rank, "slowdown": each, "log_date": day} for rank, each in enumerate(slowdowns)]
    return table_rows(STAGE_SLOWDOWN, changes)


def stored(warehouse: Warehouse, *days: date) -> list[tuple[date, int, float]]:
    found = warehouse.read(STAGES, days or None).collect()
    return sorted((row.log_date, row.pp_rank, row.slowdown) for row in found)


def test_a_table_that_was_never_written_has_no_rows(warehouse: Warehouse) -> None:
    assert not warehouse.exists(STAGE_SLOWDOWN)
    found = warehouse.read(STAGES, [DAY])
    assert found.count() == 0
    assert tuple(found.columns) == STAGES.column_names


def test_a_table_can_be_made_after_a_writer_died_before_its_first_commit(warehouse: Warehouse) -> None:
    log = Path(warehouse.path(STAGE_SLOWDOWN), "_delta_log")
    (log / "_staged_commits").mkdir(parents=True)
    (log / ".00000000000000000000.json.0.tmp").touch()
    warehouse.replace(STAGES, stages(1.0, 1.5), [DAY])
    assert stored(warehouse) == [(DAY, 0, 1.0), (DAY, 1, 1.5)]


def test_a_table_is_made_as_declared_and_locks_no_other_reader_out(warehouse: Warehouse) -> None:
    runs = TABLES[PIPELINE_RUNS]
    warehouse.replace(STAGES, stages(1.0).select(STAGES.column_names[::-1]), [DAY])
    for run in ("a", "b"):
        warehouse.append(runs, table_rows(PIPELINE_RUNS, [{"pipeline_run_id": run}]))
    for table in (STAGES, runs):
        made = DeltaTable(warehouse.path(table.name))
        assert (made.metadata().description, made.metadata().partition_columns) == (
            table.meaning,
            [*table.partition_by],
        )
        assert tuple(field.name for field in made.schema().fields) == table.column_names
        assert (made.protocol().min_reader_version, made.protocol().reader_features) == (1, None)
    assert sorted(warehouse.rows(runs)["pipeline_run_id"].to_pylist()) == ["a", "b"]


def test_a_replaced_day_is_there_once_and_other_days_stay(warehouse: Warehouse) -> None:
    for _ in range(2):
        warehouse.replace(STAGES, stages(1.0, 1.5), [DAY])
    assert stored(warehouse) == [(DAY, 0, 1.0), (DAY, 1, 1.5)]
    warehouse.replace(STAGES, stages(2.0, day=NEXT_DAY), [NEXT_DAY])
    warehouse.replace(STAGES, stages(3.0), [DAY])
    assert stored(warehouse) == [(DAY, 0, 3.0), (NEXT_DAY, 0, 2.0)]
    assert stored(warehouse, NEXT_DAY) == [(NEXT_DAY, 0, 2.0)]


def test_a_batch_of_days_is_replaced_whole_also_by_days_without_rows(warehouse: Warehouse) -> None:
    both = [NEXT_DAY, DAY, DAY]
    warehouse.replace(STAGES, pa.concat_tables([stages(1.0), stages(2.0, day=NEXT_DAY)]), both)
    assert stored(warehouse) == [(DAY, 0, 1.0), (NEXT_DAY, 0, 2.0)]
    warehouse.replace(STAGES, stages(4.0), both)
    assert stored(warehouse) == [(DAY, 0, 4.0)]
    warehouse.replace(STAGES, stages(), [DAY])
    assert stored(warehouse) == []


@pytest.mark.parametrize("is_first_write", [True, False])
def test_rows_of_another_day_are_refused_and_the_table_stays(
    warehouse: Warehouse, *, is_first_write: bool
) -> None:
    if not is_first_write:
        warehouse.replace(STAGES, stages(1.0), [DAY])
    before = stored(warehouse)
    with pytest.raises(
        ValueError, match="stage_slowdown: rows of log_date 2026-01-06, which is not replaced"
    ):
        warehouse.replace(STAGES, stages(1.0, day=NEXT_DAY), [DAY])
    assert stored(warehouse) == before


def test_the_error_for_another_schema_lists_all_differences(warehouse: Warehouse) -> None:
    one = pa.array([1], pa.int32())
    wrong = stages(1.0).drop_columns(["run_id", "slowdown"])
    wrong = wrong.append_column("slowdown", one).append_column("more", one)
    writes: list[Callable[[], None]] = [
        lambda: warehouse.replace(STAGES, wrong, [DAY]),
        lambda: warehouse.append(STAGES, wrong),
    ]
    for write in writes:
        with pytest.raises(SchemaError) as raised:
            write()
        assert str(raised.value) == (
            "table stage_slowdown: 3 differences: column run_id is missing (wanted string); "
            "column slowdown is int32 (wanted double); column more is not in the table"
        )
    assert not warehouse.exists(STAGE_SLOWDOWN)


@pytest.mark.parametrize("name", [RANK_STEPS, JOBS])
def test_other_readers_see_the_same_rows(warehouse: Warehouse, name: str) -> None:
    table = TABLES[name]
    warehouse.replace(table, table_rows(name, [{}, SECOND_DAY]), [DAY, NEXT_DAY])
    by_deltalake = DeltaTable(warehouse.path(name)).to_pyarrow_table()
    by_polars = pl.read_delta(warehouse.path(name))
    assert table.differences(by_deltalake.schema) == []
    for found in (by_deltalake.to_pylist(), by_polars.to_dicts()):
        assert [row["log_date"] for row in sorted(found, key=lambda row: row["log_date"])] == [DAY, NEXT_DAY]
    row = by_deltalake.to_pylist(maps_as_pydicts="strict")[0]
    expected = {column: ROWS[name].get(column) for column in table.column_names}
    assert row | {"log_date": DAY} == expected
    first = by_polars.sort("log_date").to_dicts()[0]
    plain = [column for column in table.column_names if column != "labels"]  # polars has no type for maps
    assert {column: first[column] for column in plain} == {column: expected[column] for column in plain}


def test_all_tables_and_views_can_be_queried_before_any_exists(warehouse: Warehouse) -> None:
    assert warehouse.register_views() == 0
    for name in (*TABLES, *VIEWS):
        assert warehouse.spark.table(name).count() == 0
    warehouse.replace(STAGES, stages(1.0), [DAY])
    assert warehouse.register_views() == 1
    assert warehouse.spark.table(STAGE_SLOWDOWN).count() == 1


def test_units_as_sql_stand_beside_their_days() -> None:
    units = {Unit(NEXT_DAY, "it's", "r1"), Unit(DAY, "a", "r2"), Unit(DAY, "a", "r1")}
    assert on_units([DAY, NEXT_DAY], units) == (
        "log_date IN (DATE'2026-01-05', DATE'2026-01-06') AND "
        "job_id IN ('a', 'it\\'s') AND run_id IN ('r1', 'r2') AND ("
        "(log_date = DATE'2026-01-05' AND (job_id, run_id) IN (('a', 'r1'), ('a', 'r2'))) OR "
        "(log_date = DATE'2026-01-06' AND (job_id, run_id) IN (('it\\'s', 'r1'))))"
    )
    assert on_units([NEXT_DAY, DAY, NEXT_DAY], None) == "log_date IN (DATE'2026-01-05', DATE'2026-01-06')"
    assert on_units([DAY], set()) == "false"


def test_units_of_a_day_are_replaced_and_its_other_rows_stay(warehouse: Warehouse) -> None:
    others: list[dict[str, Any]] = [{"job_id": "it's"}, {"run_id": "r4"}, {"log_date": NEXT_DAY}]
    warehouse.replace(STAGES, table_rows(STAGE_SLOWDOWN, [{}, *others]), [DAY, NEXT_DAY])
    unit, quoted = Unit(DAY, "gpt-175b", "r3"), Unit(DAY, "it's", "r3")
    warehouse.replace(STAGES, table_rows(STAGE_SLOWDOWN, [{"slowdown": 9.0}]), [DAY], {unit, quoted})
    found = sorted(
        (row.log_date, row.job_id, row.run_id, row.slowdown) for row in warehouse.read(STAGES).collect()
    )
    assert found == [
        (DAY, "gpt-175b", "r3", 9.0),
        (DAY, "gpt-175b", "r4", 0.96),
        (NEXT_DAY, "gpt-175b", "r3", 0.96),
    ]
    assert warehouse.read(STAGES, [DAY], {unit}).count() == 1
    with pytest.raises(ValueError, match="other"):
        warehouse.replace(STAGES, table_rows(STAGE_SLOWDOWN, [{"job_id": "other"}]), [DAY], {unit})


def test_a_column_that_came_later_is_null_before_and_there_after(warehouse: Warehouse) -> None:
    table = TABLES[PIPELINE_RUNS]
    frame(warehouse.spark, PIPELINE_RUNS).drop("phases").write.format("delta").save(
        warehouse.path(PIPELINE_RUNS)
    )
    assert [row.phases for row in warehouse.read(table).collect()] == [None]
    warehouse.append(table, table_rows(PIPELINE_RUNS, [{"pipeline_run_id": "later"}]))
    phases_of = {row.pipeline_run_id: row.phases for row in warehouse.read(table).collect()}
    assert phases_of.pop("later")[0].phase == "ingest"
    assert list(phases_of.values()) == [None]


def test_ingested_tables_can_be_those_of_another_warehouse(warehouse: Warehouse) -> None:
    beside = Warehouse(warehouse.spark, f"{warehouse.root}-new", ingested=warehouse.root)
    assert beside.path(JOBS) == warehouse.path(JOBS)
    assert beside.path(STAGE_SLOWDOWN) == f"{warehouse.root}-new/{STAGE_SLOWDOWN}"
    assert beside.ingested.path(STAGE_SLOWDOWN) == warehouse.path(STAGE_SLOWDOWN)
    assert warehouse.ingested is warehouse


@pytest.mark.parametrize("name", [JOBS, JOB_CAUSES])
def test_of_units_that_are_not_there_no_rows_are_read(warehouse: Warehouse, name: str) -> None:
    """Reading a unit that does not exist gives no rows, also from tables with maps and lists."""
    warehouse.replace(TABLES[name], table_rows(name), [DAY])
    assert warehouse.read(TABLES[name], [DAY], {Unit(DAY, "absent", "r1")}).collect() == []
    assert warehouse.read(TABLES[name], [DAY], {Unit(DAY, "gpt-175b", "r3")}).count() == 1
