"""Commands that answer questions: their arguments, and a query engine over the warehouse.

DuckDB answers, unless `--engine spark` is given.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from importlib import import_module
from typing import Any, Final

import click

from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.reading.question import first_line
from jobs.runtime.arguments import WHERE, Arguments, Command, command, option
from jobs.runtime.places import check_bucket
from jobs.runtime.settings import Settings, load_settings
from jobs.warehouse.reader import AnswerError, Reader, TableReader, Tables

DUCKDB: Final = "duckdb"
SPARK: Final = "spark"
ENGINE: Final = option(
    "--engine ENGINE",
    "query engine: duckdb, or spark for tables too large for one machine (default: duckdb)",
    choices=(DUCKDB, SPARK),
)

Body = Callable[[Reader, Settings, Arguments], None]


def reader_entry_point(
    name: str,
    *options: click.Parameter,
    in_order: bool = False,
    settings_of: Callable[[Settings, Arguments], Settings] = lambda settings, _: settings,
    **how: Any,  # noqa: ANN401  # what arguments.command takes
) -> Callable[[Body], Command]:
    """Make a command from a function that asks questions of a reader, and needs no Spark session.

    in_order : see DuckDbReader
    settings_of : returns the settings to use, from the loaded settings and the command's arguments
    """

    def of(body: Body) -> Command:
        def asked(settings: Settings, args: Arguments) -> None:
            chosen = settings_of(settings, args)
            with reader_of(chosen, name, args.engine, in_order=in_order) as reader:
                body(reader, chosen, args)

        return settings_entry_point(name, ENGINE, *options, **{"described_by": body, **how})(asked)

    return of


def settings_entry_point(
    name: str,
    *options: click.Parameter,
    **how: Any,  # noqa: ANN401  # what arguments.command takes
) -> Callable[[Callable[[Settings, Arguments], None]], Command]:
    """Make a command from a function that needs settings but no session."""

    def of(body: Callable[[Settings, Arguments], None]) -> Command:
        def work(args: Arguments) -> None:
            body(load_settings(args.settings, args.landing, args.warehouse), args)

        usual = {
            "described_by": body,
            "explain": lambda error: f"{type(error).__name__}: {first_line(error)}",
        }
        return command(name, *WHERE, *options, **{**usual, **how})(work)

    return of


def opened(settings: Settings) -> Database:
    """Open the warehouse in the settings. Raises QuestionError if DuckDB finds no tables there.

    Raises PlaceError if the warehouse's store lacks the bucket, and AnswerError if the store does not answer.
    """
    paths = settings.paths
    database = Database(paths.warehouse, paths.ingested)
    try:
        database.check_exists()
    except AnswerError as error:
        check_bucket(paths.warehouse, str(error))
        raise
    return database


@contextmanager
def reader_of(
    settings: Settings, name: str, engine: str | None = None, *, in_order: bool = False
) -> Iterator[Reader]:
    """Yield a reader of the warehouse in the settings. Raises QuestionError for a warehouse without tables.

    name : name of the command, which Spark shows
    engine : DUCKDB or SPARK; None: DuckDB
    in_order : see DuckDbReader
    """
    if engine == SPARK:
        opened(settings)  # raises for a missing warehouse before Spark starts
        # Imported on first use, because an import of Spark takes longer than an answer by DuckDB.
        with import_module("jobs.reading.spark_reader").spark_reader(settings, name) as reader:
            yield reader
    else:
        with closing(DuckDbReader(opened(settings), in_order=in_order)) as reader:
            yield reader


@contextmanager
def tables_of(settings: Settings) -> Iterator[TableReader]:
    """Yield a reader of tables for planning a backfill; a missing warehouse counts as empty."""
    with ExitStack() as stack:
        databases = map(Database, filter(None, (settings.paths.warehouse, settings.paths.ingested)))
        yield Tables(*(stack.enter_context(closing(DuckDbReader(each))) for each in databases))
