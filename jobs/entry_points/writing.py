"""Write access to a warehouse: take the lock, undo unfinished work of a killed writer, then write."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any, Final, cast

from pyspark.sql import SparkSession

from jobs.entry_points.run_log import say_killed
from jobs.runtime.places import is_url
from jobs.runtime.plural import plural
from jobs.runtime.session import session
from jobs.runtime.settings import Settings
from jobs.warehouse.lease import leased, leaseholder
from jobs.warehouse.lock import (
    LOCK_NAME,
    Holder,
    check_writable,
    holder_in,
    locked_by_jvm,
    locked_folder,
    this_process,
)
from jobs.warehouse.publication import recover
from jobs.warehouse.small_files import SmallFiles
from jobs.warehouse.tables import Warehouse

_LOG: Final = logging.getLogger(__name__)


@contextmanager
def writing(settings: Settings, root: str, entry_point: str, *, wait: bool) -> Iterator[SparkSession]:
    """Take a warehouse's write lock, undo unfinished work of a killed writer, and yield a Spark session.

    wait : wait until another writer has ended; if False, raise LockedError instead
    Raises NotWritableError for a warehouse that cannot be written.
    """
    check_writable(root)
    with ExitStack() as stack:
        say = stack.enter_context(_locked(root, this_process(entry_point), wait=wait))
        spark = stack.enter_context(session(settings, entry_point))
        if not is_url(root):
            stack.enter_context(locked_by_jvm(root, _jvm(spark)))
            say(this_process(entry_point, jvm_process(spark)))
        _recover(Warehouse(spark, root))
        yield spark


def _locked(root: str, holder: Holder, *, wait: bool) -> AbstractContextManager[Callable[[Holder], None]]:
    lock = leased if is_url(root) else locked_folder
    return lock(root, holder, wait=wait)


def writer_of(root: str) -> Holder | None:
    """Return the holder of a warehouse's lock, or None. The lock is only read, so that no writer waits."""
    if is_url(root):
        return leaseholder(root)
    holder = holder_in(SmallFiles(root).read(LOCK_NAME))
    return holder if holder is not None and holder.may_live else None


@contextmanager
def no_round(settings: Settings, entry_point: str, *, wait: bool = True) -> Iterator[None]:
    """Lock the live tables, so that no round of `watch` writes them; the warehouse's own lock stays free.

    wait : wait until another holder of this lock has ended; if False, raise LockedError instead
    """
    with _locked(f"{settings.paths.warehouse}/_live", this_process(entry_point), wait=wait):
        yield


@contextmanager
def writing_alone(root: str, entry_point: str, *, wait: bool) -> Iterator[Warehouse]:
    """Take a warehouse's write lock and recover as `writing` does; yield the warehouse without a session."""
    check_writable(root)
    with _locked(root, this_process(entry_point), wait=wait):
        warehouse = Warehouse(cast("SparkSession", None), root)  # what callers do here needs no session
        _recover(warehouse)
        yield warehouse


def _recover(warehouse: Warehouse) -> None:
    """Undo what an earlier writer left unfinished, and log it."""
    restored = recover(warehouse)
    if restored:
        _LOG.warning("a publication was not finished and was undone: %s", ", ".join(restored))
    if killed := say_killed(warehouse):
        _LOG.warning("killed before the end: %s; pipeline_runs says which", plural(killed, "run"))


def _jvm(spark: SparkSession) -> Any:  # noqa: ANN401  # py4j has no types
    return spark.sparkContext._jvm  # noqa: SLF001  # no public way to Java's process


def jvm_process(spark: SparkSession) -> int:
    """Return the process number of a session's JVM."""
    return int(_jvm(spark).java.lang.ProcessHandle.current().pid())
