"""Times that stand beside a yardstick of the same moment, because machines are shared and noisy."""

import statistics
import time
from collections.abc import Callable

import numpy as np

REPEATS = 20


def yardstick_ms() -> float:
    """10,000 sums of 640 float64 [ms]; 7 ms on the machine for which the targets were set."""
    values, out = np.ones(640), np.empty(640)
    started = time.perf_counter()
    for _ in range(10_000):
        np.add(values, values, out=out)
    return (time.perf_counter() - started) * 1e3


def median_ms(work: Callable[[], object], repeats: int = REPEATS) -> tuple[float, float]:
    """Median time of `work` and of the yardstick run before each repeat [ms]."""
    work()
    times, yards = [], []
    for _ in range(repeats):
        yards.append(yardstick_ms())
        started = time.perf_counter()
        work()
        times.append((time.perf_counter() - started) * 1e3)
    return statistics.median(times), statistics.median(yards)
