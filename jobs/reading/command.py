"""What commands that answer questions share: arguments, an engine, exit status, one line of what is wrong."""

import logging
import sys
from collections.abc import Callable
from functools import partial
from typing import Final

from jobs.reading.advice import AnswerError, first_line
from jobs.reading.engines import DUCKDB, SPARK, reader_of
from jobs.reading.reader import Reader
from jobs.runtime.arguments import WHERE, Arguments, Command, Option, called, command, option
from jobs.runtime.settings import Settings, SettingsError, load_settings
from schemas.vocabulary import EXIT_DONE, EXIT_FAILED, EXIT_WRONG_SETTINGS

ENGINE: Final = option(
    "--engine ENGINE",
    "what answers: duckdb, at once; spark, also beyond one machine and from other stores "
    "(left out: duckdb where it reaches the warehouse)",
    choices=(DUCKDB, SPARK),
)

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
    except BrokenPipeError:  # whoever reads has seen enough
        raise
    except Exception as error:
        logger.exception("%s failed", called())
        sys.stderr.write(f"{called()}: error: {type(error).__name__}: {first_line(error)}\n")
        return EXIT_FAILED
    return EXIT_DONE


def _ask(name: str, body: Body, settings: Settings, args: Arguments) -> None:
    with reader_of(settings, name, args.engine) as reader:
        body(reader, settings, args)
