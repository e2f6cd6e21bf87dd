"""Reader that answers questions with DuckDB, without a JVM."""

import re
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, TypeVar

import duckdb
import pyarrow as pa

from jobs.reading.database import Database, needed
from jobs.reading.question import NAMES, Question, first_line, no_column, question
from jobs.runtime.printing import Result, times_as_text
from jobs.warehouse.reader import AnswerError, QuestionError, batched

Found = TypeVar("Found")

_NOT_UNDERSTOOD: Final = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)
_NO_COLUMN: Final = re.compile(r'(?:column|column named|key) "([^"]+)"(?: not found| in struct|\s)')
_UNGROUPED: Final = re.compile(r'column "([^"]+)" must appear in the GROUP BY')
_QUOTED: Final = re.compile(r'"([^"]+)"')
_UNLIKE_SPARK: Final = re.compile(r"Function with name|No function matches|candidate function|explicit cast")
"""DuckDB's messages on functions and conversions, in which Spark differs; other errors occur in Spark too."""
_DAY_AS_NUMBER: Final = re.compile(
    r"cast \(\w+ -> (?:DATE|TIMESTAMP)|of type (?:DATE|TIMESTAMP)[\w ]* and type (?:INT|BIGINT)"
)
"""DuckDB's messages on a number in the place of a day, as in log_date = 20260105."""
_DAY_HINT: Final = ": a day is written as DATE '2026-01-05'"
_VALUE: Final = re.compile(r"[\"']([^\"']*)[\"']")
_NUMBERS: Final = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")


class DuckDbReader:
    """Engine for questions to one warehouse, as of the publication that was latest at its creation.

    Tables stay open from one question to the next.

    in_order : answer with one thread, so that equal rows always give equal bits, as reproducible pages need
    """

    def __init__(self, database: Database, *, in_order: bool = False) -> None:
        self._database, self._in_order = database, in_order
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._open: set[str] = set()

    @property
    def root(self) -> str:
        """Return the root of the warehouse, a path or URL."""
        return self._database.root

    def close(self) -> None:
        """Close all tables; the next question reopens the tables that it needs."""
        if self._connection is not None:
            self._connection.close()
        self._connection, self._open = None, set()

    def ask(self, sql: str, limit: int = 0) -> Result:
        """Answer a question with at most `limit` rows (0: all). Times become text, in UTC.

        Raises QuestionError for an invalid question, AnswerError if the computation of the answer fails.
        """
        asked = question(sql)
        with self._opened(asked) as connection:
            return answer(connection, asked.for_duckdb, limit)

    def batches(self, sql: str, limit: int = 0) -> Iterator[Result]:
        """Answer like `ask`, in batches; DuckDB computes each batch on demand if the question allows that."""
        asked = question(sql)
        with self._opened(asked) as connection:
            yield from answers(connection, asked.for_duckdb, limit)

    def rows(self, sql: str) -> pa.Table:
        """Answer a question as an Arrow table; raise errors as `ask` does. Integer sums are int64."""
        asked = question(sql)
        with self._opened(asked) as connection:
            found = _interruptible(connection, lambda: connection.sql(asked.for_duckdb).to_arrow_table())
        wide = pa.decimal128(38, 0)  # as DuckDB's sums of integers, of 128 bits; Spark's have 64
        kinds = [each.with_type(pa.int64()) if each.type == wide else each for each in found.schema]
        return found.cast(pa.schema(kinds))

    def prepare(self, questions: Collection[str]) -> None:
        """Open the tables and views that these questions read, in one connection instead of several.

        Raises QuestionError for an invalid question, AnswerError if a table cannot be opened.
        """
        reads = {name for sql in questions for name in question(sql).reads}
        try:
            self._connected(needed(reads))
        except duckdb.Error as error:
            raise AnswerError(first_line(error)) from error

    def stop(self) -> None:
        """Interrupt the question that another thread is asking."""
        if self._connection is not None:
            self._connection.interrupt()

    @contextmanager
    def _opened(self, asked: Question) -> Iterator[duckdb.DuckDBPyConnection]:
        """Yield a connection with the tables that a question reads, and explain DuckDB's errors."""
        names = needed(asked.reads) if asked.reads or asked.is_select else {*NAMES}
        try:
            connection = self._connected(names)
            try:
                yield connection
            except _NOT_UNDERSTOOD as error:
                raise QuestionError(_advice(connection, error, asked)) from error
            except duckdb.ConversionException as error:
                said = first_line(error)
                if _DAY_AS_NUMBER.search(said):
                    raise QuestionError(f"{said}{_DAY_HINT}") from error
                if asked.texts.isdisjoint(_VALUE.findall(said)):
                    raise
                raise QuestionError(f"a text of the question: {said.partition(': ')[2]}") from error
        except duckdb.Error as error:
            raise AnswerError(first_line(error)) from error

    def _connected(self, names: Collection[str]) -> duckdb.DuckDBPyConnection:
        """Return a connection with these tables and views, and with those that earlier questions opened."""
        if self._connection is None or not self._open.issuperset(names):
            self._open.update(names)
            if self._connection is not None:
                self._connection.close()
            self._connection = self._database.connection(self._open, in_order=self._in_order)
        return self._connection


