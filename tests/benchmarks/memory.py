"""Peak memory of this process and all beneath it, sampled while something runs.

Between its fork and its exec a child is as large as what started it, and has the name of one of its threads:
a JVM that starts a command looks like two. Such a child is passed over; its program is still its parent's.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import getpid
from pathlib import Path
from typing import Final

import psutil

PAUSE_S: Final = 0.2
MIB: Final = 1 << 20
_JVM: Final = "java"


@dataclass
class Peak:
    """Highest resident memory seen [MiB]: the JVM, all Python workers, this process; all at a time."""

    jvm: float = 0.0
    workers: float = 0.0
    driver: float = 0.0
    together: float = 0.0

    def look(self) -> None:
        """Take one sample."""
        this = psutil.Process()
        jvm = workers = 0.0
        for child in this.children(recursive=True):
            try:
                size = child.memory_info().rss / MIB
                is_jvm, is_forking = _program(child) == _JVM, _is_forking(child)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
            if not is_forking:
                jvm += size * is_jvm
                workers += size * (not is_jvm)
        driver = this.memory_info().rss / MIB
        self.jvm, self.workers = max(self.jvm, jvm), max(self.workers, workers)
        self.driver, self.together = max(self.driver, driver), max(self.together, jvm + workers + driver)


def _program(process: psutil.Process) -> str:
    return Path(process.exe()).name


def _is_forking(child: psutil.Process) -> bool:
    """Whether this is a JVM beneath a JVM, or a Python process right beneath this one: not started yet."""
    above = child.parent()
    can_be = above is not None and (_program(child) == _JVM or above.pid == getpid())
    return can_be and above.exe() == child.exe()


@contextmanager
def watched() -> Iterator[Peak]:
    """Sample in the background until the block ends."""
    peak, done = Peak(), threading.Event()

    def watch() -> None:
        while not done.wait(PAUSE_S):
            peak.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()
