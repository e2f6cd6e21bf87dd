"""Which engine answers: DuckDB wherever it reaches the tables, Spark elsewhere or where it is asked for."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from importlib import import_module
from typing import Final, cast

from jobs.reading.database import Database
from jobs.reading.delta_tables import is_reached
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.reading.question import QuestionError
from jobs.reading.reader import Reader, TableReader
from jobs.reading.tables import Tables
from jobs.runtime.settings import Settings

DUCKDB: Final = "duckdb"
SPARK: Final = "spark"

_SPARKS: Final = "jobs.reading.spark_reader"
"""Imported where it is asked for: Spark alone takes longer to import than DuckDB to answer."""


def opened(settings: Settings) -> Database:
    """Open the warehouse that the settings name. Raises QuestionError unless DuckDB finds tables there."""
    paths = settings.paths
    if not are_reached(settings):
        raise QuestionError(f"{paths.warehouse}: DuckDB does not reach this store: --engine spark reads it")
    database = Database(paths.warehouse, paths.ingested)
    database.check_exists()
    return database


def are_reached(settings: Settings) -> bool:
    """Whether tables lie where DuckDB reads them."""
    return all(map(is_reached, _roots(settings)))


def _roots(settings: Settings) -> list[str]:
    paths = settings.paths
    return [paths.warehouse, *([] if paths.ingested is None else [paths.ingested])]


@contextmanager
def reader_of(settings: Settings, name: str, engine: str | None = None) -> Iterator[Reader]:
    """Lend a reader of the warehouse that the settings name. Raises QuestionError without tables.

    name : of the command, for Spark. engine : DUCKDB or SPARK; None: DuckDB where it reaches
    """
    is_sparks = (engine or (DUCKDB if are_reached(settings) else SPARK)) == SPARK
    if is_sparks:
        if not any("://" in root for root in _roots(settings)):  # of stores Spark may know what we do not
            opened(settings)  # says what is missing before Spark starts
        with _by_spark(settings, name) as reader:
            yield reader
    else:
        with closing(DuckDbReader(opened(settings))) as reader:
            yield reader


@contextmanager
def tables_of(settings: Settings, name: str) -> Iterator[TableReader]:
    """Lend whole tables to what plans. A warehouse that is not there yet is empty."""
    with ExitStack() as stack:
        readers: list[Reader] = []
        for root in _roots(settings):
            if is_reached(root):
                readers.append(stack.enter_context(closing(DuckDbReader(Database(root)))))
            else:
                paths = settings.paths.model_copy(update={"warehouse": root, "ingested": None})
                of_root = settings.model_copy(update={"paths": paths})
                readers.append(stack.enter_context(_by_spark(of_root, name)))
        yield Tables(*readers)


def _by_spark(settings: Settings, name: str) -> AbstractContextManager[Reader]:
    lend = cast(
        "Callable[[Settings, str], AbstractContextManager[Reader]]", import_module(_SPARKS).spark_reader
    )
    return lend(settings, name)
