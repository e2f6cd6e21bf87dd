"""Answer SQL over tables whose rows a test states, with the views and the engine that the commands use."""

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa
from pyspark.sql import Row

from jobs.reading.database import create_views
from jobs.reading.question import question
from jobs.warehouse.dialect import WHOLE
from schemas.tables import TABLES
from schemas.views import mentioned
from tests.support.examples import table_rows

Stated = Mapping[str, Sequence[Mapping[str, Any]] | pa.Table]
"""Tables by name. Rows are given in full, or as the columns that differ from the valid row of
tests.support.examples."""


def answer(sql: str, tables: Stated) -> list[Row]:
    """Return the rows that answer SQL over the given tables and their views; other tables are empty."""
    reads = mentioned(sql)
    with duckdb.connect(":memory:") as connection:
        connection.execute(WHOLE)
        for name in filter(reads.__contains__, TABLES):
            rows = tables.get(name, [])
            connection.register(name, rows if isinstance(rows, pa.Table) else _rows(name, rows))
        create_views(connection, reads)
        connection.execute(question(sql).for_duckdb)
        names = [column[0] for column in connection.description or ()]
        return [Row(**dict(zip(names, row, strict=True))) for row in connection.fetchall()]


def _rows(name: str, changes: Sequence[Mapping[str, Any]]) -> pa.Table:
    return table_rows(name, changes) if changes else TABLES[name].arrow_schema.empty_table()
