"""DuckDB connections for gates, which can query the rows to check in the driver's memory or in files."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

import duckdb

from jobs.runtime.places import is_url
from jobs.warehouse.delta_tables import ALONE, as_patterns, read_parquet
from jobs.warehouse.dialect import SETTINGS, WHOLE
from jobs.warehouse.rows import FileRows, Rows, StagedRows
from schemas.table import Table


@contextmanager
def judge(tables: Mapping[str, tuple[Table, Rows | FileRows]]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection in which the keys of `tables` are the names of tables or views with these rows."""
    with _engine().cursor() as connection:
        for statement in SETTINGS:
            connection.execute(statement)
        for name, (table, rows) in tables.items():
            found = rows.in_files if isinstance(rows, StagedRows) else rows
            if not isinstance(found, FileRows):
                connection.register(name, found)
            elif not found.files:
                connection.register(name, table.arrow_schema.empty_table())
            elif is_url(found.path):
                connection.register(name, found.in_store)
            else:
                patterns = as_patterns(found.path, [file.name for file in found.files])
                connection.execute(f"CREATE TEMP VIEW {name} AS FROM {read_parquet(table, patterns)}")
        yield connection


@cache
def _engine() -> duckdb.DuckDBPyConnection:
    """Return the process's only database for gates: creating one takes 50 times as long as a cursor."""
    engine = duckdb.connect(":memory:", config=ALONE)
    engine.execute(WHOLE)
    return engine
