"""What commands that answer questions share: arguments, an engine, exit status, one line of what is wrong."""

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from jobs.arguments import WHERE, Option, Parser, make_parser, option
from jobs.reading.advice import AnswerError, first_line
from jobs.reading.engines import DUCKDB, SPARK, reader_of
from jobs.reading.reader import Reader
from jobs.settings import Settings, SettingsError, load_settings
from schemas.vocabulary import EXIT_DONE, EXIT_FAILED, EXIT_WRONG_SETTINGS

ENGINE: Final = option(
    "--engine",
    "what answers: duckdb, at once; spark, also beyond one machine and from any store "
    "(left out: duckdb where it reaches the warehouse)",
    choices=(DUCKDB, SPARK),
)

logger = logging.getLogger(__name__)


Body = Callable[[Reader, Settings, argparse.Namespace], None]


def reader_entry_point(
    name: str, *options: Option, epilog: str | None = None
) -> Callable[[Body], partial[int]]:
    """Make a command of the function that asks, as cli.entry_point does of one that needs a session."""

    def of(body: Body) -> partial[int]:
        parser = make_parser(name, body.__doc__ or "", *WHERE, ENGINE, *options, epilog=epilog)
        return partial(run_reader, parser, lambda settings, args: _ask(name, body, settings, args))

    return of


def run_reader(
    parser: Parser,
    body: Callable[[Settings, argparse.Namespace], None],
    argv: Sequence[str] | None = None,
) -> int:
    """Parse the arguments, run `body` and return the exit status; see cli.run_entry_point."""
    try:
        args = parser.parse_args(argv)
        body(load_settings(args.settings, args.landing, args.warehouse), args)
    except SystemExit as end:  # the parser has said what is wrong, or printed its help
        return int(end.code or EXIT_DONE)
    except (SettingsError, AnswerError) as error:
        sys.stderr.write(f"{parser.prog}: error: {error}\n")
        return EXIT_WRONG_SETTINGS if isinstance(error, SettingsError) else EXIT_FAILED
    except Exception as error:
        logger.exception("%s failed", parser.prog)
        sys.stderr.write(f"{parser.prog}: error: {type(error).__name__}: {first_line(error)}\n")
        return EXIT_FAILED
    return EXIT_DONE


def _ask(name: str, body: Body, settings: Settings, args: argparse.Namespace) -> None:
    with reader_of(settings, name, args.engine) as reader:
        body(reader, settings, args)