def answer(connection: duckdb.DuckDBPyConnection, sql: str, limit: int = 0) -> Result:
    """Run one SELECT in DuckDB. Raises QuestionError for any other statement."""
    batches = list(answers(connection, sql, limit))
    return replace(batches[-1], rows=[row for batch in batches for row in batch.rows])


def answers(connection: duckdb.DuckDBPyConnection, sql: str, limit: int = 0) -> Iterator[Result]:
    """Run one SELECT in DuckDB and return its rows in batches. Raises QuestionError for other statements."""
    statements = connection.extract_statements(sql)
    if [each.type for each in statements] != [duckdb.StatementType.SELECT]:
        raise QuestionError(f"not one SELECT: {sql}")
    _interruptible(connection, lambda: connection.execute(statements[0]))
    columns = connection.description or []
    head = Result(
        columns=[str(name) for name, *_ in columns],
        is_number=[str(kind).startswith(_NUMBERS) and not str(kind).endswith("]") for _, kind, *_ in columns],
        rows=[],
    )

    def fetch(count: int) -> list[tuple[object, ...]]:
        rows = _interruptible(connection, lambda: connection.fetchmany(count))
        return [tuple(map(_plain, row)) for row in rows]

    yield from batched(head, fetch, limit)


def _interruptible(connection: duckdb.DuckDBPyConnection, ask: Callable[[], Found]) -> Found:
    """Run a query in a thread, so that Ctrl-C can stop it, which DuckDB itself sometimes misses."""
    with ThreadPoolExecutor(1) as beside:
        asked = beside.submit(ask)
        try:
            return asked.result()
        except KeyboardInterrupt:
            connection.interrupt()
            raise


def _plain(value: object) -> object:
    """Convert times and durations to text, also in lists and structs."""
    if isinstance(value, datetime | list | dict):
        return times_as_text(value)
    return str(value) if isinstance(value, timedelta) else value


def _advice(connection: duckdb.DuckDBPyConnection, error: duckdb.Error, asked: Question) -> str:
    if ungrouped := _UNGROUPED.search(str(error)):
        name = ungrouped[1]
        return f"{name} must be in GROUP BY, or within an aggregate such as max({name})"
    missing = _NO_COLUMN.search(str(error))
    if missing is None:
        said = first_line(error)
        if _DAY_AS_NUMBER.search(said):
            return f"{said}{_DAY_HINT}"
        return f"{said} (it may work with --engine spark)" if _UNLIKE_SPARK.search(said) else said
    offered = str(error).partition("Candidate")[2].splitlines()
    columns = [name.split(".")[-1] for name in _QUOTED.findall(offered[0] if offered else "")]
    for name in asked.reads:
        columns += [row[0] for row in connection.execute(f"DESCRIBE {name}").fetchall()]
    return no_column(missing[1], asked.reads, columns)
