"""Step that is being recorded, and two clocks for its ops: the host's clock, and the GPU's by CUDA events.

During a step a clock only takes marks. After `settle`, `us_between` returns the time between two marks.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from .rank_log_writer import Step

Mark = Any
"""A moment: nanoseconds of the host's clock, or a recorded CUDA event."""


class HostClock:
    """Clock of the host, for calls that block until their work is done; taking a mark waits for nothing."""

    mark = staticmethod(time.perf_counter_ns)

    def settle(self) -> None:
        """Do nothing, because the host's marks are plain numbers."""

    def us_between(self, start: Mark, end: Mark) -> float:
        """Return the time from one mark to another. [us]"""
        return float(end - start) / 1000


class CudaClock:
    """The GPU's clock: a mark is an event queued on the current stream, timed by the GPU."""

    def __init__(self, cuda: Any) -> None:
        self._cuda = cuda
        self._lanes: dict[str, Any] = {}

    def mark(self) -> Mark:
        """Queue an event on the current stream."""
        event = self._cuda.Event(enable_timing=True)
        event.record()
        return event

    def arrived(self, lane: str, wait: Callable[[], object]) -> Mark:
        """Call `wait` on its own CUDA stream, so that no compute delays it; return a mark of its end."""
        if lane not in self._lanes:
            self._lanes[lane] = self._cuda.Stream()
        with self._cuda.stream(self._lanes[lane]):
            wait()
            return self.mark()

    def settle(self) -> None:
        """Wait until the GPU has processed all marks."""
        self._cuda.synchronize()

    def us_between(self, start: Mark, end: Mark) -> float:
        """Return the time between two events, with the resolution of float32 milliseconds. [us]"""
        return float(start.elapsed_time(end)) * 1000


StepClock = HostClock | CudaClock


DECIMALS = 1
"""Decimals of times in a line [us]: CUDA's events are less precise, and a second decimal would make a
compressed line a tenth longer."""
Pieces = Sequence[tuple[Mark, Mark]]


class OpenStep:
    """A step that is being recorded: its start by the clock of its ops and by the host's clock, and its ops.

    spans : op, start, end, microbatch, chunk, pieces
    loads : start and end by `time.perf_counter_ns`, microbatch, chunk
    """

    def __init__(self, number: int, clock: StepClock) -> None:
        """Begin the step now; the caller has called `clock.settle`, so that no earlier work is pending."""
        self.number = number
        self.t0_us, self.zero, self.host_ns = time.time_ns() // 1000, clock.mark(), time.perf_counter_ns()
        self.spans: list[tuple[str, Mark, Mark, int, int, Pieces]] = []
        self.loads: list[tuple[int, int, int, int]] = []

    def loaded(self, start_ns: int, end_ns: int, microbatch: int | None, chunk: int) -> None:
        """Add a data load; a load without a microbatch belongs to the chunk's next microbatch."""
        following = sum(load[3] == chunk for load in self.loads)
        self.loads.append((start_ns, end_ns, following if microbatch is None else microbatch, chunk))

    @property
    def has_begun(self) -> bool:
        """Return whether a compute of the step has been recorded."""
        return any("compute" in span[0] for span in self.spans)

    def line(self, clock: StepClock) -> Step:
        """Return the step with times in microseconds; call `clock.settle` before, so that marks have them."""
        line, between = Step(self.number, self.t0_us), clock.us_between

        def record(op: str, start_us: float, duration_us: float, microbatch: int, chunk: int) -> None:
            times_us = round(start_us, DECIMALS), round(duration_us, DECIMALS)
            line.record(op, *times_us, microbatch=microbatch, model_chunk=chunk)

        for op, start, end, microbatch, chunk, pieces in self.spans:
            earlier_us = sum(between(*piece) for piece in pieces)
            start_us = max(between(self.zero, start) - earlier_us, 0.0)
            record(op, start_us, earlier_us + between(start, end), microbatch, chunk)
        for start_ns, end_ns, microbatch, chunk in self.loads:
            start_us, duration_us = (start_ns - self.host_ns) / 1000, (end_ns - start_ns) / 1000
            record("data-load", start_us, duration_us, microbatch, chunk)
        return line
