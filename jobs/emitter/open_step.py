"""A step while it is being recorded."""

import time
from collections.abc import Sequence

from .rank_log_writer import Step
from .step_clocks import Mark, StepClock

DECIMALS = 1
"""Of times in a line [us]: CUDA's events have fewer, and a further one makes a packed line a tenth longer."""
Pieces = Sequence[tuple[Mark, Mark]]


class OpenStep:
    """A step being recorded: its zero on the op clock and the host clock, and its timed ops.

    spans : op, start, end, microbatch, chunk, pieces
    loads : start and end by `time.perf_counter_ns`, microbatch, chunk
    """

    def __init__(self, number: int, clock: StepClock) -> None:
        """Begin the step now, on a settled clock."""
        self.number = number
        self.t0_us, self.zero, self.host_ns = time.time_ns() // 1000, clock.mark(), time.perf_counter_ns()
        self.spans: list[tuple[str, Mark, Mark, int, int, Pieces]] = []
        self.loads: list[tuple[int, int, int, int]] = []

    def loaded(self, start_ns: int, end_ns: int, microbatch: int | None, chunk: int) -> None:
        """Add a data load; without a microbatch it belongs to the chunk's next one."""
        following = sum(load[3] == chunk for load in self.loads)
        self.loads.append((start_ns, end_ns, following if microbatch is None else microbatch, chunk))

    @property
    def has_begun(self) -> bool:
        """Whether the step has a compute."""
        return any("compute" in span[0] for span in self.spans)

    def line(self, clock: StepClock) -> Step:
        """Convert the marks of a settled clock to a step of the rank log."""
        line, between = Step(self.number, self.t0_us), clock.us_between
        for op, start, end, microbatch, chunk, pieces in self.spans:
            earlier_us = sum(between(*piece) for piece in pieces)
            start_us = max(between(self.zero, start) - earlier_us, 0.0)
            duration_us = earlier_us + between(start, end)
            _record(line, op, (start_us, duration_us), microbatch, chunk)
        for start_ns, end_ns, microbatch, chunk in self.loads:
            start_us, duration_us = (start_ns - self.host_ns) / 1000, (end_ns - start_ns) / 1000
            _record(line, "data-load", (start_us, duration_us), microbatch, chunk)
        return line


def _record(line: Step, op: str, times_us: tuple[float, float], microbatch: int, chunk: int) -> None:
    start_us, duration_us = (round(each, DECIMALS) for each in times_us)
    line.record(op, start_us, duration_us, microbatch=microbatch, model_chunk=chunk)
