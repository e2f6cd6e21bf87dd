"""Background thread that writes lines, so that a stalled store delays no training; lost lines are counted."""

import atexit
import logging
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

LOGGER = logging.getLogger("straggler_emitter")
MOST_WAITING = 16
"""Most lines that wait to be written; while that many wait, new lines are dropped and counted."""
LONGEST_EXIT_S = 2.0
"""Longest wait for unwritten lines when the process exits: schedulers send SIGKILL soon after SIGTERM. [s]"""
LONGEST_WARNING_S = 1.0
"""Longest time that the training waits for the job's log handlers to process a warning. [s]"""


def warn(message: str, *values: object) -> None:
    """Log a warning in a separate thread, because a job's log handler may raise, exit or hang."""

    def say() -> None:
        with suppress(BaseException):
            LOGGER.warning(message, *values)

    try:
        thread = threading.Thread(target=say, name="rank log warning", daemon=True)
        thread.start()
    except RuntimeError:  # no thread starts any more while the interpreter ends
        return say()
    thread.join(LONGEST_WARNING_S)
    if thread.is_alive():
        atexit.register(_let_exit, thread)
    return None


def _let_exit(thread: threading.Thread) -> None:
    """Remove the locks of hanging log handlers, which would block the exit of the process."""
    logger: logging.Logger | None = LOGGER
    while thread.is_alive() and logger is not None:
        for handler in logger.handlers:
            handler.lock = None
        logger = logger.parent if logger.propagate else None


class LineThread:
    """Thread that passes lines to `write`, counts dropped lines, and warns once about them.

    what    : name of the writer in warnings, such as "rank 3"
    units   : plural of what one line holds, such as "steps"
    give_up : called with the reason if `write` raises an error other than OSError, which may be temporary
    In a forked process, and after `close`, the next `put` starts a new thread.
    """

    def __init__(
        self, what: str, units: str, write: Callable[[Any, int], None], give_up: Callable[[str], None]
    ) -> None:
        self._what, self._units, self._write, self._give_up = what, units, write, give_up
        self._queue: queue.Queue[tuple[Any, int] | None] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._not_queued = 0
        self._not_written = 0
        self._has_warned = False

    def put(self, line: object) -> None:
        """Queue a line without waiting, or drop it if MOST_WAITING lines are queued."""
        if self._thread is None or not self._thread.is_alive():
            self._queue, self._not_written = queue.Queue(MOST_WAITING), 0  # a fork may have left locks in it
            self._thread = threading.Thread(
                target=self._run, args=(self._queue,), name=f"lines of {self._what}", daemon=True
            )
            self._thread.start()
            atexit.register(self.close, LONGEST_EXIT_S)
        try:
            self._queue.put_nowait((line, self._not_queued))
            self._not_queued = 0
        except queue.Full:
            self._not_queued += 1
            self._say(f"the store is {MOST_WAITING} {self._units} behind")

    def close(self, timeout_s: float = 10.0) -> None:
        """Wait at most `timeout_s` for the last lines to be written. [s]"""
        atexit.unregister(self.close)
        thread, self._thread = self._thread, None
        if thread is None or not thread.is_alive():
            return
        end_s = time.monotonic() + timeout_s
        with suppress(queue.Full):
            self._queue.put(None, timeout=timeout_s)
        thread.join(max(end_s - time.monotonic(), 0.0))
        waiting = 0
        if thread.is_alive():
            waiting = sum(1 + each[1] for each in list(self._queue.queue) if each is not None)
        lost, self._not_queued = self._not_queued + self._not_written + waiting, 0
        if lost:
            warn("%s: the last %d %s were not written", self._what, lost, self._units)

    def _run(self, lines: "queue.Queue[tuple[Any, int] | None]") -> None:
        try:
            while (each := lines.get()) is not None:
                line, left_out = each
                try:
                    self._write(line, left_out + self._not_written)
                    self._not_written = 0
                except OSError as error:
                    self._not_written += left_out + 1
                    self._say(repr(error))
        except BaseException as error:  # noqa: BLE001  # this thread has no caller
            self._give_up(repr(error))

    def _say(self, reason: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            text = "%s: %s are left out until the store takes them, training continues: %s"
            warn(text, self._what, self._units, reason)
