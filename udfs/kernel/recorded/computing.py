"""Share of a job's workers that compute, at each phase of the step: what its power swings with.

udfs/README.md, "What else the logs answer", has the equations.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.graph.graph import OpGraph, once_per_graph
from udfs.kernel.recorded.trace import StepBlock

BINS: Final = 128
"""Parts of a step: enough for waves of 64 microbatches."""

COMPUTING: Final = (ot.FORWARD_COMPUTE, ot.BACKWARD_COMPUTE, ot.OPTIMIZER)
"""What keeps a GPU busy; everything else moves data or waits."""


class Computing(NamedTuple):
    """Share of the workers that compute, by phase of the step; of all recorded steps.

    mean, low, high : float64, shape (bin,); mean, least and greatest over the steps.
    step_swing      : difference of the greatest and the least bin of a step, mean over the steps.
    """

    mean: Floats
    low: Floats
    high: Floats
    step_swing: float


@dataclass
class ComputingSums:
    """The same, in sums that grow block after block."""

    steps: int = 0
    swing: float = 0.0
    total: Floats = field(default_factory=lambda: np.zeros(BINS))
    low: Floats = field(default_factory=lambda: np.ones(BINS))
    high: Floats = field(default_factory=lambda: np.zeros(BINS))

    def add(self, block: StepBlock, end_s: Floats, began_s: Floats, step_s: Floats) -> None:
        """Take in the steps of a block; arguments as of `shares`."""
        share = shares(block, end_s, began_s, step_s)
        self.steps += len(share)
        self.swing += float(np.ptp(share, axis=1).sum())
        self.total += share.sum(axis=0)
        np.minimum(self.low, share.min(axis=0), out=self.low)
        np.maximum(self.high, share.max(axis=0), out=self.high)

    def of_all_steps(self) -> Computing:
        """What all blocks say together."""
        return Computing(self.total / self.steps, self.low, self.high, self.swing / self.steps)


def shares(block: StepBlock, end_s: Floats, began_s: Floats, step_s: Floats) -> Floats:
    """Share of the workers that compute, in each bin of each step; shape (step, bin).

    end_s   : float64, shape (op, step, dp); recorded. [s]
    began_s : float64, shape (step,); earliest recorded start. [s]
    step_s  : float64, shape (step,); recorded step time. [s]
    """
    ops = _computing_ops(block.graph)
    # An op adds to the bins behind its start and takes away from those behind its end.
    starts, ends = (_behind(times[ops], began_s, step_s) for times in (block.start_s, end_s))
    workers = len(block.graph.cells) * block.start_s.shape[2]
    share: Floats = np.clip((starts - ends)[:, :BINS] / workers, 0.0, 1.0)
    return share


@once_per_graph
def _computing_ops(graph: OpGraph) -> Ints:
    """Numbers of the ops that compute."""
    return np.flatnonzero(np.isin(graph.op_types, COMPUTING))


def _behind(at_s: Floats, began_s: Floats, step_s: Floats) -> Floats:
    """How much of each bin lies behind the given times, summed over them; shape (step, bin + 1).

    at_s : float64, shape (op, step, dp); changed. [s]
    """
    steps = len(began_s)
    at_s -= began_s[:, None]
    # A step of no time is refused later.
    at_s *= np.divide(BINS, step_s, out=np.zeros(steps), where=step_s > 0.0)[:, None]
    bins = at_s.astype(np.int64)
    bins += np.arange(0, steps * (BINS + 1), BINS + 1)[:, None]
    shape = (steps, BINS + 1)
    size = shape[0] * shape[1]
    count = np.bincount(bins.ravel(), minlength=size).reshape(shape)
    place = np.bincount(bins.ravel(), at_s.ravel(), minlength=size).reshape(shape)
    own = count * np.arange(1, BINS + 2) - place
    before = np.cumsum(count, axis=1) - count
    return own + before
