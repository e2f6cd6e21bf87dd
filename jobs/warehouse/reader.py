"""What answers questions to one warehouse, DuckDB or Spark, and how both are given days and units."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date
from itertools import groupby
from typing import Protocol

import pyarrow as pa

from jobs.runtime.errors import PlainError
from jobs.runtime.printing import Result
from jobs.runtime.settings import SettingsError
from schemas.table import Table, sql_strings
from schemas.unit import Unit


class QuestionError(SettingsError):
    """Raised for a question that cannot be asked: wrong SQL, unknown names, no tables."""


class AnswerError(PlainError):
    """Raised when a valid question fails, on the data or out of memory."""


class OutOfMemoryError(AnswerError):
    """Raised when an engine needs more memory for an answer than it may take; the message says how much."""


class Reader(Protocol):
    """An engine over one warehouse. Questions are one SELECT of Spark's SQL over its tables and views."""

    @property
    def root(self) -> str:
        """Where the tables lie."""

    def ask(self, sql: str, limit: int = 0) -> Result:
        """Answer a question for people, with at most `limit` rows, all where it is 0."""

    def rows(self, sql: str) -> pa.Table:
        """Answer a question for code, with Spark's types of columns; integers may be wider."""

    def stop(self) -> None:
        """End the question that another thread asks now."""

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


class Tables:
    """The TableReader of a warehouse without a session.

    ingested : reader of the warehouse that the ingested tables are read from, where not from this one
    """

    def __init__(self, reader: Reader, ingested: Reader | None = None) -> None:
        self._reader = reader
        self.ingested: Tables = self if ingested is None else Tables(ingested)

    def rows(
        self,
        table: Table,
        log_dates: Sequence[date] | None = None,
        units: Collection[Unit] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> pa.Table:
        """Rows of a table; see TableReader."""
        wanted = ["true"] if log_dates is None else [on_units(log_dates, units)]
        wanted += [f"{name} = {sql_strings([value])}" for name, value in (also or {}).items()]
        return self._reader.rows(f"SELECT * FROM {table.name} WHERE {' AND '.join(wanted)}")


def on_days(log_dates: Collection[date]) -> str:
    """SQL, to both engines, that holds for rows of these days."""
    days = ", ".join(f"DATE'{day.isoformat()}'" for day in sorted(set(log_dates)))
    return f"log_date IN ({days})" if days else "false"


def on_units(log_dates: Collection[date], units: Collection[Unit] | None) -> str:
    """SQL that is true for rows of these days, or of these units alone.

    Days, jobs and runs also stand by themselves: files and row groups that have none of them are skipped.
    """
    days = on_days(log_dates)
    if units is None:
        return days
    among = []
    for day, of_day in groupby(sorted(units), key=lambda unit: unit[0]):
        pairs = ", ".join(f"({sql_strings(unit[1:])})" for unit in of_day)
        among.append(f"(log_date = DATE'{day.isoformat()}' AND (job_id, run_id) IN ({pairs}))")
    if not among:
        return "false"
    jobs, runs = (sql_strings(sorted({str(unit[place]) for unit in units})) for place in (1, 2))
    return f"{days} AND job_id IN ({jobs}) AND run_id IN ({runs}) AND ({' OR '.join(among)})"
