"""Peak memory of this process and all beneath it, sampled while something runs."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import psutil

PAUSE_S: Final = 0.2
MIB: Final = 1 << 20


@dataclass
class Peak:
    """Highest resident memory seen [MiB]: the JVM, all Python workers together, this process."""

    jvm: float = 0.0
    workers: float = 0.0
    driver: float = 0.0
    processes: set[int] = field(default_factory=set)

    def look(self) -> None:
        """Take one sample."""
        this = psutil.Process()
        jvm = workers = 0.0
        for child in this.children(recursive=True):
            try:
                size = child.memory_info().rss / MIB
                is_jvm = child.name() == "java"
            except psutil.NoSuchProcess:
                continue
            jvm += size * is_jvm
            workers += size * (not is_jvm)
        self.jvm, self.workers = max(self.jvm, jvm), max(self.workers, workers)
        self.driver = max(self.driver, this.memory_info().rss / MIB)


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
