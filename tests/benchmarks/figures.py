"""Measure time and memory of benchmarks, and print them beside the baseline.

Machines differ and are shared, so that a time is compared as a ratio to something that ran in those minutes.
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
"""Seconds, and peak memory of JVM, Python workers and this process together [MiB]."""

BASELINE: Final = Path(__file__).with_name("baseline.json")


@dataclass(frozen=True)
class Figure:
    """One figure that a benchmark has measured.

    name     : what ran, on what.
    ops      : how many ops it worked on.
    took_s   : how long. [s]
    ratio    : took_s over the time of what it is compared with.
    peak_mib : peak memory where it was watched. [MiB]
    """

    name: str
    ops: int
    took_s: float
    ratio: float
    peak_mib: float | None = None


def show(title: str, compared_with: str, figures: Iterable[Figure]) -> Iterator[Figure]:
    """Print a table line by line as figures are measured, and return the figures."""
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
    """Save the given figures as the baseline for later runs."""
    ratios = {figure.name: round(figure.ratio, 4) for figure in figures}
    BASELINE.write_text(json.dumps(ratios, indent=2) + "\n")


REPEATS = 20


def yardstick_ms() -> float:
    """Time of 10,000 sums of 640 float64 values [ms]: 7 ms on the machine for which targets were set."""
    values, out = np.ones(640), np.empty(640)
    started = time.perf_counter()
    for _ in range(10_000):
        np.add(values, values, out=out)
    return (time.perf_counter() - started) * 1e3


def median_ms(work: Callable[[], object], repeats: int = REPEATS) -> tuple[float, float]:
    """Median time of `work`, and of the yardstick that runs before each repetition of `work`. [ms]"""
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

    Also the CPU time of all.

    Linux itself keeps the highest of each process (VmHWM), so that nothing between two samples is missed.

    process : the driver's; this one unless another is named
    cpu_s : of each process, as of its last sample [s]

    Between its fork and its exec a child is as large as what started it, and has the name of one of its
    threads: a JVM that starts a command looks like two. Such a child is passed over; its program is still its
    parent's.
    """

    jvm: float = 0.0
    workers: float = 0.0
    driver: float = 0.0
    together: float = 0.0
    process: int = field(default_factory=getpid)
    cpu_s: dict[int, float] = field(default_factory=dict)

    def look(self) -> None:
        """Take one sample of the memory of all watched processes."""
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
        """Return a process's highest resident memory so far [MiB], and keep its CPU time."""
        used = process.cpu_times()
        self.cpu_s[process.pid] = used.user + used.system
        found = _HIGHEST.search(Path(f"/proc/{process.pid}/status").read_text())
        return int(found[1]) / 1024 if found else process.memory_info().rss / MIB


def _program(process: psutil.Process) -> str:
    return Path(process.exe()).name


def _is_forking(child: psutil.Process, driver: int) -> bool:
    """Return whether a process was forked but has not yet started its own program."""
    above = child.parent()
    can_be = above is not None and (_program(child) == _JVM or above.pid == driver)
    return can_be and above.exe() == child.exe()


@contextmanager
def watched(process: int | None = None) -> Iterator[Peak]:
    """In the background, sample the memory of a process and of its children until the block ends."""
    peak, done = Peak(process=process or getpid()), threading.Event()

    def watch() -> None:
        while not done.wait(PAUSE_S):
            with suppress(psutil.NoSuchProcess, OSError):  # another may end first
                peak.look()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()


def watch(work: Callable[[], object]) -> Measured:
    """Run a function; return its duration in seconds and its peak memory."""
    with watched() as peak:
        started = time.perf_counter()
        work()
        took_s = time.perf_counter() - started
    return took_s, peak.together
