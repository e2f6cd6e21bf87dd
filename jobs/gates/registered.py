"""Access of DuckDB to rows of tables that gates check, in the driver's memory or in files."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

import duckdb

from jobs.runtime.places import is_url
from jobs.warehouse.delta_tables import ALONE, read_parquet
from jobs.warehouse.dialect import SETTINGS, WHOLE
from jobs.warehouse.rows import FileRows, Rows, StagedRows
from schemas.table import Table


@contextmanager
def judge(tables: Mapping[str, tuple[Table, Rows | FileRows]]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to rows of these tables, by name, and to no other data."""
    with _engine().cursor() as connection:
        for statement in SETTINGS:
            connection.execute(statement)
        for name, (table, rows) in tables.items():
            _register(connection, name, table, rows)
        yield connection


@cache
def _engine() -> duckdb.DuckDBPyConnection:
    """Return this process's only database for gates: creating one takes 50 times as long as connecting."""
    engine = duckdb.connect(":memory:", config=ALONE)
    engine.execute(WHOLE)
    return engine


def _register(connection: duckdb.DuckDBPyConnection, name: str, table: Table, rows: Rows | FileRows) -> None:
    """Let this connection alone read rows of a table, by a name."""
    found = rows.in_files if isinstance(rows, StagedRows) else rows
    if not isinstance(found, FileRows):
        connection.register(name, found)
    elif not found.files:
        connection.register(name, table.arrow_schema.empty_table())
    elif is_url(found.path):
        connection.register(name, found.in_store)
    else:
        source = read_parquet(table, found.path, found.files)
        connection.execute(f"CREATE TEMP VIEW {name} AS FROM {source}")
