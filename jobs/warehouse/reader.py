"""Protocols of the engines that answer questions, DuckDB and Spark, and SQL conditions for days and units."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from itertools import groupby
from typing import Any, Final, Protocol

import pyarrow as pa

from jobs.runtime.errors import PlainError
from jobs.runtime.printing import Result
from jobs.runtime.settings import SettingsError
from schemas.table import Table, sql_strings
from schemas.unit import Unit
from schemas.vocabulary import UNIT_KEY

NO_TABLES: Final = "run a night first, or name another by --warehouse DIR"
"""Advice in the error message about a warehouse without tables."""

BATCH: Final = 1000
"""Most rows in one batch of an answer; few, because a row may hold lists of thousands of values."""


class QuestionError(SettingsError):
    """Raised for a question that cannot be asked: wrong SQL, unknown names, no tables."""


class AnswerError(PlainError):
    """Raised when a valid question fails because of the data or lack of memory."""


class OutOfMemoryError(AnswerError):
    """Raised when an answer needs more memory than allowed; the message states the allowed memory."""


class Reader(Protocol):
    """Protocol of an engine over one warehouse, which answers one SELECT in Spark SQL at a time."""

    @property
    def root(self) -> str:
        """Return the root of the warehouse, a path or URL."""

    def ask(self, sql: str, limit: int = 0) -> Result:
        """Answer a question as a Result, which can be printed, with at most `limit` rows (0: all)."""

    def batches(self, sql: str, limit: int = 0) -> Iterator[Result]:
        """Answer like `ask`, in batches of at most BATCH rows; there is at least one batch."""

    def rows(self, sql: str) -> pa.Table:
        """Answer a question as an Arrow table with Spark's column types, or wider integer types."""

    def prepare(self, questions: Collection[str]) -> None:
        """Open once the tables that these questions read, before the questions are asked one by one."""

    def stop(self) -> None:
        """Interrupt the question that another thread is asking."""


class TableReader(Protocol):
    """Protocol of a reader of rows of tables, all as of one publication."""

    @property
    def ingested(self) -> "TableReader":
        """Return the reader of the ingested tables, which is usually this reader."""

    def rows(
        self,
        table: Table,
        log_dates: Sequence[date] | None = None,
        units: Collection[Unit] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> pa.Table:
        """Read rows of a table, optionally only of these days or units.

        also : required values of other columns, by column
        """


class Tables:
    """TableReader of a warehouse without a Spark session.

    ingested : reader of another warehouse that has the ingested tables; None if `reader` has them
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
        """Read rows of a table; see TableReader.rows."""
        wanted = ["true"] if log_dates is None else [on_units(log_dates, units)]
        wanted += [f"{name} = {sql_strings([value])}" for name, value in (also or {}).items()]
        return self._reader.rows(f"SELECT * FROM {table.name} WHERE {' AND '.join(wanted)}")


def batched(head: Result, fetch: Callable[[int], Sequence[Sequence[Any]]], limit: int) -> Iterator[Result]:
    """Yield at most `limit` rows (0: all) in batches; the last batch has `is_cut` set if rows are left.

    head : a Result with the columns and no rows
    fetch : returns the next rows, as many as it is asked for, or fewer at the end
    """
    left = limit
    while True:
        wanted = min(BATCH, left + 1) if limit else BATCH
        rows = fetch(wanted)
        is_cut = bool(limit) and len(rows) > left
        yield replace(head, rows=rows[:left] if is_cut else rows, is_cut=is_cut)
        left -= len(rows)
        if is_cut or len(rows) < wanted:
            return


def on_days(log_dates: Collection[date]) -> str:
    """Return an SQL condition, for both engines, that selects rows of these days."""
    days = ", ".join(f"DATE'{day.isoformat()}'" for day in sorted(set(log_dates)))
    return f"log_date IN ({days})" if days else "false"


def on_units(log_dates: Collection[date], units: Collection[Unit] | None) -> str:
    """Return an SQL condition that selects rows of these days, or only of these units.

    The condition also lists days, jobs and runs column by column, so that engines skip files and row groups.
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


def keys_of(rows: pa.Table) -> list[Unit]:
    """Return the unit of each row."""
    return [Unit(*key) for key in zip(*(rows.column(name).to_pylist() for name in UNIT_KEY), strict=True)]


def rows_by_unit(rows: pa.Table) -> dict[Unit, list[dict[str, Any]]]:
    """Return the rows of each unit, as dicts, in their order."""
    found: dict[Unit, list[dict[str, Any]]] = {}
    for unit, row in zip(keys_of(rows), rows.to_pylist(maps_as_pydicts="strict"), strict=True):
        found.setdefault(unit, []).append(row)
    return found
