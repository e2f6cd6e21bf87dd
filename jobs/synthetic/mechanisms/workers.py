"""What single workers suffer: slow ones, cause slow_worker, and pauses, cause pause.

Without it their cells are as fast as their peers, the spikes are gone, and all else stays.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from jobs.synthetic.conditions import Conditions, Place
from jobs.synthetic.mechanisms.mechanism import Culprits, Windowed

WOBBLE: Final = 0.15
"""By what part of its depth throttling varies about its drift."""
MEMORY: Final = 0.7
"""Correlation of that variation from one recorded step to the next."""


@dataclass(frozen=True)
class OneWorker(Windowed):
    """One worker computes more slowly."""

    dp_rank: int
    pp_rank: int

    cause: ClassVar[str | None] = "slow_worker"

    def culprits(self, place: Place) -> Culprits:
        """Name the worker."""
        del place
        return {"workers": [[self.dp_rank, self.pp_rank]]}


@dataclass(frozen=True)
class WeakGpu(OneWorker):
    """One worker computes `factor` times as long, in a share of the steps.

    backward_factor : where the backward suffers differently, being bound by memory rather than by the clock
    """

    factor: float
    step_share: float = 1.0
    backward_factor: float | None = None

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Slow the worker's computes."""
        hit = self.steps_hit(conditions.lanes[0], self.step_share, rng)
        backward = self.factor if self.backward_factor is None else self.backward_factor
        factors = (np.where(hit, factor, 1.0) for factor in (self.factor, backward))
        conditions.slow_down((self.dp_rank, self.pp_rank), *factors)


@dataclass(frozen=True)
class ThermalThrottling(OneWorker):
    """One worker gets hot: its slowness grows towards 1 + depth and wavers on the way.

    rise_steps : recorded steps after which 63 % of the depth is reached
    """

    depth: float
    rise_steps: float

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Slow the worker's computes, more from step to step."""
        steps = conditions.lanes[0]
        age = np.arange(steps) - self.window.first + 1
        drift = 1 - np.exp(-np.maximum(age, 0) / self.rise_steps)
        waver = np.empty(steps)
        last = 0.0
        for step, shock in enumerate(rng.standard_normal(steps)):
            waver[step] = last = MEMORY * last + np.sqrt(1 - MEMORY**2) * shock
        factor = 1 + self.depth * np.maximum(drift * (1 + WOBBLE * waver), 0.0)
        factor = np.where(self.window.mask(steps), factor, 1.0)
        conditions.slow_down((self.dp_rank, self.pp_rank), factor, factor)


@dataclass(frozen=True)
class SickHost(Windowed):
    """All GPUs of a host compute `factor` times as long, in whatever job it serves."""

    host: str
    factor: float
    step_share: float = 1.0

    cause: ClassVar[str | None] = "slow_worker"

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Slow the computes of every worker that has a rank on the host."""
        hit = self.steps_hit(conditions.lanes[0], self.step_share, rng)
        factor = np.where(hit, self.factor, 1.0)
        for cell in conditions.place.cells_on(self.host):
            conditions.slow_down(cell, factor, factor)

    def culprits(self, place: Place) -> Culprits:
        """Name the host, and its workers in this job."""
        return {"hosts": [self.host], "workers": [list(cell) for cell in place.cells_on(self.host)]}


@dataclass(frozen=True)
class UnsynchronisedGc(Windowed):
    """Each worker's interpreter collects garbage when it likes, within some forward-compute.

    pause_s     : mean length of a collection [s]
    every_steps : mean number of steps between two collections of a worker
    spread      : standard deviation of the log of the length
    """

    pause_s: float
    every_steps: float
    spread: float = 0.2

    cause: ClassVar[str | None] = "pause"

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Add pauses to random forward-computes."""
        place, (steps, dp_size) = conditions.place, conditions.lanes
        forwards = np.stack([place.forwards(pp_rank) for pp_rank in range(place.shape.pp_size)])
        workers = (len(forwards), steps, dp_size)
        hit = rng.random(workers) < 1 / self.every_steps
        which = rng.integers(forwards.shape[1], size=workers)
        pause_s = self.pause_s * np.exp(self.spread * rng.standard_normal(workers) - self.spread**2 / 2)
        hit &= self.window.mask(steps)[:, None]
        pp_rank, step, dp_rank = np.nonzero(hit)
        np.add.at(conditions.added_s, (forwards[pp_rank, which[hit]], step, dp_rank), pause_s[hit])


@dataclass(frozen=True)
class AllocatorStalls(Windowed):
    """The memory allocator gives cached blocks back and asks for new ones, in the midst of a compute.

    stall_s       : mean length of a stall, exponentially distributed [s]
    compute_share : share of forward-computes that stall; the backward reuses what the forward got
    """

    stall_s: float
    compute_share: float

    cause: ClassVar[str | None] = "pause"

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Add stalls to random forward-computes of all workers."""
        rows, (steps, dp_size) = conditions.place.rows("forward-compute"), conditions.lanes
        count = rng.poisson(self.compute_share * len(rows) * steps * dp_size)
        step = rng.integers(steps, size=count)
        where = rows[rng.integers(len(rows), size=count)], step, rng.integers(dp_size, size=count)
        stall_s = rng.exponential(self.stall_s, count) * self.window.mask(steps)[step]
        np.add.at(conditions.added_s, where, stall_s)
