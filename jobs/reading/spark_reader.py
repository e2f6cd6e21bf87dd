"""Reader that answers questions with Spark, for answers that are too large for DuckDB on one machine."""

import logging
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import islice
from typing import Final

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import NumericType, TimestampType

from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.reading.question import first_line, no_column, question
from jobs.runtime.java import JavaNotFoundError
from jobs.runtime.jvm import has_ended
from jobs.runtime.printing import Result, times_as_text
from jobs.runtime.progress import working
from jobs.runtime.session import SessionError, session
from jobs.runtime.settings import Settings
from jobs.warehouse.reader import (
    BATCH,
    NO_TABLES,
    AnswerError,
    OutOfMemoryError,
    QuestionError,
    Reader,
    batched,
)
from jobs.warehouse.tables import Warehouse
from schemas.views import mentioned

_GONE: Final = "SparkContext was shut down"
_OUT_OF_MEMORY: Final = ("OutOfMemoryError", _GONE)
"""Texts in errors that show a lack of memory: if a task runs out of memory, Spark ends the whole JVM."""

_ASKING: Final = "asking Spark"


class SparkReader:
    """Engine for questions to one warehouse, as of the publication that was latest at its creation.

    Its temporary views belong to the session, so that another reader in the same session replaces them.
    """

    def __init__(self, spark: SparkSession, warehouse: Warehouse) -> None:
        self._spark, self._warehouse = spark, warehouse
        self._registered: set[str] = set()
        # Else Spark would replace ${env:NAME} in a question by that environment variable.
        spark.conf.set("spark.sql.variable.substitute", "false")
        self._heap = spark.sparkContext.getConf().get("spark.driver.memory", "1g")
        # A user gets one line of an error; Spark's logger would print pages of JSON beside it.
        PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)

    @property
    def root(self) -> str:
        """Return the root of the warehouse, a path or URL."""
        return self._warehouse.root

    def ask(self, sql: str, limit: int = 0) -> Result:
        """Answer like duckdb_reader.DuckDbReader.ask, and raise the same errors."""
        with self._asked(sql) as frame, working(_ASKING):
            return collected(frame, limit)

    def batches(self, sql: str, limit: int = 0) -> Iterator[Result]:
        """Answer like `ask`, in batches; this process has one partition of the answer in memory at a time."""
        with self._asked(sql) as frame:
            with working(_ASKING):
                found = batches_of(frame, limit)
                first = next(found)
            yield first
            yield from found

    def rows(self, sql: str) -> pa.Table:
        """Answer a question as an Arrow table; raise errors as `ask` does."""
        with self._asked(sql) as frame, working(_ASKING):
            return frame.toArrow()

    def prepare(self, questions: Collection[str]) -> None:
        """Do nothing, because each question registers the tables and views that it reads."""

    def stop(self) -> None:
        """Cancel the question that another thread is asking."""
        self._spark.sparkContext.cancelAllJobs()

    @contextmanager
    def _asked(self, sql: str) -> Iterator[DataFrame]:
        """Yield the answer as a DataFrame, and explain Spark's errors."""
        asked = question(sql)
        names = mentioned(" ".join(asked.reads))
        if not self._warehouse.register_views(names - self._registered):
            raise QuestionError(f"no tables in {self.root}: {NO_TABLES}")
        self._registered |= names
        try:
            yield self._spark.sql(asked.for_spark)
        except (AnalysisException, ParseException) as error:
            if not (error.getCondition() or "").startswith("UNRESOLVED_COLUMN"):
                raise QuestionError(first_line(error)) from error
            facts = error.getMessageParameters() or {}
            name = facts.get("objectName", "").replace("`", "").split(".")[-1]
            offered = facts.get("proposal", "").replace("`", "").split(", ")
            columns = [each.split(".")[-1] for each in offered if each]
            columns += [column for each in asked.reads for column in self._spark.table(each).columns]
            raise QuestionError(no_column(name, asked.reads, columns)) from error
        except (PySparkException, Py4JError, ConnectionError, EOFError) as error:
            raise self._failure(error) from error

    def _failure(self, error: Exception) -> AnswerError:
        try:
            said = str(error)
        except (Py4JError, ConnectionError):  # the text of the error is in the JVM, which has ended
            said = _GONE
        # An EOFError also means that the JVM has ended, while it was sending rows.
        is_gone = has_ended(error) or isinstance(error, EOFError)
        if is_gone or any(sign in said for sign in _OUT_OF_MEMORY):
            return OutOfMemoryError(
                f"out of memory: Spark has {self._heap} here (spark.driver.memory in the settings), and a "
                "question at most a quarter of the machine (--timeout 0 lifts that)"
            )
        if isinstance(error, Py4JJavaError):
            thrown = error.java_exception
            while (cause := thrown.getCause()) is not None:  # the innermost, such as the error of a task
                thrown = cause
            error = AnswerError(thrown.getMessage() or thrown.toString())
        return AnswerError(first_line(error))


@contextmanager
def spark_reader(settings: Settings, name: str) -> Iterator[SparkReader]:
    """Yield a reader in a Spark session. Raises AnswerError if no session can be made."""
    with ExitStack() as open_session:
        try:
            with working(f"{name}: starting Spark"):
                spark = open_session.enter_context(session(settings, name))
        except (SessionError, JavaNotFoundError) as error:
            raise AnswerError(str(error)) from error
        yield SparkReader(spark, Warehouse.of(spark, settings))


@contextmanager
def reader_beside(warehouse: Warehouse) -> Iterator[Reader]:
    """Yield a DuckDB reader of a warehouse that a Spark session has open; its sums are reproducible."""
    ingested = None if warehouse.ingested is warehouse else warehouse.ingested.root
    with closing(DuckDbReader(Database(warehouse.root, ingested), in_order=True)) as reader:
        yield reader


def collected(frame: DataFrame, limit: int = 0) -> Result:
    """Collect at most `limit` rows of a DataFrame (0: all). Timestamps become text, in UTC."""
    plain, head = _as_plain(frame)
    rows = (plain.limit(limit + 1) if limit else plain).collect()
    return replace(
        head,
        rows=[_values(row) for row in (rows[:limit] if limit else rows)],
        is_cut=bool(limit) and len(rows) > limit,
    )


def batches_of(frame: DataFrame, limit: int = 0) -> Iterator[Result]:
    """Collect like `collected`, in batches; an answer of many rows comes one partition at a time."""
    plain, head = _as_plain(frame)
    limited = plain.limit(limit + 1) if limit else plain
    rows = iter(limited.collect()) if 0 < limit <= BATCH else limited.toLocalIterator()
    return batched(head, lambda count: [_values(row) for row in islice(rows, count)], limit)


def _as_plain(frame: DataFrame) -> tuple[DataFrame, Result]:
    """Return a DataFrame whose timestamps are text, and the columns of its answer."""
    names = [f"column_{place}" for place in range(len(frame.columns))]  # several columns may have one name
    plain = frame.toDF(*names)
    fields = plain.schema.fields
    wanted = [
        F.col(field.name).cast("string") if isinstance(field.dataType, TimestampType) else F.col(field.name)
        for field in fields
    ]
    is_number = [isinstance(field.dataType, NumericType) for field in fields]
    return plain.select(wanted), Result(frame.columns, [], is_number)


def _values(row: Row) -> tuple[object, ...]:
    # Spark returns times in structs and lists in this process's local time.
    return tuple(
        times_as_text(value, are_local=True) if isinstance(value, list | dict) else value
        for value in row.asDict(recursive=True).values()
    )
