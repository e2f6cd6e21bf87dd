"""Pauses of single workers: cause pause. Without them the spikes are gone and all else stays."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from jobs.synthetic.conditions import Conditions
from jobs.synthetic.mechanisms.mechanism import Windowed


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
        place = conditions.place
        steps, dp_size, pp_size = place.shape.steps, place.shape.dp_size, place.shape.pp_size
        forwards = np.stack([place.forwards(pp_rank) for pp_rank in range(pp_size)])
        workers = (pp_size, steps, dp_size)
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
        place = conditions.place
        rows = place.computes[~place.is_backward]
        steps, dp_size = place.shape.steps, place.shape.dp_size
        count = rng.poisson(self.compute_share * len(rows) * steps * dp_size)
        step = rng.integers(steps, size=count)
        where = rows[rng.integers(len(rows), size=count)], step, rng.integers(dp_size, size=count)
        stall_s = rng.exponential(self.stall_s, count) * self.window.mask(steps)[step]
        np.add.at(conditions.added_s, where, stall_s)
