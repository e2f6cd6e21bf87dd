"""Rows of tables for DuckDB, which judges them in place: in the driver or in files."""

import duckdb

from jobs.runtime.places import is_url
from jobs.warehouse.delta_tables import read_parquet
from jobs.warehouse.rows import FileRows, Rows, StagedRows
from schemas.table import Table


def register(connection: duckdb.DuckDBPyConnection, name: str, table: Table, rows: Rows | FileRows) -> None:
    """Let a connection read rows of a table by a name."""
    found = rows.in_files if isinstance(rows, StagedRows) else rows
    if not isinstance(found, FileRows):
        connection.register(name, found)
    elif not found.files:
        connection.register(name, table.arrow_schema.empty_table())
    elif is_url(found.path):
        connection.register(name, found.in_store)
    else:
        source = read_parquet(table, found.path, found.files)
        connection.execute(f"CREATE VIEW {name} AS FROM {source}")
