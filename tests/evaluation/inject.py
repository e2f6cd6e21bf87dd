"""Inject faults into recorded traces; the true cost of a fault is the change in mean step time.

Imbalances of stages and of data are injected without adding work: when some computes become longer, the
others become shorter by the same total. A perfect fix, which evens out the work, therefore restores the step
time before the injection.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from jobs.synthetic.conditions import Cell
from tests.evaluation.recording import Recording
from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Ints, Mask

SOME_STEPS: Final = 0.4
"""Share of the steps in which a fault acts, if it does not act in all steps."""
HEAVY_SHARE: Final = 0.2
"""Share of a step's microbatches that heavy_microbatches lengthens."""
HIT_SHARE: Final = 0.5
"""Share of a slow link's transfers that are lengthened."""
STRENGTHS: Final = 10
"""Number of strengths with which each fault is injected."""


@dataclass(frozen=True)
class Struck:
    """A recording with an injected fault; `cells` are the workers that the fault slows, if it slows any."""

    recording: Recording
    cells: frozenset[Cell] = frozenset()


@dataclass(frozen=True)
class Fault:
    """One kind of fault that can be injected into a trace.

    weakest, strongest : bounds of the strength, in the unit of the second argument of `strike`
    """

    name: str
    cause: str
    strike: Callable[[Recording, float, np.random.Generator], Struck]
    weakest: float
    strongest: float

    def strength(self, number: int) -> float:
        """Return the strength with an index from 0 to STRENGTHS - 1, in a geometric series."""
        return float(np.geomspace(self.weakest, self.strongest, STRENGTHS)[number])


def slow_cell(recording: Recording, excess: float, rng: np.random.Generator) -> Struck:
    """Multiply the durations of all computes of one worker by 1 + excess."""
    return _slow_cell(recording, excess, rng, np.ones(len(recording.step), bool))


def slow_cell_in_some_steps(recording: Recording, excess: float, rng: np.random.Generator) -> Struck:
    """Multiply the durations of all computes of one worker by 1 + excess in some of the steps."""
    return _slow_cell(recording, excess, rng, _some_steps(recording, rng))


def slow_dp_rank(recording: Recording, excess: float, rng: np.random.Generator) -> Struck:
    """Multiply the durations of all computes of one dp rank, on all stages, by 1 + excess."""
    dp_rank = int(rng.integers(recording.layout.dp_size))
    duration_s = recording.duration_s.copy()
    duration_s[recording.computes(), :, dp_rank] *= 1 + excess
    cells = frozenset((dp_rank, pp_rank) for pp_rank in range(recording.layout.pp_size))
    return Struck(recording.changed(duration_s), cells)


def heavy_microbatches(recording: Recording, excess: float, rng: np.random.Generator) -> Struck:
    """Multiply the times of some microbatches by 1 + excess, and shorten the others by the same total."""
    computes = recording.computes()
    numbers, of_compute = np.unique(recording.microbatch[computes], return_inverse=True)
    lanes = recording.duration_s.shape[1:]
    draws = rng.random((len(numbers), *lanes))
    ordered = np.sort(draws.transpose(1, 0, 2).reshape(lanes[0], -1), axis=1)
    heavy = max(1, round(HEAVY_SHARE * ordered.shape[1]))
    is_heavy = (draws <= ordered[:, heavy - 1][None, :, None])[of_compute]
    return Struck(_shifted(recording, computes, is_heavy, excess, axes=(0, 2)))


def longer_last_stage(recording: Recording, excess: float, rng: np.random.Generator) -> Struck:
    """Multiply compute times of the last stage by 1 + excess, and shorten all others by the same total."""
    del rng
    computes = recording.computes()
    is_last = recording.stage[computes] == recording.layout.pp_size - 1
    shape = recording.duration_s[computes].shape
    is_heavy = np.broadcast_to(is_last[:, None, None], shape)
    return Struck(_shifted(recording, computes, is_heavy, excess, axes=(0, 1, 2)))


def pauses(recording: Recording, length: float, rng: np.random.Generator) -> Struck:
    """Lengthen, in some steps, one forward-compute of one worker by `length` median forward-computes."""
    forwards = recording.computes(ot.FORWARD_COMPUTE)
    duration_s = recording.duration_s.copy()
    for step in np.flatnonzero(_some_steps(recording, rng)):
        dp_rank = rng.integers(recording.layout.dp_size)
        duration_s[rng.choice(forwards), step, dp_rank] += length * recording.forward_s
    return Struck(recording.changed(duration_s))


