"""A table whose structs have fewer fields, as an older version wrote it, can be read and written to."""

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from jobs.reading.database import Database
from jobs.warehouse import delta_files
from jobs.warehouse.table_log import on_days
from jobs.warehouse.tables import Warehouse
from schemas.job_causes import CULPRIT
from schemas.tables import TABLES
from schemas.vocabulary import JOB_CAUSES
from tests.support.examples import DAY, NEXT_DAY, table_rows

TABLE = TABLES[JOB_CAUSES]
OF_0_3_0 = ("pp_rank", "dp_rank", "rank", "host", "effect", "share_of_steps", "pattern")
THIRD_DAY = NEXT_DAY + timedelta(days=1)
SLOW_HOST = {"effect": 0.5, "share_of_steps": 1.0, "pattern": "always", "slow_host": "h", "workers": []}


def _earlier(kind: pa.DataType) -> pa.DataType:
    """Return the type that version 0.3.0 had for a column of this type: its structs have fewer fields."""
    if kind == CULPRIT:
        return pa.struct([CULPRIT.field(name) for name in OF_0_3_0])
    if pa.types.is_list(kind):
        return pa.list_(_earlier(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_earlier(each.type)) for each in kind])
    return kind


def rows(day: date, *culprits: Mapping[str, object]) -> pa.Table:
    return table_rows(JOB_CAUSES, [{"log_date": day, "culprits": culprits}])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Path of a warehouse with one day, in the form that version 0.3.0 wrote."""
    schema = pa.schema([pa.field(each.name, _earlier(each.type)) for each in TABLE.arrow_schema])
    culprit = {"pp_rank": 0, "rank": 4, "host": "old", "effect": 0.5, "share_of_steps": 1.0} | {
        "pattern": "always",
        "dp_rank": 1,
    }
    row = rows(DAY).to_pylist(maps_as_pydicts="strict")[0] | {"culprits": [culprit]}
    earlier = pa.Table.from_pylist([row], schema)
    path = str(tmp_path / JOB_CAUSES)
    write_deltalake(path, earlier, partition_by=[*TABLE.partition_by])
    return tmp_path


def hosts(found: pa.Table) -> list[tuple[Any, ...]]:
    """Return (day, host, slow host) of every culprit, sorted."""
    return sorted(
        (row["log_date"], culprit["host"], culprit["slow_host"])
        for row in found.to_pylist()
        for culprit in row["culprits"]
    )


def test_rows_with_new_fields_are_committed_to_a_table_that_shows_them(root: Path) -> None:
    path = str(root / JOB_CAUSES)
    new = rows(NEXT_DAY, SLOW_HOST)
    delta_files.put(str(root), TABLE, new, on_days(TABLE, [NEXT_DAY]))
    assert DeltaTable(path).version() == 2, "one commit adds fields, the next adds rows"
    assert hosts(delta_files.few_rows(path, None, TABLE, [DAY])) == [(DAY, "old", None)]
    assert hosts(delta_files.few_rows(path, None, TABLE, [NEXT_DAY])) == [(NEXT_DAY, None, "h")]


def test_a_night_over_an_earlier_warehouse_keeps_every_field(root: Path, spark: SparkSession) -> None:
    """The first write by this version adds the new fields, and all fields keep their values."""
    warehouse, path = Warehouse(spark, str(root)), str(root / JOB_CAUSES)
    before = warehouse.read(TABLE).selectExpr("explode(culprits) AS each").selectExpr("each.*").toArrow()
    assert before["slow_host"].to_pylist() == [None]
    warehouse.replace(TABLE, rows(NEXT_DAY, SLOW_HOST), [NEXT_DAY])
    later = rows(THIRD_DAY, SLOW_HOST)
    delta_files.put(str(root), TABLE, later, on_days(TABLE, [THIRD_DAY]))
    expected = [(DAY, "old", None), (NEXT_DAY, None, "h"), (THIRD_DAY, None, "h")]
    assert hosts(delta_files.few_rows(path, None, TABLE, None)) == expected
    assert hosts(warehouse.read(TABLE).toArrow()) == expected
    with Database(str(root)).connection([JOB_CAUSES]) as connection:
        assert hosts(connection.sql(f"FROM {JOB_CAUSES}").to_arrow_table()) == expected
