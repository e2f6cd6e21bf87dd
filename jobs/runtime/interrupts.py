"""Ctrl-C while Spark works."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread, current_thread, main_thread

from pyspark.sql import SparkSession


@contextmanager
def own_handler() -> Iterator[None]:
    """Keep the handler of Ctrl-C, which a new Spark context replaces."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if current_thread() is main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def interruptible(spark: SparkSession) -> Iterator[None]:
    """Cancel Spark's jobs on Ctrl-C, and raise KeyboardInterrupt for every error that then follows.

    Spark's own handler asks the JVM for it, often in the middle of another answer, which then looks broken.
    What waits for rows of a cancelled job raises that; DuckDB, that its query was interrupted.
    """
    if current_thread() is not main_thread():  # no other may have handlers
        yield
        return
    is_interrupted = False

    def cancel() -> None:
        with suppress(Exception):  # Spark may have ended meanwhile
            spark.sparkContext.cancelAllJobs()

    def interrupt(*_: object) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        Thread(target=cancel, daemon=True).start()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except Exception as error:
        if not is_interrupted:
            raise
        raise KeyboardInterrupt from error
    finally:
        signal.signal(signal.SIGINT, before)
