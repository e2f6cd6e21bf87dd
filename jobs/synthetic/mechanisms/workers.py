"""Slow workers: cause slow_worker. Without them their cells are as fast as their peers."""

from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from jobs.synthetic.conditions import Conditions
from jobs.synthetic.mechanisms.mechanism import Culprits, Windowed
from jobs.synthetic.place import Place

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
        hit = self.steps_hit(conditions.place.shape.steps, self.step_share, rng)
        backward = self.factor if self.backward_factor is None else self.backward_factor
        place = conditions.place
        conditions.slow_down(place.forwards(self.pp_rank), self.dp_rank, np.where(hit, self.factor, 1.0))
        conditions.slow_down(place.backwards(self.pp_rank), self.dp_rank, np.where(hit, backward, 1.0))


@dataclass(frozen=True)
class ThermalThrottling(OneWorker):
    """One worker gets hot: its slowness grows towards 1 + depth and wavers on the way.

    rise_steps : recorded steps after which 63 % of the depth is reached
    """

    depth: float
    rise_steps: float

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Slow the worker's computes, more from step to step."""
        steps, place = conditions.place.shape.steps, conditions.place
        age = np.arange(steps) - self.window.first + 1
        drift = 1 - np.exp(-np.maximum(age, 0) / self.rise_steps)
        waver = np.empty(steps)
        last = 0.0
        for step, shock in enumerate(rng.standard_normal(steps)):
            waver[step] = last = MEMORY * last + np.sqrt(1 - MEMORY**2) * shock
        factor = 1 + self.depth * np.maximum(drift * (1 + WOBBLE * waver), 0.0)
        factor = np.where(self.window.mask(steps), factor, 1.0)
        for rows in (place.forwards(self.pp_rank), place.backwards(self.pp_rank)):
            conditions.slow_down(rows, self.dp_rank, factor)


@dataclass(frozen=True)
class SickHost(Windowed):
    """All GPUs of a host compute `factor` times as long, in whatever job it serves."""

    host: str
    factor: float
    step_share: float = 1.0

    cause: ClassVar[str | None] = "slow_worker"

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Slow the computes of every worker that has a rank on the host."""
        place = conditions.place
        hit = self.steps_hit(place.shape.steps, self.step_share, rng)
        factor = np.where(hit, self.factor, 1.0)
        for dp_rank, pp_rank in place.cells_on(self.host):
            for rows in (place.forwards(pp_rank), place.backwards(pp_rank)):
                conditions.slow_down(rows, dp_rank, factor)

    def culprits(self, place: Place) -> Culprits:
        """Name the host, and its workers in this job."""
        return {"hosts": [self.host], "workers": [list(cell) for cell in place.cells_on(self.host)]}
