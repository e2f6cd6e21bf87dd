"""Test declarations of tables, and what is derived from them: rules, dictionary, schema differences."""

import re
from dataclasses import replace

import pyarrow as pa
import pytest

from schemas.dictionary import entries, type_name
from schemas.queries import QUERIES
from schemas.table import Column, SchemaError, Table, same_type
from schemas.tables import TABLES
from schemas.views import VIEWS
from schemas.vocabulary import (
    HOST_HEALTH,
    INGESTED_TABLES,
    JOB_SLOWDOWN,
    OP_TYPES,
    RESULT_TABLES,
    TABLE_NAMES,
    UNIT_KEY,
)

EVERY_TABLE = pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))

ORDERS = Table(
    name="orders",
    meaning="orders",
    grain=("id",),
    columns=(
        Column("id", "number", pa.int64()),
        Column("state", "state", pa.string(), nullable=True, allowed=("open", "it's done")),
        Column("price", "price", pa.float64(), minimum=0),
        Column("weights", "weights", pa.list_(pa.float64()), minimum=0, maximum=9),
        Column("marks", "marks", pa.map_(pa.string(), pa.string()), nullable=True),
        Column("shares", "shares", pa.map_(pa.string(), pa.float64())),
        Column("parts", "parts", pa.list_(pa.struct([("nr", pa.int64())]))),
    ),
    partition_by=(),
)


def test_tables_are_those_of_the_vocabulary() -> None:
    assert tuple(TABLES) == TABLE_NAMES
    assert all(name == table.name for name, table in TABLES.items())


@EVERY_TABLE
def test_every_column_has_a_meaning_and_every_number_with_a_dimension_a_unit(table: Table) -> None:
    assert table.meaning
    for column in table.columns:
        assert column.meaning, column.name
        is_real = pa.types.is_floating(getattr(column.type, "value_type", column.type))
        assert column.unit or not is_real, f"{column.name} is a real number without a unit"


@EVERY_TABLE
def test_expectations_have_distinct_names_and_meanings(table: Table) -> None:
    expectations = table.all_expectations()
    names = [expectation.name for expectation in expectations]
    assert len(names) == len(set(names))
    assert all(expectation.meaning for expectation in expectations)


@EVERY_TABLE
def test_key_columns_are_never_null_except_where_null_is_a_value_of_the_key(table: Table) -> None:
    nullable = {column.name for column in table.columns if column.nullable}
    assert nullable.isdisjoint(set(table.grain) - {"line"})  # null if a whole file is rejected


def test_tables_of_units_start_with_the_unit() -> None:
    for name in {*INGESTED_TABLES, *RESULT_TABLES} - {
        HOST_HEALTH
    }:  # whose rows belong to a day, not to a run
        assert TABLES[name].column_names[:3] == UNIT_KEY
        assert TABLES[name].grain[:3] == UNIT_KEY
        assert TABLES[name].partition_by == ("log_date",)


def test_value_schema_is_the_table_without_its_unit() -> None:
    table = TABLES[JOB_SLOWDOWN]
    assert (*UNIT_KEY, *table.value_schema.names) == table.column_names


def test_schema_of_the_table_itself_has_no_differences_whatever_order_and_nullability() -> None:
    fields = [pa.field(field.name, field.type, nullable=False) for field in ORDERS.arrow_schema][::-1]
    assert ORDERS.differences(pa.schema(fields)) == []
    ORDERS.check(pa.schema(fields))


def test_all_differences_are_listed_at_once() -> None:
    columns: list[tuple[str, pa.DataType]] = [
        ("id", pa.int32()),
        ("state", pa.string()),
        ("state", pa.string()),
        ("weights", pa.list_(pa.float32())),
        ("marks", pa.map_(pa.string(), pa.string())),
        ("shares", pa.map_(pa.string(), pa.float64())),
        ("parts", pa.list_(pa.struct([("nr", pa.int64())]))),
        ("colour", pa.string()),
    ]
    with pytest.raises(SchemaError) as raised:
        ORDERS.check(pa.schema(columns))
    assert str(raised.value) == (
        "table orders: 5 differences: column id is int32 (wanted int64); column state occurs 2 times; "
        "column price is missing (wanted double); "
        f"column weights is {pa.list_(pa.float32())} (wanted {pa.list_(pa.float64())}); "
        "column colour is not in the table"
    )


def test_types_are_equal_whatever_the_inner_names() -> None:
    assert same_type(pa.list_(pa.int8()), pa.list_(pa.field("element", pa.int8(), nullable=False)))
    assert not same_type(pa.list_(pa.int8()), pa.list_(pa.int16()))
    assert not same_type(pa.map_(pa.string(), pa.string()), pa.map_(pa.string(), pa.int8()))
    assert not same_type(pa.timestamp("us", tz="UTC"), pa.timestamp("us"))


def test_expectations_follow_from_the_columns() -> None:
    conditions = {expectation.name: expectation.condition for expectation in ORDERS.all_expectations()}
    assert list(conditions) == [
        "id_not_null",
        "state_allowed",
        "price_not_null",
        "price_finite",
        "price_in_range",
        "shares_not_null",
        "shares_values_finite",
        "parts_not_null",
        "weights_not_null",
        "weights_elements_not_null",
        "weights_elements_finite",
        "weights_elements_in_range",
    ]
    assert not any(each.name.startswith("weights") for each in ORDERS.expectations_of_scalars())
    assert conditions["state_allowed"] == "state IS NULL OR (state IN ('open', 'it\\'s done'))"
    assert conditions["price_in_range"] == "price >= 0"


def test_a_declaration_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(SchemaError, match="declared twice \\['id'\\], key columns not declared \\['nr'\\]"):
        replace(ORDERS, grain=("nr",), columns=(*ORDERS.columns, ORDERS.columns[0]))


def test_every_column_of_every_table_has_its_entry() -> None:
    listed = [(entry.table, entry.column, entry.is_nullable) for entry in entries()]
    assert listed == [
        (table.name, column.name, column.nullable) for table in TABLES.values() for column in table.columns
    ]


def test_an_entry_has_type_unit_key_and_bounds() -> None:
    found = {(entry.table, entry.column): entry for entry in entries()}
    op = found["rank_steps", "op"]
    assert (op.type, op.unit, op.is_key, op.is_nullable) == ("array<tinyint>", "", False, False)
    assert op.meaning.endswith(f"at least 0; at most {len(OP_TYPES) - 1}")
    assert found["rank_steps", "rank"].is_key
    assert found["step_slowdown", "ideal_step_s"].unit == "s"
    assert "one of unusable_log, step_times_only, no_manifest" in found["job_slowdown", "status"].meaning


def test_a_type_that_has_no_name_in_sql_is_an_error() -> None:
    assert type_name(pa.map_(pa.string(), pa.string())) == "map<string,string>"
    structs = pa.list_(pa.struct([("rank", pa.int32()), ("host", pa.string())]))
    assert type_name(structs) == "array<struct<rank:int,host:string>>"
    with pytest.raises(KeyError):
        type_name(pa.float16())


def test_no_meaning_has_a_placeholder_that_was_not_filled_in() -> None:
    meanings = {name: each.meaning for name, each in (TABLES | VIEWS | QUERIES).items()}
    meanings |= {f"{each.table}.{each.column}": each.meaning for each in entries()}
    meanings |= {
        f"{table.name}, {each.name}": each.meaning for table in TABLES.values() for each in table.expectations
    }
    assert [name for name, text in meanings.items() if re.search(r"\{[A-Z]", text)] == []
