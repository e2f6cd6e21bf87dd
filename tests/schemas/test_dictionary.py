"""The data dictionary says everything that the declarations say."""

import pyarrow as pa
import pytest

from schemas.dictionary import entries, type_name
from schemas.tables import TABLES


def test_every_column_of_every_table_has_its_entry() -> None:
    listed = [(entry.table, entry.column, entry.is_nullable) for entry in entries()]
    assert listed == [
        (table.name, column.name, column.nullable) for table in TABLES.values() for column in table.columns
    ]


def test_an_entry_has_type_unit_key_and_bounds() -> None:
    found = {(entry.table, entry.column): entry for entry in entries()}
    op = found["rank_steps", "op"]
    assert (op.type, op.unit, op.is_key, op.is_nullable) == ("array<tinyint>", "", False, False)
    assert op.meaning.endswith("at least 0; at most 13")
    assert found["rank_steps", "rank"].is_key
    assert found["step_slowdown", "ideal_step_s"].unit == "s"
    assert "one of unusable_log, no_manifest, bad_layout" in found["job_slowdown", "status"].meaning


def test_a_type_that_has_no_name_in_sql_is_an_error() -> None:
    assert type_name(pa.map_(pa.string(), pa.string())) == "map<string,string>"
    structs = pa.list_(pa.struct([("rank", pa.int32()), ("host", pa.string())]))
    assert type_name(structs) == "array<struct<rank:int,host:string>>"
    with pytest.raises(KeyError):
        type_name(pa.float16())
