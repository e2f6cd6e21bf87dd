"""Measure time and memory of benchmarks, and print them beside the baseline.

Because machines differ and are shared, each time is divided by the time of a reference, measured within the
same minutes.
"""

import json
import re
import statistics
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from os import getpid
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
import psutil

Measured: TypeAlias = tuple[float, float]
"""(duration [s], highest memory of JVM, Python workers and this process together [MiB])."""

BASELINE: Final = Path(__file__).with_name("baseline.json")


@dataclass(frozen=True)
class Figure:
    """A result of a benchmark: one row of the printed table."""

    name: str
    ops: int
    took_s: float
    ratio: float
    peak_mib: float | None = None


def show(title: str, compared_with: str, figures: Iterable[Figure]) -> Iterator[Figure]:
    """Print a table line by line as figures are measured, and yield each figure again."""
    baseline = json.loads(BASELINE.read_text()) if BASELINE.is_file() else {}
    print(f"\n{title}\nratio: to {compared_with}")
    heads = (
        f"{'ops':>12s}{'ms':>11s}{'ns/op':>8s}{'ratio':>9s}{'baseline':>10s}{'now/base':>9s}{'peak MiB':>10s}"
    )
    print(f"{'':54s}{heads}")
    for figure in figures:
        known = baseline.get(figure.name)
        against = f"{known:10.3f}{figure.ratio / known:9.2f}" if known else f"{'-':>10s}{'-':>9s}"
        peak = f"{figure.peak_mib:10,.0f}" if figure.peak_mib else ""
        per_op_ns = figure.took_s / figure.ops * 1e9
        print(
            f"{figure.name:54s}{figure.ops:12,d}{figure.took_s * 1e3:11.2f}{per_op_ns:8.1f}"
            f"{figure.ratio:9.3f}{against}{peak}",
            flush=True,
        )
        yield figure


def write_baseline(figures: Iterable[Figure]) -> None:
    """Save the column `ratio` of these figures, with which later runs are compared."""
    ratios = {figure.name: round(figure.ratio, 4) for figure in figures}
    BASELINE.write_text(json.dumps(ratios, indent=2) + "\n")


REPEATS = 20


def yardstick_ms() -> float:
    """Return the time of 10,000 sums of 640 float64 values. [ms]

    The machine for which targets were set takes 7 ms.
    """
    values, out = np.ones(640), np.empty(640)
    started = time.perf_counter()
    for _ in range(10_000):
        np.add(values, values, out=out)
    return (time.perf_counter() - started) * 1e3


def median_ms(work: Callable[[], object], repeats: int = REPEATS) -> tuple[float, float]:
    """Return the median times of `work` and of yardstick_ms, which runs before each repetition. [ms]"""
    work()
    times, yards = [], []
    for _ in range(repeats):
        yards.append(yardstick_ms())
        started = time.perf_counter()
        work()
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times), statistics.median(yards)


PAUSE_S: Final = 0.5
MIB: Final = 1 << 20
_JVM: Final = "java"
_HIGHEST: Final = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


@dataclass
class Peak:
    """Highest resident memory of the JVM, of all Python workers, of the driver, and of all together. [MiB]

    The memory of one process is the maximum that Linux keeps for it (VmHWM), so a peak between two samples is
    not missed.

    process : id of the driver; by default, of this process
    cpu_s : CPU time of each process until its last sample, by process id [s]

    After its fork and before its exec, a child process looks like a copy of its parent, so that a JVM which
    starts a command would count twice. Such children are not counted.
    """

    jvm: float = 0.0
    workers: float = 0.0
    driver: float = 0.0
    together: float = 0.0
    process: int = field(default_factory=getpid)
    cpu_s: dict[int, float] = field(default_factory=dict)

    def look(self) -> None:
        """Take one sample of the memory and CPU time of all watched processes."""
        this = psutil.Process(self.process)
        jvm = workers = 0.0
        for child in this.children(recursive=True):
            try:
                size = self._sampled(child)
                is_jvm, is_forking = _program(child) == _JVM, _is_forking(child, self.process)
            except (psutil.NoSuchProcess, psutil.AccessDenied, OSError):
                continue
            if not is_forking:
                jvm += size * is_jvm
                workers += size * (not is_jvm)
        driver = self._sampled(this)
        self.jvm, self.workers = max(self.jvm, jvm), max(self.workers, workers)
        self.driver, self.together = max(self.driver, driver), max(self.together, jvm + workers + driver)

    def _sampled(self, process: psutil.Process) -> float:
        """Return a process's highest resident memory so far [MiB], and note its CPU time in cpu_s."""
        used = process.cpu_times()
        self.cpu_s[process.pid] = used.user + used.system
        found = _HIGHEST.search(Path(f"/proc/{process.pid}/status").read_text())
        return int(found[1]) / 1024 if found else process.memory_info().rss / MIB


def _program(process: psutil.Process) -> str:
    return Path(process.exe()).name


def _is_forking(child: psutil.Process, driver: int) -> bool:
    """Return whether a child process was forked but has not yet started its own program."""
    above = child.parent()
    can_be = above is not None and (_program(child) == _JVM or above.pid == driver)
    return can_be and above.exe() == child.exe()


@contextmanager
def watched(process: int | None = None) -> Iterator[Peak]:
    """In the background, sample the memory of a process and of its children until the block ends."""
    peak, done = Peak(process=process or getpid()), threading.Event()

    def watch() -> None:
        while not done.wait(PAUSE_S):
            with suppress(psutil.NoSuchProcess, OSError):  # a process may end during the sample
                peak.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def watch(work: Callable[[], object]) -> Measured:
    """Run `work`; return its duration [s], and the highest memory of all processes together. [MiB]"""
    with watched() as peak:
        started = time.perf_counter()
        work()
        took_s = time.perf_counter() - started
    return took_s, peak.together
