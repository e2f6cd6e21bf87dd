"""What all entry points share: arguments, a session, exit status, one line for what went wrong."""

import argparse
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from typing import Never

from pyspark.sql import SparkSession

from jobs.printing import FORMATS
from jobs.progress import working
from jobs.run_log import exit_status, is_plain, one_line, recorded_run
from jobs.session import session
from jobs.settings import Settings, load_settings, with_spark_conf
from jobs.warehouse.tables import Warehouse, hold_writable
from schemas.vocabulary import EXIT_DONE, EXIT_WRONG_SETTINGS

Body = Callable[[SparkSession, Settings, argparse.Namespace], Mapping[str, int]]
"""The work of an entry point; returns rows per published table, and under run_log.ROWS_IN the rows read."""

logger = logging.getLogger(__name__)


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments on one line; exit status 2."""

    def error(self, message: str) -> Never:
        """End the process, telling the defect without the whole usage."""
        self.exit(EXIT_WRONG_SETTINGS, f"{self.prog}: error: {message} (--help tells more)\n")


def common_parser(name: str, description: str) -> Parser:
    """Return a parser with the arguments of every entry point."""
    parser = Parser(prog=name, description=description, allow_abbrev=False)
    parser.add_argument("--landing", metavar="DIR", help="where producers leave their logs")
    parser.add_argument("--warehouse", metavar="DIR", help="where the tables lie")
    parser.add_argument("--settings", metavar="FILE", help="settings on top of conf/")
    return parser


def day_parser(name: str, description: str) -> Parser:
    """Return the parser of an entry point that works on one log date."""
    parser = common_parser(name, description)
    parser.add_argument(
        "--log-date", type=log_date, required=True, metavar="DATE", help="the day, as 2026-01-05"
    )
    return parser


def unit_parser(name: str, description: str) -> Parser:
    """Return the parser of an entry point that works on one unit."""
    parser = common_parser(name, description)
    parser.add_argument("--job-id", required=True, metavar="JOB", help="the job")
    parser.add_argument("--run-id", metavar="RUN", help="its run; needed where the day has several")
    parser.add_argument(
        "--log-date",
        type=log_date,
        metavar="DATE",
        help="the day, as 2026-01-05; the job's latest if left out",
    )
    return parser


def log_date(text: str) -> date:
    """Read a date as the landing's folders spell it, and in no other way.

    Raises argparse.ArgumentTypeError, which a parser tells as a wrong argument.
    """
    try:
        day = date.fromisoformat(text)
    except ValueError:
        day = None
    if day is None or day.isoformat() != text:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date such as 2026-01-05")
    return day


def positive(text: str) -> int:
    """Read a number of at least 1; argparse tells what is wrong with another."""
    return _at_least(1, text)


def not_negative(text: str) -> int:
    """Read a number of at least 0; argparse tells what is wrong with another."""
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    number = int(text)
    if number < least:
        raise argparse.ArgumentTypeError(f"{text} is less than {least}")
    return number


def add_format(parser: argparse.ArgumentParser) -> None:
    """Let rows be printed for people or for programs."""
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default=FORMATS[0],
        help="table and markdown round numbers; csv and json are exact",
    )


def run_entry_point(
    name: str,
    parser: argparse.ArgumentParser,
    argv: Sequence[str] | None,
    body: Body,
    *,
    is_recorded: bool = True,
    spark_conf: Mapping[str, str] | None = None,
    spark_log: str | None = None,
) -> int:
    """Parse the arguments, run `body` in a session and return the exit status.

    0 done; 2 wrong arguments or settings; 3 a gate refused; 1 anything else, with its traceback in the log.
    What went wrong is the last line of standard error. A run leaves a row in pipeline_runs if `is_recorded`
    and it is not a dry one.

    spark_conf : settings of Spark that this entry point needs, on top of those of conf/
    spark_log : name of a file beside the warehouse for what Spark says; left out: standard error
    """
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("py4j", "great_expectations"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        parsed = parser.parse_args(arguments)
        settings = load_settings(parsed.settings, parsed.landing, parsed.warehouse)
        settings = with_spark_conf(settings, spark_conf or {}, spark_log)
        if is_recorded and not getattr(parsed, "dry_run", False):
            hold_writable(settings.paths.warehouse)
        with ExitStack() as open_session:
            with working(f"{name}: starting Spark"):
                spark = open_session.enter_context(session(settings, name))
            if not is_recorded or getattr(parsed, "dry_run", False):
                body(spark, settings, parsed)
                return EXIT_DONE
            warehouse = Warehouse(spark, settings.paths.warehouse)
            with recorded_run(warehouse, name, arguments, getattr(parsed, "log_date", None)) as counts:
                counts.update(body(spark, settings, parsed))
    except SystemExit as end:  # the parser has said what is wrong, or printed its help
        return int(end.code or EXIT_DONE)
    except Exception as error:
        if not is_plain(error):
            logger.exception("%s failed", name)
        sys.stderr.write(f"{name}: error: {one_line(error)}\n")
        return exit_status(error)
    return EXIT_DONE


def run_stage(
    name: str,
    description: str,
    argv: Sequence[str] | None,
    stage: Callable[[SparkSession, Settings, Sequence[date]], Mapping[str, int]],
) -> int:
    """Run a stage over one log date, as its own entry point; returns the exit status."""

    def body(spark: SparkSession, settings: Settings, args: argparse.Namespace) -> Mapping[str, int]:
        with working(f"{name}: {args.log_date}"):
            return stage(spark, settings, [args.log_date])

    return run_entry_point(name, day_parser(name, description), argv, body)
