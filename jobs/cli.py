"""What all entry points share: arguments, exit status, one line for what went wrong, a row in pipeline_runs."""

import argparse
import logging
import shlex
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Final, Never

from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from jobs.delta_jars import DeltaJarsError
from jobs.gates import GateRefusedError
from jobs.java import JavaNotFoundError
from jobs.session import SessionError, session
from jobs.settings import Settings, SettingsError, load_settings
from jobs.warehouse import Warehouse
from schemas.pipeline_runs import TABLE as PIPELINE_RUNS_TABLE
from schemas.vocabulary import EXIT_DONE, EXIT_FAILED, EXIT_GATE_REFUSED, EXIT_WRONG_SETTINGS, RUN_OUTCOMES

ROWS_IN: Final = "rows_in"
"""Key under which a body may say how many rows it read; every other key is a table that it published."""

Body = Callable[[SparkSession, Settings, argparse.Namespace], Mapping[str, int]]
"""The work of an entry point; returns rows per table."""

_LOG = logging.getLogger(__name__)


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments on one line; exit status 2."""

    def error(self, message: str) -> Never:
        """End the process, telling only the defect and not the whole usage."""
        self.exit(EXIT_WRONG_SETTINGS, f"{self.prog}: error: {message} (see --help)\n")


def common_parser(name: str, description: str) -> Parser:
    """Return a parser with the arguments of every entry point."""
    parser = Parser(prog=f"python -m jobs.{name}", description=description, allow_abbrev=False)
    parser.add_argument("--landing", metavar="DIR", help="where producers leave their logs")
    parser.add_argument("--warehouse", metavar="DIR", help="where the tables lie")
    parser.add_argument("--settings", metavar="FILE", help="settings on top of conf/")
    return parser


def day_parser(name: str, description: str) -> Parser:
    """Return a parser of an entry point that works on one log date."""
    parser = common_parser(name, description)
    parser.add_argument("--log-date", type=log_date, required=True, metavar="YYYY-MM-DD", help="the day to work on")
    return parser


def log_date(text: str) -> date:
    """Read a date as folders spell it, 2026-01-05, and in no other way."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or day.isoformat() != text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date such as 2026-01-05")
    return day


def run_entry_point(
    name: str, parser: argparse.ArgumentParser, argv: Sequence[str] | None, body: Body, *, is_recorded: bool = True
) -> int:
    """Parse, run `body` in a session, and return the exit status.

    0 done; 2 wrong arguments or settings; 3 a gate refused; 1 anything else, its traceback in the log. Whatever is
    wrong is told on the last line of standard error. Every run leaves a row in pipeline_runs, unless not `is_recorded`.
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        parsed = parser.parse_args(arguments)
        settings = load_settings(parsed.settings, parsed.landing, parsed.warehouse)
        with session(settings, name) as spark:
            run = _Run(name, arguments, getattr(parsed, "log_date", None), Warehouse(spark, settings.paths.warehouse))
            return run.record(...)
    except SystemExit as ended:
        return ended.code
