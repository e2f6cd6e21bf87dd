"""Handling of Ctrl-C while Spark works."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread, current_thread, main_thread

from pyspark.sql import SparkSession


def is_interruption(error: BaseException) -> bool:
    """Return whether an error is only a consequence of Ctrl-C.

    Code that waits for a cancelled Spark job raises other errors while KeyboardInterrupt is being handled.
    Their chain of `__context__` then has the KeyboardInterrupt.
    """
    found: BaseException | None = error
    while found is not None and not isinstance(found, KeyboardInterrupt):
        if isinstance(found, RuntimeError) and str(found) == "Query interrupted":
            return True  # DuckDB raises it in place of KeyboardInterrupt
        found = found.__context__
    return found is not None


@contextmanager
def own_handler() -> Iterator[None]:
    """Keep the handler of Ctrl-C, which a new Spark context would replace."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and current_thread() is main_thread():  # others may not set it
            signal.signal(signal.SIGINT, before)


@contextmanager
def interruptible(spark: SparkSession) -> Iterator[None]:
    """Cancel Spark's jobs on Ctrl-C, and raise KeyboardInterrupt for every error that results from it.

    Spark's own handler calls the JVM at once, often while another answer is being read, which then looks
    broken.
    """

    def cancel() -> None:
        with suppress(Exception):  # Spark may have ended meanwhile
            spark.sparkContext.cancelAllJobs()

    def interrupt(*_: object) -> None:
        Thread(target=cancel, daemon=True).start()
        raise KeyboardInterrupt

    with own_handler():
        is_ignored = signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None)  # as in a background job
        if current_thread() is main_thread() and not is_ignored:
            signal.signal(signal.SIGINT, interrupt)
        try:
            yield
        except Exception as error:
            if is_interruption(error):
                raise KeyboardInterrupt from error
            raise
