"""What all entry points with a session share: the session, exit status, one line for what went wrong."""

import argparse
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from jobs.arguments import NO_WAIT, WHERE, Option, Parser, make_parser
from jobs.progress import working
from jobs.run_log import exit_status, is_plain, one_line, recorded_run
from jobs.session import session
from jobs.settings import Settings, load_settings, with_spark_conf
from jobs.warehouse.tables import Warehouse
from jobs.warehouse.writing import writing
from schemas.vocabulary import EXIT_DONE

Body = Callable[[SparkSession, Settings, argparse.Namespace], Mapping[str, int]]
"""The work of an entry point; returns rows per published table, and under run_log.ROWS_IN the rows read."""

logger = logging.getLogger(__name__)


def entry_point(
    name: str,
    *options: Option,
    epilog: str | None = None,
    defaults: Mapping[str, str] | None = None,
    dry_run: Callable[[Settings, argparse.Namespace], None] | None = None,
    **how: Any,  # noqa: ANN401  # what run_entry_point takes beside them
) -> Callable[[Body], partial[int]]:
    """Make a command of the function that does its work, whose docstring is the command's description.

    The command takes its arguments, or those of the process, and returns the exit status. The function finds
    the arguments as they were given in `args.arguments`.

    defaults : of the arguments in WHERE, where they have some
    dry_run : what --dry-run does, without a session
    """

    def of(body: Body) -> partial[int]:
        lock = (NO_WAIT,) if how.get("is_recorded", True) else ()
        parser = make_parser(name, body.__doc__ or "", *WHERE, *options, *lock, epilog=epilog)
        parser.set_defaults(**(defaults or {}), do_dry_run=dry_run)
        return partial(run_entry_point, parser, body, **how)

    return of


def own_warehouse(settings: Settings, _args: argparse.Namespace) -> str:
    """Return the warehouse of the settings."""
    return settings.paths.warehouse


def run_entry_point(
    parser: Parser,
    body: Body,
    argv: Sequence[str] | None = None,
    *,
    is_recorded: bool = True,
    writes_to: Callable[[Settings, argparse.Namespace], str] = own_warehouse,
    spark_conf: Mapping[str, str] | None = None,
    spark_log: str | None = None,
) -> int:
    """Parse the arguments, run `body` in a session and return the exit status.

    0 done; 2 wrong arguments or settings; 3 a gate refused; 1 anything else, with its traceback in the log.
    What went wrong is the last line of standard error.

    is_recorded : whether it writes: it then has the warehouse's lock, and leaves a row in pipeline_runs
    writes_to : root of the warehouse that is written under these arguments
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
        if getattr(parsed, "dry_run", False):
            parsed.do_dry_run(settings, parsed)
            return EXIT_DONE
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
