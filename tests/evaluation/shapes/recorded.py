"""Record the ops of each stage of a simulated pipeline, and the duration of its steps."""

from dataclasses import dataclass, field

import numpy as np

from tests.evaluation.shapes.layout import Floats


@dataclass
class Recorded:
    """Recorded ops of one stage, with starts and ends of shape (step, dp_rank). [s]"""

    op: list[str] = field(default_factory=list)
    microbatch: list[int] = field(default_factory=list)
    chunk: list[int] = field(default_factory=list)
    start_s: list[Floats] = field(default_factory=list)
    end_s: list[Floats] = field(default_factory=list)

    def add(self, op: str, start_s: Floats, end_s: Floats, microbatch: int = -1, chunk: int = 0) -> Floats:
        """Record an op and return its end time. [s]"""
        self.op.append(op)
        self.microbatch.append(microbatch)
        self.chunk.append(chunk)
        self.start_s.append(start_s)
        self.end_s.append(end_s)
        return end_s


def step_times(recorded: list[Recorded]) -> Floats:
    """Time from the first start to the last end of any worker in each step, shape (step,). [s]"""
    first = np.min([np.min(each.start_s, axis=(0, 2)) for each in recorded], axis=0)
    last = np.max([np.max(each.end_s, axis=(0, 2)) for each in recorded], axis=0)
    return np.asarray(last - first)
