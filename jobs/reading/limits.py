"""Limits on the time and memory of one question, because users may type any SQL."""

import os
import re
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

from jobs.runtime.arguments import INTERRUPTED, called
from jobs.runtime.memory import data_bytes, limit_data, memory_bytes
from jobs.runtime.settings import Settings, with_spark_conf
from jobs.runtime.terminal import complain
from jobs.warehouse.reader import AnswerError, OutOfMemoryError
from schemas.vocabulary import Exit

Found = TypeVar("Found")

_SHARE: Final = 4
"""A question may take the machine's memory divided by this number."""
_LEAST: Final = 2**28
"""A question gets at least this much memory: with less, loading a library ends the process. [B]"""
_GRACE_S: Final = 1.0
"""Time that an engine may take to stop: some of its steps check for an interrupt only at their end. [s]"""
_AGAIN_S: Final = 0.1
"""Time between two interrupts, which are repeated as one before the engine begins has no effect. [s]"""
_HEAP: Final = "spark.driver.memory"
_HEAP_SIZE: Final = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)
_UNITS: Final = {"k": 2**10, "": 2**20, "m": 2**20, "g": 2**30, "t": 2**40}
_LEAST_HEAP: Final = 2**29
"""Least heap of Spark's JVM: with less, Spark does not start. [B]"""


class Stoppable(Protocol):
    """Protocol of an engine whose current question another thread can interrupt."""

    def stop(self) -> None:
        """Interrupt the current question."""


def within_limits(engine: Stoppable, ask: Callable[[], Found], seconds: float) -> Found:
    """Run `ask` within limits of time and memory; return its result or raise its error.

    seconds : most time for `ask`; 0 for no limit of time and memory. [s]
    raises : AnswerError if `ask` takes longer, or too much memory. If the engine cannot be stopped, this
             process ends instead, and prints the same message.
    """
    return _Limits(engine, seconds).run(ask)


def batches_within_limits(engine: Stoppable, batches: Iterator[Found], seconds: float) -> Iterator[Found]:
    """Yield the batches of one answer, all together within the limits of `within_limits`.

    Only the time in which the engine computes counts, not the time in which a pager waits for its user.
    """
    limits = _Limits(engine, seconds)
    while found := limits.run(lambda: list(islice(batches, 1))):
        yield from found


class _Limits:
    """Limits of one question, for all calls of `run` together that compute its answer."""

    def __init__(self, engine: Stoppable, seconds: float) -> None:
        self._engine, self._seconds = engine, seconds
        self._taken_s = 0.0
        self._most = max(memory_bytes() // _SHARE, _LEAST)
        self._most_data = data_bytes() + self._most

    def run(self, ask: Callable[[], Found]) -> Found:
        """Run `ask` within the time that is left, and return its result or raise its error."""
        asked = _Asked(ask)
        started_s = time.monotonic()
        with self._memory_limited():
            asked.start()
            try:
                asked.is_done.wait(max(self._seconds - self._taken_s, 0.0) if self._seconds else None)
            except KeyboardInterrupt:
                if not _stopped(self._engine, asked):
                    _leave(INTERRUPTED, Exit.INTERRUPTED)
                raise
            if not asked.is_done.is_set():
                what = "only a part of the answer" if self._taken_s else "no answer"
                message = f"{what} within {self._seconds:g} s (--timeout 0: no limit)"
                if not _stopped(self._engine, asked):
                    _leave(f"error: {message}", Exit.FAILED)
                raise AnswerError(message)
        self._taken_s += time.monotonic() - started_s
        is_said = isinstance(asked.error, OutOfMemoryError)
        if not is_said and (isinstance(asked.error, MemoryError) or "memory" in str(asked.error).lower()):
            allowed = f"a question may take {self._most / 1e9:.1f} GB (--timeout 0 lifts that too)"
            raise OutOfMemoryError(f"out of memory: {allowed}") from None
        return asked.result()

    @contextmanager
    def _memory_limited(self) -> Iterator[None]:
        """Limit this process to its memory when the question began, plus what a question may take."""
        if not self._seconds:
            yield
            return
        before = resource.getrlimit(resource.RLIMIT_DATA)
        limit_data(self._most_data)
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_DATA, before)


def with_limited_heap(settings: Settings, seconds: float) -> Settings:
    """Return settings in which Spark's JVM gets no more memory than a question may use.

    seconds : time limit of the question; 0 (no limits) leaves the settings as they are. [s]
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
    """Daemon thread that runs a question, and that does not keep the process from ending.

    is_done : set when the question has ended. Thread.join cannot say this: after an interrupted join, a
              thread seems to have ended (CPython's bpo-45274).
    """

    def __init__(self, ask: Callable[[], Found]) -> None:
        super().__init__(daemon=True)
        self._ask = ask
        self.error: BaseException | None = None
        self.is_done = threading.Event()

    def run(self) -> None:
        try:
            self._found = self._ask()
        except BaseException as error:  # noqa: BLE001 - raised again by `result`
            self.error = error
        finally:
            self.is_done.set()

    def result(self) -> Found:
        if self.error is not None:
            raise self.error
        return self._found


def _leave(message: str, status: int) -> None:
    """End the process at once, because threads of an engine could block a normal exit."""
    sys.stdout.flush()
    complain(f"{called()}: {message}")
    sys.stderr.flush()
    os._exit(status)
