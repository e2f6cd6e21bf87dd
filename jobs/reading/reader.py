"""What answers questions to one warehouse: DuckDB, or Spark where DuckDB does not reach."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from typing import Protocol

import pyarrow as pa

from jobs.reading.printing import Result
from schemas.table import Table
from schemas.unit import Unit


class Reader(Protocol):
    """An engine over one warehouse. Questions are one SELECT of Spark's SQL over its tables and views."""

    @property
    def root(self) -> str:
        """Where the tables lie."""

    def ask(self, sql: str, limit: int = 0) -> Result:
        """Answer a question for people, with at most `limit` rows, all where it is 0."""

    def rows(self, sql: str) -> pa.Table:
        """Answer a question for code, with Spark's types of columns; integers may be wider."""

    def unused_files(self, name: str) -> int:
        """Count the files of a table that no version of the last week needs."""


class TableReader(Protocol):
    """Whole tables, or some days or units of them, as of one publication."""

    @property
    def ingested(self) -> "TableReader":
        """The reader of the ingested tables: usually this one."""

    def rows(
        self,
        table: Table,
        log_dates: Sequence[date] | None = None,
        units: Collection[Unit] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> pa.Table:
        """Rows of a table, of all days or of these, or of these units alone.

        also : values that other columns must have
        """
