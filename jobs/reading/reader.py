"""What answers questions to one warehouse: DuckDB, or Spark where DuckDB does not reach."""

from typing import Protocol

import pyarrow as pa

from jobs.printing import Result


class Reader(Protocol):
    """An engine over one warehouse. Questions are one SELECT of Spark's SQL over its tables and views."""

    @property
    def root(self) -> str:
        """Where the tables lie."""

    def ask(self, sql: str, limit: int = 0) -> Result:
        """Answer a question for people, with at most `limit` rows, all where it is 0."""

    def rows(self, sql: str) -> pa.Table:
        """Answer a question for code, with the types that Spark gives its columns."""
