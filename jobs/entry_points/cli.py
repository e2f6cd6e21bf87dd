"""Decorator for commands that need a Spark session; it sets their exit status and shortens their errors."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final

import click
from py4j.protocol import Py4JJavaError
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from jobs.entry_points import inputs
from jobs.entry_points.run_log import one_line, recorded_run
from jobs.entry_points.writing import writing, writing_alone
from jobs.runtime.arguments import INTERRUPTED, NO_WAIT, WHERE, Arguments, Command, command, end_interrupted
from jobs.runtime.errors import PlainError
from jobs.runtime.filesystems import StoreError, is_of_store
from jobs.runtime.places import check_bucket, is_url, said_by, with_reason
from jobs.runtime.progress import working
from jobs.runtime.session import session
from jobs.runtime.settings import Settings, load_settings, with_spark_conf
from jobs.runtime.terminal import log_to_terminal
from jobs.warehouse.lock import check_writable
from jobs.warehouse.stored import is_stored
from jobs.warehouse.tables import Warehouse
from schemas.vocabulary import PIPELINE_RUNS, Exit

Body = Callable[[SparkSession, Settings, Arguments], Mapping[str, int]]
"""The work of an entry point; returns rows per published table, and under run_log.ROWS_IN the rows read."""

Reads = Callable[[Settings, Arguments], str | None]
"""Checks the input of a command before the command creates anything or starts Spark."""

logger = logging.getLogger(__name__)

_INTERRUPTED: Final = f"{INTERRUPTED}: readers see the tables as last published; run the command again"
"""Message of an interrupted command that writes tables; each phase publishes its tables at its end."""


def own_warehouse(settings: Settings, _args: Arguments) -> str:
    """Return the warehouse in the settings."""
    return settings.paths.warehouse


def entry_point(
    name: str,
    *options: click.Parameter,
    where: tuple[click.Parameter, ...] = WHERE,
    writes_to: Callable[[Settings, Arguments], str | None] | None = own_warehouse,
    reads: Reads = inputs.a_warehouse,
    dry_run: Callable[[Settings, Arguments], None] | None = None,
    spark_conf: Mapping[str, str] | None = None,
    begins_empty: bool = True,
) -> Callable[[Body], Command]:
    """Make a command from a function that works in a session; the function's docstring is its description.

    Exit status: 0 done; 2 wrong arguments or settings; 3 a gate refused; 130 interrupted; 1 anything else,
    with its traceback in the log. The last line of standard error says why a command failed. The function
    finds the arguments as typed in `args.arguments`.

    where : arguments that name landing, warehouse and settings
    writes_to : returns the root of the warehouse that the command writes, which is then locked and gets a row
        in its pipeline_runs; None, or a function that returns None, if the command writes no warehouse
    reads : raises if the input does not exist; may return a reason why there is nothing to do
    dry_run : called for --dry-run in place of the function, without a session
    spark_conf : Spark settings that this command needs on top of conf/
    begins_empty : whether a run with nothing to do creates a missing warehouse, for later commands to read
    """
    lock = (NO_WAIT,) if writes_to else ()

    def of(body: Body) -> Command:
        def work(args: Arguments) -> int:
            log_to_terminal()
            for chatty in ("py4j", "great_expectations"):
                logging.getLogger(chatty).setLevel(logging.WARNING)
            settings = load_settings(args.settings, args.landing, args.warehouse)
            settings = with_spark_conf(settings, spark_conf or {})
            root = writes_to(settings, args) if writes_to else None
            try:
                with _by_its_store(root or settings.paths.warehouse):
                    nothing_to_do = reads(settings, args)
                    if dry_run is not None and args.dry_run:
                        dry_run(settings, args)
                    elif nothing_to_do and root is not None:
                        _record_nothing(root, name, args, nothing_to_do, begins=begins_empty)
                    else:
                        _run(name, body, settings, args, root)
            except KeyboardInterrupt:
                return end_interrupted(_INTERRUPTED if root else INTERRUPTED)
            return Exit.DONE

        return command(name, *where, *options, *lock, described_by=body, explain=one_line)(work)

    return of


def _record_nothing(root: str, name: str, args: Arguments, why: str, *, begins: bool) -> None:
    """Record in pipeline_runs a run that had nothing to do, without starting a Spark session.

    begins : create the warehouse if it does not exist; if False, nothing is left behind then, not even a lock
    """
    if is_url(root) or Path(root).exists():
        check_writable(root)
    if not begins and not is_stored(f"{root}/{PIPELINE_RUNS}"):
        logger.warning("%s; no warehouse was begun in %s", why, root)
        return
    logger.warning(why)
    with writing_alone(root, name, wait=not args.no_wait) as alone, _recorded(alone, name, args):
        pass


@contextmanager
def _by_its_store(root: str) -> Iterator[None]:
    """Turn errors of a warehouse's store into a one-line StoreError, which says what readers now see."""
    try:
        yield
    except PlainError:
        raise
    except Exception as error:
        is_far = isinstance(error, Py4JJavaError | PythonException)  # its text has a whole traceback
        said = with_reason(one_line(error)) if is_far else said_by(error)
        if not is_url(root) or not is_of_store(error, said):
            raise
        check_bucket(root, said)
        raise StoreError(
            f"the store of {root} did not do what was asked: {said}; readers see the tables as last "
            "published: run the command again"
        ) from error


def _run(name: str, body: Body, settings: Settings, args: Arguments, root: str | None) -> None:
    """Run a command's function in a Spark session.

    root : warehouse to lock, whose pipeline_runs records the run; None: the command writes no warehouse
    """
    with ExitStack() as stack:
        with working(f"{name}: starting Spark"):
            spark = stack.enter_context(
                session(settings, name)
                if root is None
                else writing(settings, root, name, wait=not args.no_wait)
            )
        if root is None:
            body(spark, settings, args)
            return
        with _recorded(Warehouse(spark, root), name, args) as counts:
            counts.update(body(spark, settings, args))


def _recorded(warehouse: Warehouse, name: str, args: Arguments) -> AbstractContextManager[dict[str, int]]:
    return recorded_run(warehouse, name, args.arguments, getattr(args, "log_date", None))