def slow_link(recording: Recording, extra: float, rng: np.random.Generator) -> Struck:
    """Lengthen some forward transfers of one sender, at both ends, by `extra` median forward-computes."""
    layout = recording.layout
    dp_rank, pp_rank = int(rng.integers(layout.dp_size)), int(rng.integers(layout.pp_size - 1))
    duration_s = recording.duration_s.copy()
    for pair in _transfers_from(recording, pp_rank):
        is_hit = rng.random(len(recording.step)) < HIT_SHARE
        for op in pair:
            duration_s[op, :, dp_rank] += np.where(is_hit, extra * recording.forward_s, 0.0)
    return Struck(recording.changed(duration_s))


def late_data(recording: Recording, share: float, rng: np.random.Generator) -> Struck:
    """Delay, in some steps, the first forward-compute of one dp rank by `share` of the mean step time."""
    first = recording.computes(ot.FORWARD_COMPUTE, stage=0)[0]
    dp_rank = int(rng.integers(recording.layout.dp_size))
    delay_s = recording.delay_s.copy()
    delay_s[first, _some_steps(recording, rng), dp_rank] += share * recording.mean_step_s()
    return Struck(recording.changed(delay_s=delay_s))


FAULTS: Final = (
    Fault("slow cell", "slow_worker", slow_cell, 0.02, 1.0),
    Fault("slow cell, some steps", "slow_worker", slow_cell_in_some_steps, 0.05, 1.5),
    Fault("slow dp rank", "slow_worker", slow_dp_rank, 0.02, 1.0),
    Fault("longer last stage", "stage_imbalance", longer_last_stage, 0.02, 0.4),
    Fault("heavy microbatches", "data_imbalance", heavy_microbatches, 0.05, 1.5),
    Fault("pauses", "pause", pauses, 0.5, 15.0),
    Fault("slow link", "communication", slow_link, 0.1, 3.0),
    Fault("late data", "launch_delay", late_data, 0.03, 0.6),
)


def _slow_cell(recording: Recording, excess: float, rng: np.random.Generator, is_struck: Mask) -> Struck:
    layout = recording.layout
    dp_rank, pp_rank = int(rng.integers(layout.dp_size)), int(rng.integers(layout.pp_size))
    duration_s = recording.duration_s.copy()
    duration_s[recording.computes(stage=pp_rank), :, dp_rank] *= np.where(is_struck, 1 + excess, 1.0)
    return Struck(recording.changed(duration_s), frozenset({(dp_rank, pp_rank)}))


def _some_steps(recording: Recording, rng: np.random.Generator) -> Mask:
    """Draw the steps in which a fault acts, a share SOME_STEPS of all; mask of shape (step,)."""
    steps = len(recording.step)
    is_struck = np.zeros(steps, bool)
    is_struck[rng.permutation(steps)[: max(1, round(SOME_STEPS * steps))]] = True
    return is_struck


def _shifted(
    recording: Recording, computes: Ints, is_heavy: Mask, excess: float, axes: tuple[int, ...]
) -> Recording:
    """Multiply times of heavy computes by 1 + excess, and shorten all others to keep the sum over `axes`.

    is_heavy : mask of shape (compute, step, dp_rank); `axes` are axes of this shape
    """
    duration_s = recording.duration_s.copy()
    work_s = duration_s[computes]
    heavy_s = np.where(is_heavy, work_s, 0.0).sum(axis=axes, keepdims=True)
    light_s = np.where(is_heavy, 0.0, work_s).sum(axis=axes, keepdims=True)
    duration_s[computes] = work_s * np.where(is_heavy, 1 + excess, 1 - excess * heavy_s / light_s)
    return recording.changed(duration_s)


def _transfers_from(recording: Recording, pp_rank: int) -> list[tuple[int, ...]]:
    """Return the indices of the send and the recv of each forward transfer with data that a stage sends."""
    is_sent = (recording.op_type == ot.FORWARD_SEND) & (recording.stage == pp_rank)
    pairs = (
        pair
        for members, across_dp in recording.graph.meetings
        if not across_dp
        for pair in zip(*members, strict=True)
    )
    return [pair for pair in pairs if any(is_sent[op] for op in pair)]
