"""Audit: check rows against their table's declaration before they become visible.

DuckDB reads the rows where they are, in the driver's memory or in files, without a conversion. Expectations
are written in Spark SQL and transpiled to DuckDB. Both engines give the same result
(tests/jobs/gates/test_engines.py).
"""

from collections.abc import Sequence
from datetime import date
from functools import lru_cache
from typing import Final

import duckdb
import pyarrow as pa
from sqlglot.errors import SqlglotError

from jobs.gates.checks import KEY_EXPECTATION, LOG_DATE, SCHEMA_EXPECTATION, Check, GateError, known_days
from jobs.gates.registered import judge
from jobs.warehouse.delta_tables import quoted
from jobs.warehouse.dialect import condition
from jobs.warehouse.rows import FileRows, Rows, StagedRows
from schemas.table import Expectation, Table

_ROWS: Final = "rows_of_table"
MOST_KEPT: Final = 100_000
"""Limit on the rows that broken_rows returns, enough to see why rows break expectations."""
_transpiled: Final = lru_cache(maxsize=4096)(condition)


def audit(table: Table, rows: Rows, extra: Sequence[Expectation] = ()) -> list[Check]:
    """Return a check for each expectation, of a table or of `extra`, that some rows break.

    Raises GateError if an expectation could not be evaluated, which never counts as a pass.
    """
    if wrong := _differences(table, rows):
        return [Check(table.name, SCHEMA_EXPECTATION, rows.num_rows, wrong)]
    expectations = _expectations(table, rows, extra)
    days: dict[str, Sequence[date | None]] = {}
    with judge({_ROWS: (table, rows)}) as connection:
        counts = _counts(connection, table, expectations)
        if any(counts) and LOG_DATE in table.column_names:
            names = f"SELECT {LOG_DATE} AS day, unnest(broken) AS name FROM ({_broken(table, expectations)})"
            of_names = f"SELECT name, list(DISTINCT day) FROM ({names}) GROUP BY name"
            days = dict(connection.execute(of_names).fetchall())
    return [
        Check(table.name, each.name, count, each.meaning, known_days(days.get(each.name, ())), each.severity)
        for each, count in zip(expectations, counts, strict=True)
        if count
    ]


def broken_rows(table: Table, rows: Rows, extra: Sequence[Expectation] = ()) -> pa.Table:
    """Return the first MOST_KEPT rows that break expectations, named in a column `broken`.

    If the schema differs from the declared one, returns the first rows without that column.
    """
    if isinstance(rows, pa.Table) and _differences(table, rows):
        return rows.slice(0, MOST_KEPT)
    expectations = _expectations(table, rows, extra)
    with judge({_ROWS: (table, rows)}) as connection:
        return connection.sql(f"{_broken(table, expectations)} LIMIT {MOST_KEPT}").to_arrow_table()


def warnings(tables: Sequence[tuple[Table, pa.Table | FileRows]]) -> list[Check]:
    """Return a check per day for each expectation of severity `warns` that published rows break."""
    found = []
    for table, rows in tables:
        rules = [each for each in table.all_expectations() if each.severity == "warns"]
        with judge({_ROWS: (table, rows)}) as connection:
            for each in rules:
                of_rows = f"FROM {_ROWS} WHERE {_breaks(each)} GROUP BY ALL ORDER BY ALL"
                found += [
                    Check(table.name, each.name, count, each.meaning, (day,), each.severity)
                    for day, count in connection.execute(f"SELECT {LOG_DATE}, count(*) {of_rows}").fetchall()
                ]
    return found


def _differences(table: Table, rows: Rows) -> str:
    """Return the missing and wrong columns of an Arrow table as text; empty for staged rows."""
    return "; ".join(table.differences(rows.schema)) if isinstance(rows, pa.Table) else ""


def _expectations(table: Table, rows: Rows, extra: Sequence[Expectation]) -> list[Expectation]:
    """Return the expectations to check, the key's last; not those on list columns that a writer checked."""
    is_sound = isinstance(rows, StagedRows) and rows.in_files.are_sound
    declared = table.expectations_of_scalars() if is_sound else table.all_expectations()
    keys = Expectation(KEY_EXPECTATION, "", f"({', '.join(table.grain)}) is unique")
    return [*declared, *extra, keys]


def _counts(
    connection: duckdb.DuckDBPyConnection, table: Table, expectations: Sequence[Expectation]
) -> Sequence[int]:
    """Return the number of rows that break each expectation, in one query.

    Raises GateError, which names the first expectation that cannot be evaluated.
    """
    try:
        return _count(connection, table, expectations)
    except (duckdb.Error, SqlglotError):
        for each in expectations:
            try:
                _count(connection, table, [each])
            except (duckdb.Error, SqlglotError) as error:
                what = f"{table.name}: expectation {each.name} could not be evaluated"
                raise GateError(f"{what}: {str(error).splitlines()[0]}") from error
        raise


def _count(
    connection: duckdb.DuckDBPyConnection, table: Table, expectations: Sequence[Expectation]
) -> Sequence[int]:
    keys = f"SELECT count(*) AS n FROM {_ROWS} GROUP BY {', '.join(table.grain)} HAVING n > 1"
    counts = [
        f"(SELECT coalesce(sum(n), 0) FROM ({keys}))"
        if each.name == KEY_EXPECTATION
        else f"count(*) FILTER ({_breaks(each)})"
        for each in expectations
    ]
    (found,) = connection.execute(f"SELECT {', '.join(counts)} FROM {_ROWS}").fetchall()
    return [int(count) for count in found]


def _broken(table: Table, expectations: Sequence[Expectation]) -> str:
    """Return a query of the rows that break expectations, with the names of these expectations."""
    same_keys = f"count(*) OVER (PARTITION BY {', '.join(table.grain)}) > 1"
    breaks = {each.name: _breaks(each) for each in expectations if each.condition} | {
        KEY_EXPECTATION: same_keys
    }
    names = [f"CASE WHEN {sql} THEN {quoted(name)} END" for name, sql in breaks.items()]
    named = f"list_filter([{', '.join(names)}], lambda name: name IS NOT NULL) AS broken"
    return f"SELECT * FROM (SELECT *, {named} FROM {_ROWS}) WHERE len(broken) > 0"


def _breaks(expectation: Expectation) -> str:
    """Return a DuckDB condition for rows that break an expectation; null counts as broken."""
    return f"NOT coalesce(({_transpiled(expectation.condition)}), false)"
