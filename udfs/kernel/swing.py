"""The share of workers that compute at each phase of a step, how it swings, and how regularly steps begin.

udfs/README.md, "Power", has the equations.
"""

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.graph.graph import OpGraph, once_per_graph
from udfs.kernel.recorded.trace import StepBlock

BINS: Final = 128
"""Number of equal parts of a step; two for each of 64 microbatches."""

COMPUTING: Final = (ot.FORWARD_COMPUTE, ot.BACKWARD_COMPUTE, ot.OPTIMIZER)
"""Ops that keep a GPU busy; all others move data or wait."""

MIDDLES: Final = np.arange(BINS + 1) + 0.5


class Computing(NamedTuple):
    """Share of the workers that compute, by phase of the step, with means over all recorded steps.

    mean, low, high : float64, shape (bin,); mean, least and greatest over the steps.
    step_swing      : difference of the greatest and the least bin of a step, mean over the steps.
    """

    mean: Floats
    low: Floats
    high: Floats
    step_swing: float


@dataclass
class ComputingSums:
    """Sums over blocks from which Computing is computed."""

    steps: int = 0
    swing: float = 0.0
    total: Floats = field(default_factory=lambda: np.zeros(BINS))
    low: Floats = field(default_factory=lambda: np.ones(BINS))
    high: Floats = field(default_factory=lambda: np.zeros(BINS))

    def add(self, block: StepBlock, end_s: Floats, began_s: Floats, step_s: Floats) -> None:
        """Add the steps of a block; the arguments are those of `shares`."""
        share = shares(block, end_s, began_s, step_s)
        self.steps += len(share)
        self.swing += float((share.max(axis=1) - share.min(axis=1)).sum())
        self.total += share.sum(axis=0)
        np.minimum(self.low, share.min(axis=0), out=self.low)
        np.maximum(self.high, share.max(axis=0), out=self.high)

    def of_all_steps(self) -> Computing:
        """Return the share of computing workers over all blocks that were added."""
        return Computing(self.total / self.steps, self.low, self.high, self.swing / self.steps)


def shares(block: StepBlock, end_s: Floats, began_s: Floats, step_s: Floats) -> Floats:
    """Return the share of the workers that compute in each bin of each step; shape (step, bin).

    end_s   : float64, shape (op, step, dp); recorded. [s]
    began_s : float64, shape (step,); earliest recorded start. [s]
    step_s  : float64, shape (step,); recorded step time. [s]
    """
    ops = _computing_ops(block.graph)
    # An op adds to the bins after its start, and subtracts from the bins after its end.
    starts, ends = (_behind(times[ops], began_s, step_s) for times in (block.start_s, end_s))
    workers = len(block.graph.cells) * block.start_s.shape[2]
    starts -= ends
    starts /= workers
    return np.maximum(np.minimum(starts[:, :BINS], 1.0), 0.0)


@once_per_graph
def _computing_ops(graph: OpGraph) -> Ints:
    return np.flatnonzero(np.isin(graph.op_types, COMPUTING))


def _behind(at_s: Floats, began_s: Floats, step_s: Floats) -> Floats:
    """Return for each bin the sum, over the given times, of the part of the bin after the time.

    at_s : float64, shape (op, step, dp). [s]
    """
    shape = (len(began_s), BINS + 1)
    # Steps are the last axis: neighbours that fall into one bin would wait for each other's sum.
    place = np.subtract(at_s.swapaxes(1, 2), began_s, order="C")
    # A step of no time is refused later.
    place *= np.divide(BINS, step_s, out=np.zeros(len(step_s)), where=step_s > 0.0)
    bins = place.astype(np.int64)
    bins += np.arange(0, shape[0] * shape[1], shape[1])
    # One sum by bin gives the number of places and their total, because such sums take most of the time. Each
    # place is increased by the number of all places, so that the sum shows how many places the bin has.
    most = float(place.shape[0] * place.shape[1])
    place += most
    both = np.bincount(bins.ravel(), place.ravel(), minlength=shape[0] * shape[1]).reshape(shape)
    count = np.rint(both / (most + MIDDLES))
    own = count * (most + np.arange(1, BINS + 2)) - both
    behind: Floats = own + np.cumsum(count, axis=1) - count
    return behind


HARMONICS: Final = 8
"""Number of amplitudes that are stored, from the step's own period on."""

STILL: Final = 1e-9
"""A share whose largest amplitude is below this is constant; what is left is rounding."""

LEAST_STEPS: Final = 4
"""Fewest steps to which a line is fitted; through fewer steps a line always fits well."""

IN_BEAT: Final = 1 / 8
"""If starts of steps scatter more around equal spacing, in periods of the dominant component, no phase is
known."""


class Swing(NamedTuple):
    """Fourier components of the share of computing workers over one step.

    amplitudes : float64, shape (HARMONICS,); of the components with periods step, step / 2, ...
    dominant   : how many periods of the largest component a step has; 0 where nothing swings.
    amplitude  : of that component.
    peak       : its first peak, as a part of the step.
    """

    amplitudes: Floats
    dominant: int
    amplitude: float
    peak: float


class Beat(NamedTuple):
    """Equally spaced starts, fitted to the starts of steps by least squares.

    every_s   : time between two starts. [s]
    scatter_s : root mean square of the recorded starts minus the fitted ones. [s]
    middle_s  : fitted start of the middle step. [s]
    """

    every_s: float
    scatter_s: float
    middle_s: float


def swing(share: Floats) -> Swing:
    """Compute the Fourier components of the computing share over a step; share : shape (bin,)."""
    bins = len(share)
    # Bins count at their middles, so that each component is shifted by half a bin.
    half_a_bin = np.exp(-1j * np.pi * np.arange(1, bins // 2) / bins)
    components = np.fft.rfft(share)[1 : bins // 2] * half_a_bin * 2 / bins
    amplitude = np.abs(components)
    most = int(amplitude.argmax())
    if amplitude[most] < STILL:
        return Swing(amplitude[:HARMONICS], 0, 0.0, 0.0)
    turned = float(-np.angle(components[most]) / (2 * np.pi)) % 1.0
    return Swing(amplitude[:HARMONICS], most + 1, float(amplitude[most]), turned / (most + 1))


def beat(step: Ints, began_s: Floats) -> Beat | None:
    """Fit equally spaced starts to the steps; None with too few steps or if starts do not ascend.

    step    : int, shape (step,); step numbers, ascending.
    began_s : float64, shape (step,); from any zero. [s]
    """
    if len(step) < LEAST_STEPS:
        return None
    after = step - step.mean()
    every_s = float((after * began_s).sum() / (after * after).sum())
    if not every_s > 0.0:
        return None
    scatter_s = began_s - began_s.mean() - every_s * after
    middle = (int(step[0]) + int(step[-1])) // 2
    return Beat(
        every_s,
        float(np.sqrt((scatter_s * scatter_s).mean())),
        float(began_s.mean() + every_s * (middle - step.mean())),
    )
