"""Two clocks for the ops of a step: the host's, and the GPU's by CUDA events.

Inside a step a clock only takes marks; once it has settled, it says the time between two of them.
"""

import time
from collections.abc import Callable
from typing import Any

Mark = Any
"""A moment: nanoseconds of the host's clock, or a recorded CUDA event."""


class HostClock:
    """The host's clock, right if calls block until their work is done. A mark waits for nothing."""

    mark = staticmethod(time.perf_counter_ns)

    def settle(self) -> None:
        """Do nothing, because the host's marks are plain numbers."""

    def us_between(self, start: Mark, end: Mark) -> float:
        """Time from one mark to another. [us]"""
        return float(end - start) / 1000


class CudaClock:
    """The GPU's clock: a mark is an event queued on the current stream, timed by the GPU."""

    def __init__(self, cuda: Any) -> None:
        """Store the module `torch.cuda`."""
        self._cuda = cuda
        self._lanes: dict[str, Any] = {}

    def mark(self) -> Mark:
        """Queue an event on the current stream."""
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def arrived(self, lane: str, wait: Callable[[], object]) -> Mark:
        """Wait on a separate stream, so that the event is not delayed by earlier computes."""
        if lane not in self._lanes:
            self._lanes[lane] = self._cuda.Stream()
        with self._cuda.stream(self._lanes[lane]):
            wait()
            return self.mark()

    def settle(self) -> None:
        """Wait until the GPU has processed all marks."""
        self._cuda.synchronize()

    def us_between(self, start: Mark, end: Mark) -> float:
        """Time between two events, at float32 millisecond resolution. [us]"""
        return float(start.elapsed_time(end)) * 1000


StepClock = HostClock | CudaClock
