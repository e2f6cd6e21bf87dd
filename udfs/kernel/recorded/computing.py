"""Share of a job's workers that compute, by phase of the step: the cause of power swings.

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


MIDDLES: Final = np.arange(BINS + 1) + 0.5


class Computing(NamedTuple):
    """Share of the workers that compute, by phase of the step, over all recorded steps.

    mean, low, high : float64, shape (bin,); mean, least and greatest over the steps.
    step_swing      : difference of the greatest and the least bin of a step, mean over the steps.
    """

    mean: Floats
    low: Floats
    high: Floats
    step_swing: float


@dataclass
class ComputingSums:
    """Running sums from which Computing is made, block by block."""

    steps: int = 0
    swing: float = 0.0
    total: Floats = field(default_factory=lambda: np.zeros(BINS))
    low: Floats = field(default_factory=lambda: np.ones(BINS))
    high: Floats = field(default_factory=lambda: np.zeros(BINS))

    def add(self, block: StepBlock, end_s: Floats, began_s: Floats, step_s: Floats) -> None:
        """Add the steps of a block; arguments as of `shares`."""
        share = shares(block, end_s, began_s, step_s)
        self.steps += len(share)
        self.swing += float((share.max(axis=1) - share.min(axis=1)).sum())
        self.total += share.sum(axis=0)
        np.minimum(self.low, share.min(axis=0), out=self.low)
        np.maximum(self.high, share.max(axis=0), out=self.high)

    def of_all_steps(self) -> Computing:
        """Share of computing workers over all blocks added so far."""
        return Computing(self.total / self.steps, self.low, self.high, self.swing / self.steps)


def shares(block: StepBlock, end_s: Floats, began_s: Floats, step_s: Floats) -> Floats:
    """Share of the workers that compute in each bin of each step; shape (step, bin).

    end_s   : float64, shape (op, step, dp); recorded. [s]
    began_s : float64, shape (step,); earliest recorded start. [s]
    step_s  : float64, shape (step,); recorded step time. [s]
    """
    ops = _computing_ops(block.graph)
    # An op adds to the bins behind its start and takes away from those behind its end.
    starts, ends = (_behind(times[ops], began_s, step_s) for times in (block.start_s, end_s))
    workers = len(block.graph.cells) * block.start_s.shape[2]
    starts -= ends
    starts /= workers
    share: Floats = np.maximum(np.minimum(starts[:, :BINS], 1.0), 0.0)
    return share


@once_per_graph
def _computing_ops(graph: OpGraph) -> Ints:
    """Numbers of the ops that compute."""
    return np.flatnonzero(np.isin(graph.op_types, COMPUTING))


def _behind(at_s: Floats, began_s: Floats, step_s: Floats) -> Floats:
    """Total part of each bin that lies after the given times; shape (step, bin + 1).

    at_s : float64, shape (op, step, dp). [s]
    """
    shape = (len(began_s), BINS + 1)
    # Steps last: neighbours that fall into one bin would wait for each other's sum.
    place = np.subtract(at_s.swapaxes(1, 2), began_s, order="C")
    # A step of no time is refused later.
    place *= np.divide(BINS, step_s, out=np.zeros(len(step_s)), where=step_s > 0.0)
    bins = place.astype(np.int64)
    bins += np.arange(0, shape[0] * shape[1], shape[1])
    # Places and their number in one sum, because sums by bin take most of the time: more places than there
    # are make each count as one more than all places together can.
    most = float(place.shape[0] * place.shape[1])
    place += most
    both = np.bincount(bins.ravel(), place.ravel(), minlength=shape[0] * shape[1]).reshape(shape)
    count = np.rint(both / (most + MIDDLES))
    own = count * (most + np.arange(1, BINS + 2)) - both
    behind: Floats = own + np.cumsum(count, axis=1) - count
    return behind
