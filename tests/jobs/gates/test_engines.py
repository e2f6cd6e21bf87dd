"""Rules are written in Spark's SQL and evaluated by DuckDB, which gives the same results as Spark."""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from jobs.gates.registered import judge
from jobs.warehouse.dialect import condition
from jobs.warehouse.frames import collected, spark_schema
from schemas.table import Expectation, Table
from schemas.tables import TABLES
from tests.support.examples import ROWS, culprit, table_rows

NUMBERS: Final = (None, -1, 0, 1, 10**6, -0.5, 0.5, 1.5, math.nan, math.inf, -math.inf)
TEXTS: Final = (None, "", "other", "x" * 2001)
HELD: Final[Mapping[str, list[dict[str, Any]]]] = {
    "every_stage_is_there": [{"stages": []}],
    "culprits_have_their_course": [
        {"culprits": [culprit(0.5), None]},
        {"culprits": [culprit(0.5, course="sometimes")]},
        {"culprits": [culprit(0.5, last_step=3)]},
    ],
    "one_worker_has_its_rank": [{"culprits": [culprit(0.5, rank=None)]}],
    "culprits_are_described": [{"culprits": [culprit(math.nan)]}, {"culprits": [culprit(0.5, 1.5)]}],
    "slow_hosts_are_named": [{"slow_hosts": [(None, 0.5)]}, {"slow_hosts": [("a", math.inf)]}],
    "times_are_known": [{"op_types": [("forward-compute", None)]}, {"stages": [(0, math.nan, None)]}],
    "waited_for_if_on_the_path": [{"waited_for_s": 0.0, "is_waited_for": True}],
    "revised_rows_say_so": [{"evidence": {"revised_from": 1.0}}, {"flag_reason": "judged_by_history"}],
}
"""By rule: changes of a good row that break rules which the values of _values do not break."""


def _values(kind: pa.DataType) -> tuple[Any, ...]:
    """Return values of a column's type, some of which are refused by some rules."""
    found: tuple[Any, ...] = (None,)
    if pa.types.is_floating(kind):
        found = NUMBERS
    elif pa.types.is_integer(kind):
        found = (None, -1, 0, 1, 100)
    elif pa.types.is_boolean(kind):
        found = (None, True, False)
    elif pa.types.is_string(kind):
        found = TEXTS
    elif pa.types.is_map(kind):
        held, keys = _values(kind.item_type), ("peers", "odd") if pa.types.is_string(kind.key_type) else (0,)
        found = (None, {}, *({key: value} for key in keys for value in held))
    elif pa.types.is_list(kind):
        of = _values(kind.value_type)
        found = (None, [], *([each] for each in of), *([of[-1], each] for each in of))
    return found


def _rows(table: Table) -> pa.Table:
    """Return the table's good row, copies with one column changed, and copies with the changes in HELD."""
    changes: list[dict[str, Any]] = [{}]
    for column in table.columns:
        changes += [{column.name: value} for value in _values(column.type)]
        if column.allowed:
            changes += [{column.name: value} for value in column.allowed]
    for rule in table.expectations:
        changes += HELD.get(rule.name, ())
    floats = {field.name for field in table.arrow_schema if pa.types.is_floating(field.type)}
    changes += [dict.fromkeys(floats & {*ROWS[table.name]}, 0.0)]
    return table_rows(table.name, changes)


def _by_duckdb(table: Table, rules: list[Expectation], rows: pa.Table) -> Iterator[tuple[bool | None, ...]]:
    with judge({"rows_of_table": (table, rows)}) as connection:
        asked = ", ".join(f"({condition(each.condition)})" for each in rules)
        yield from connection.execute(f"SELECT {asked} FROM rows_of_table").fetchall()


@pytest.fixture(scope="module")
def by_spark(spark: SparkSession) -> dict[str, pa.Table]:
    """Spark's result of each rule for each row: by table, one column for each rule."""
    frames = {
        table.name: spark.createDataFrame(_rows(table), spark_schema(table))
        .coalesce(1)
        .selectExpr(*(f"({rule.condition}) AS r{n}" for n, rule in enumerate(table.all_expectations())))
        for table in TABLES.values()
    }
    return collected(frames)


@pytest.mark.parametrize("table", TABLES.values(), ids=list(TABLES))
def test_every_rule_is_judged_alike_and_some_row_breaks_it(
    by_spark: dict[str, pa.Table], table: Table
) -> None:
    rules = [*table.all_expectations()]
    ours_by_rule = zip(*_by_duckdb(table, rules, _rows(table)), strict=True)
    unlike, unbroken = [], []
    for rule, ours, theirs in zip(rules, ours_by_rule, by_spark[table.name].columns, strict=True):
        pairs = zip(ours, theirs.to_pylist(), strict=True)
        unlike += [(rule.name, *pair) for pair in pairs if pair[0] is not pair[1]]
        unbroken += [rule.name] if all(each is True for each in ours) else []
    assert unlike == []
    assert unbroken == []


def test_a_rule_that_duckdb_would_judge_otherwise_is_seen() -> None:
    """For a list with a null, array_contains gives false in DuckDB, where it is unknown (null) in Spark."""
    with duckdb.connect() as connection:
        sql = condition("array_contains(array(1, null), 2)")
        assert connection.execute(f"SELECT {sql}").fetchone() == (False,)
