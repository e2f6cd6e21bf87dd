"""What all entry points share: arguments, a session, exit status, one line for what went wrong."""

import argparse
import logging
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from functools import partial
from typing import Any, Final, NamedTuple, Never

from pyspark.sql import SparkSession

from jobs.printing import FORMATS
from jobs.progress import working
from jobs.run_log import exit_status, is_plain, one_line, recorded_run
from jobs.session import session
from jobs.settings import Settings, load_settings, with_spark_conf
from jobs.warehouse.tables import Warehouse
from jobs.warehouse.writing import writing
from schemas.vocabulary import EXIT_DONE, EXIT_WRONG_SETTINGS

Body = Callable[[SparkSession, Settings, argparse.Namespace], Mapping[str, int]]
"""The work of an entry point; returns rows per published table, and under run_log.ROWS_IN the rows read."""

logger = logging.getLogger(__name__)


class Parser(argparse.ArgumentParser):
    """Says what is wrong with the arguments on one line; exit status 2."""

    def error(self, message: str) -> Never:
        """End the process, telling the defect without the whole usage."""
        self.exit(EXIT_WRONG_SETTINGS, f"{self.prog}: error: {message} (--help tells more)\n")


class Option(NamedTuple):
    """One argument of a command, as argparse takes it; exactly one of a group has to be given."""

    name: str
    how: Mapping[str, Any]
    group: str | None


def option(
    usage: str,
    meaning: str,
    kind: Callable[[str], object] = str,
    *,
    group: str | None = None,
    **how: Any,  # noqa: ANN401  # what else argparse's add_argument takes
) -> Option:
    """Declare an argument.

    usage : its name, and what stands for its value, as in `--days N`; without that it is a switch
    """
    name, _, value = usage.partition(" ")
    if value:
        how = {"metavar": value, "type": kind, **how}
    elif "choices" not in how:
        how = {"action": "store_true"}
    return Option(name, {"help": meaning, **how}, group)


def make_parser(name: str, description: str, *options: Option, epilog: str | None = None) -> Parser:
    """Return a parser with these arguments."""
    layout = argparse.RawDescriptionHelpFormatter if epilog and "\n" in epilog else argparse.HelpFormatter
    parser = Parser(
        prog=name, description=description, epilog=epilog, allow_abbrev=False, formatter_class=layout
    )
    groups: dict[str, Any] = defaultdict(lambda: parser.add_mutually_exclusive_group(required=True))
    for argument, how, group in options:
        (groups[group] if group else parser).add_argument(argument, **how)
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


def _at_least(least: int, text: str) -> int:
    if not text.lstrip("-").isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number")
    if int(text) < least:
        raise argparse.ArgumentTypeError(f"{text} is less than {least}")
    return int(text)


positive: Final = partial(_at_least, 1)
not_negative: Final = partial(_at_least, 0)
"""Read a whole number; argparse tells what is wrong with another."""


def not_negative_number(text: str) -> float:
    """Read a finite number of at least 0, such as 0.9."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 0")
    return value


WHERE: Final = (
    option("--landing DIR", "where producers leave their logs"),
    option("--warehouse DIR", "where the tables lie"),
    option("--settings FILE", "settings on top of conf/"),
)
"""Arguments of every entry point that has a session."""

NO_WAIT: Final = option("--no-wait", "fail at once where another run writes the warehouse")
LOG_DATE: Final = option("--log-date DATE", "the day, as 2026-01-05", log_date, required=True)
OF_UNIT: Final = (
    option("--job-id JOB", "the job", required=True),
    option("--run-id RUN", "its run; needed where the day has several"),
    option("--log-date DATE", "the day, as 2026-01-05; the job's latest if left out", log_date),
)
"""Which unit, of an entry point that works on one."""
PERIOD: Final = tuple(
    option(f"--{end} DATE", f"{name} day, as 2026-01-05; open if left out", log_date, dest=name)
    for end, name in (("from", "first"), ("to", "last"))
)
FORMAT: Final = option(
    "--format",
    "table and markdown round numbers; csv and json are exact",
    choices=FORMATS,
    default=FORMATS[0],
)
"""Rows for people or for programs."""


def entry_point(
    name: str,
    *options: Option,
    epilog: str | None = None,
    defaults: Mapping[str, str] | None = None,
    **how: Any,  # noqa: ANN401  # what run_entry_point takes beside them
) -> Callable[[Body], partial[int]]:
    """Make a command of the function that does its work, whose docstring is the command's description.

    The command takes its arguments, or those of the process, and returns the exit status. The function finds
    the arguments as they were given in `args.arguments`.

    defaults : of the arguments in WHERE, where they have some
    """

    def of(body: Body) -> partial[int]:
        lock = (NO_WAIT,) if how.get("is_recorded", True) else ()
        parser = make_parser(name, body.__doc__ or "", *WHERE, *options, *lock, epilog=epilog)
        parser.set_defaults(**(defaults or {}))
        return partial(run_entry_point, parser, body, **how)

    return of


def own_warehouse(settings: Settings, args: argparse.Namespace) -> str | None:
    """Return the warehouse of the settings; no warehouse for a dry run."""
    return None if getattr(args, "dry_run", False) else settings.paths.warehouse


def run_entry_point(
    parser: Parser,
    body: Body,
    argv: Sequence[str] | None = None,
    *,
    is_recorded: bool = True,
    writes_to: Callable[[Settings, argparse.Namespace], str | None] = own_warehouse,
    spark_conf: Mapping[str, str] | None = None,
    spark_log: str | None = None,
) -> int:
    """Parse the arguments, run `body` in a session and return the exit status.

    0 done; 2 wrong arguments or settings; 3 a gate refused; 1 anything else, with its traceback in the log.
    What went wrong is the last line of standard error.

    is_recorded : whether it writes: it then has the warehouse's lock, and leaves a row in pipeline_runs
    writes_to : root of the warehouse that is written under these arguments; None: none is
    spark_conf : settings of Spark that this entry point needs, on top of those of conf/
    spark_log : name of a file beside the warehouse for what Spark says; left out: standard error
    """
    name = parser.prog
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("py4j", "great_expectations"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        parsed = parser.parse_args(arguments, argparse.Namespace(arguments=arguments))
        settings = load_settings(parsed.settings, parsed.landing, parsed.warehouse)
        settings = with_spark_conf(settings, spark_conf or {}, spark_log)
        root = writes_to(settings, parsed) if is_recorded else None
        with ExitStack() as stack:
            with working(f"{name}: starting Spark"):
                spark = stack.enter_context(
                    session(settings, name)
                    if root is None
                    else writing(settings, root, name, wait=not parsed.no_wait)
                )
            if root is None:
                body(spark, settings, parsed)
                return EXIT_DONE
            warehouse, day = Warehouse(spark, root), getattr(parsed, "log_date", None)
            with recorded_run(warehouse, name, arguments, day) as counts:
                counts.update(body(spark, settings, parsed))
    except SystemExit as end:  # the parser has said what is wrong, or printed its help
        return int(end.code or EXIT_DONE)
    except Exception as error:
        if not is_plain(error):
            logger.exception("%s failed", name)
        sys.stderr.write(f"{name}: error: {one_line(error)}\n")
        return exit_status(error)
    return EXIT_DONE
