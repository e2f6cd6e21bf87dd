"""What commands that answer questions share: arguments, an engine, exit status, one line of what is wrong."""

import logging
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from functools import partial
from importlib import import_module
from typing import Final, cast

from jobs.arguments import WHERE, Arguments, Command, Option, called, command, option
from jobs.reading.advice import AnswerError, first_line
from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.reading.reader import Reader
from jobs.settings import Settings, SettingsError, load_settings
from schemas.vocabulary import EXIT_DONE, EXIT_FAILED, EXIT_WRONG_SETTINGS

DUCKDB: Final = "duckdb"
SPARK: Final = "spark"
ENGINE: Final = option(
    "--engine ENGINE",
    "what answers: duckdb, from a folder of this machine, at once; spark, from any warehouse of any size "
    "(left out: duckdb where the warehouse is a folder)",
    choices=(DUCKDB, SPARK),
)

_SPARKS: Final = "jobs.reading.spark_reader"
"""Imported where it is asked for: Spark alone takes longer to import than DuckDB to answer."""

logger = logging.getLogger(__name__)


Body = Callable[[Reader, Settings, Arguments], None]


def reader_entry_point(name: str, *options: Option, epilog: str | None = None) -> Callable[[Body], Command]:
    """Make a command of the function that asks, as cli.entry_point does of one that needs a session."""

    def of(body: Body) -> Command:
        def asked(settings: Settings, args: Arguments) -> None:
            _ask(name, body, settings, args)

        asked.__doc__ = body.__doc__
        return settings_entry_point(name, ENGINE, *options, epilog=epilog)(asked)

    return of


def settings_entry_point(
    name: str, *options: Option, epilog: str | None = None
) -> Callable[[Callable[[Settings, Arguments], None]], Command]:
    """Make a command of a function that needs settings and no session; exit status as of cli.entry_point."""
    return lambda body: command(name, *WHERE, *options, epilog=epilog, described_by=body)(
        partial(_status, body)
    )


def _status(body: Callable[[Settings, Arguments], None], args: Arguments) -> int:
    try:
        body(load_settings(args.settings, args.landing, args.warehouse), args)
    except (SettingsError, AnswerError) as error:
        sys.stderr.write(f"{called()}: error: {error}\n")
        return EXIT_WRONG_SETTINGS if isinstance(error, SettingsError) else EXIT_FAILED
    except Exception as error:
        logger.exception("%s failed", called())
        sys.stderr.write(f"{called()}: error: {type(error).__name__}: {first_line(error)}\n")
        return EXIT_FAILED
    return EXIT_DONE


def opened(settings: Settings) -> Database:
    """Open the warehouse that the settings name. Raises SettingsError unless it is a folder with tables."""
    paths = settings.paths
    if is_elsewhere(settings):
        raise SettingsError(f"{paths.warehouse} is no folder of this machine: --engine spark reads it")
    database = Database(paths.warehouse, paths.silver)
    database.hold_there()
    return database


def is_elsewhere(settings: Settings) -> bool:
    """Whether tables lie in a store."""
    return "://" in settings.paths.warehouse + (settings.paths.silver or "")


def _ask(name: str, body: Body, settings: Settings, args: Arguments) -> None:
    engine = args.engine or (SPARK if is_elsewhere(settings) else DUCKDB)
    reader: AbstractContextManager[Reader]
    if engine == SPARK:
        if not is_elsewhere(settings):
            opened(settings)  # says what is missing before Spark starts
        lend = cast(
            "Callable[[Settings, str], AbstractContextManager[Reader]]", import_module(_SPARKS).spark_reader
        )
        reader = lend(settings, name)
    else:
        reader = closing(DuckDbReader(opened(settings)))
    with reader as lent:
        body(lent, settings, args)
