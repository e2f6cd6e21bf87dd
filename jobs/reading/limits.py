"""Limits on time and memory of one question, as users may type any SQL."""

import os
import re
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Generic, Protocol, TypeVar

from jobs.runtime.arguments import INTERRUPTED, called
from jobs.runtime.memory import data_bytes, limit_data, memory_bytes
from jobs.runtime.settings import Settings, with_spark_conf
from jobs.runtime.terminal import complain
from jobs.warehouse.reader import AnswerError, OutOfMemoryError
from schemas.vocabulary import Exit

Found = TypeVar("Found")

_SHARE: Final = 4
"""A question may take this part of the machine's memory."""
_LEAST: Final = 2**28
"""A question gets at least this much memory: with less, loading a library ends the process. [B]"""
_GRACE_S: Final = 1.0
"""Time that an engine may take to stop: some of its steps check for an interrupt only at their end."""
_AGAIN_S: Final = 0.1
"""Time between two interrupts: one that comes before the engine has begun is without effect."""
_GB: Final = 1e9
_HEAP: Final = "spark.driver.memory"
_HEAP_SIZE: Final = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)
_UNITS: Final = {"k": 2**10, "": 2**20, "m": 2**20, "g": 2**30, "t": 2**40}
_LEAST_HEAP: Final = 2**29
"""Spark does not start with less. [B]"""


class Stoppable(Protocol):
    """Protocol of an engine whose current question another thread can interrupt."""

    def stop(self) -> None:
        """Interrupt the current question."""


def within_limits(engine: Stoppable, ask: Callable[[], Found], seconds: float) -> Found:
    """Run `ask` within limits of time and memory; returns or raises what it does.

    seconds : the longest it may take; 0: as long as it likes, with as much memory. [s]
    raises : AnswerError where it takes longer, or too much memory. An engine that does not stop ends this
             process instead, with that message.
    """
    asked = _Asked(ask)
    with _memory_limited(seconds) as most:
        asked.start()
        try:
            asked.is_done.wait(seconds or None)
        except KeyboardInterrupt:
            if not _stopped(engine, asked):
                _leave(INTERRUPTED, Exit.INTERRUPTED)
            raise
        if not asked.is_done.is_set():
            message = f"no answer within {seconds:g} s (--timeout 0: no limit)"
            if not _stopped(engine, asked):
                _leave(f"error: {message}", Exit.FAILED)
            raise AnswerError(message)
    is_said = isinstance(asked.error, OutOfMemoryError)
    if not is_said and (isinstance(asked.error, MemoryError) or "memory" in str(asked.error).lower()):
        allowed = f"a question may take {most / _GB:.1f} GB (--timeout 0 lifts that too)"
        raise OutOfMemoryError(f"out of memory: {allowed}") from None
    return asked.result()


def with_limited_heap(settings: Settings, seconds: float) -> Settings:
    """Return settings in which Spark's JVM gets no more memory than a question may use.

    seconds : as within_limits has it: 0 leaves the settings as they are
    """
    stated = _HEAP_SIZE.fullmatch(settings.spark.conf.get(_HEAP, "1g"))
    most = max(memory_bytes() // _SHARE, _LEAST_HEAP)
    if not seconds or stated is None or int(stated[1]) * _UNITS[stated[2].lower()] <= most:
        return settings
    return with_spark_conf(settings, {_HEAP: f"{most // _UNITS['m']}m"})


def _stopped(engine: Stoppable, asked: "_Asked[Found]") -> bool:
    """Interrupt a question repeatedly, and return whether it ended within a grace period."""
    until_s = time.monotonic() + _GRACE_S
    while not asked.is_done.is_set() and time.monotonic() < until_s:
        engine.stop()
        asked.is_done.wait(_AGAIN_S)
    return asked.is_done.is_set()


class _Asked(threading.Thread, Generic[Found]):
    """A daemon thread, which does not delay the end of the process.

    is_done : set at its end; a thread whose join is interrupted seems to have ended (CPython's bpo-45274).
    """

    def __init__(self, ask: Callable[[], Found]) -> None:
        super().__init__(daemon=True)
        self._ask = ask
        self.error: BaseException | None = None
        self.is_done = threading.Event()

    def run(self) -> None:
        try:
            self._found = self._ask()
        except BaseException as error:  # noqa: BLE001 - raised again where the answer is wanted
            self.error = error
        finally:
            self.is_done.set()

    def result(self) -> Found:
        if self.error is not None:
            raise self.error
        return self._found


@contextmanager
def _memory_limited(seconds: float) -> Iterator[int]:
    """Limit this process's additional memory; yields the limit. [B]"""
    most, before = max(memory_bytes() // _SHARE, _LEAST), resource.getrlimit(resource.RLIMIT_DATA)
    if not seconds:
        yield most
        return
    limit_data(data_bytes() + most)
    try:
        yield most
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, before)


def _leave(message: str, status: int) -> None:
    """End the process at once, because threads of an engine could block a normal exit."""
    sys.stdout.flush()
    complain(f"{called()}: {message}")
    sys.stderr.flush()
    os._exit(status)
