"""Nuisances: effects that make a diagnosis harder without being a separate cause.

Planned garbage collection stops all workers in the same step, recorded as gc: no worker waits for a
straggler, so it is not a cause, but rare long gc ops must not be taken for one. Expert imbalance makes
the work differ by microbatch and layer at once: it is neither a microbatch heavier on all stages
(data_imbalance) nor a stage heavier on all microbatches (stage_imbalance), so what it costs is left over as
unexplained. Healthy GPUs are not equally fast either: no worker is to blame for being on one side of the
middle.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from jobs.synthetic.conditions import Conditions
from jobs.synthetic.mechanisms.mechanism import Mechanism, Windowed

GC_SPREAD: Final = 0.05
"""Standard deviation of the log of a planned collection's length over workers."""
MOST_TIMES_SCALE: Final = 8.0
"""How far a heavy tail reaches, in scales."""


@dataclass(frozen=True)
class PlannedGc(Windowed):
    """Garbage collection by all workers in the same step, every `every_steps` recorded steps."""

    pause_s: float
    every_steps: int

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Lengthen the gc ops of the steps in which workers collect garbage."""
        step = np.arange(conditions.lanes[0])
        hit = self.window.mask(len(step)) & ((step - self.window.first + 1) % self.every_steps == 0)
        rows = conditions.place.rows("gc")
        pause_s = self.pause_s * np.exp(GC_SPREAD * rng.standard_normal((len(rows), *conditions.lanes)))
        conditions.added_s[rows] += np.where(hit[:, None], pause_s, 0.0)


@dataclass(frozen=True)
class ExpertImbalance(Windowed):
    """Uneven load of experts: work differs by microbatch and chunk, equally in both directions.

    spread : standard deviation of the log of the work
    """

    spread: float

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Scale the computes by factors of mean 1."""
        place, rows = conditions.place, conditions.place.computes
        shape = (place.shape.microbatches, place.shape.last_chunk + 1, *conditions.lanes)
        factor = np.exp(self.spread * rng.standard_normal(shape) - self.spread**2 / 2)
        factor = np.where(self.window.mask(conditions.lanes[0])[:, None], factor, 1.0)
        conditions.factor[rows] *= factor[place.microbatch[rows], place.chunk[rows]]


@dataclass(frozen=True)
class UnlikeGpus(Mechanism):
    """Healthy workers that differ in speed by constant factors.

    spread : standard deviation of the log of the factor
    """

    spread: float

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Scale the computes of every worker."""
        place, rows = conditions.place, conditions.place.computes
        factor = np.exp(self.spread * rng.standard_normal((place.shape.pp_size, place.shape.dp_size)))
        conditions.factor[rows] *= factor[place.pp_rank[rows]][:, None, :]


@dataclass(frozen=True)
class HeavyTailedNoise(Windowed):
    """Heavy-tailed noise: a small share of all ops, on any worker, takes longer at random.

    share : of the ops
    scale : Pareto distributed with exponent 3: half of this is what an op takes longer in the mean, relative
    """

    share: float
    scale: float

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Lengthen random ops."""
        sizes = (len(conditions.place.ops), *conditions.lanes)
        count = rng.poisson(self.share * np.prod(sizes))
        where = tuple(rng.integers(size, size=count) for size in sizes)
        longer = self.scale * np.minimum(rng.pareto(3.0, count), MOST_TIMES_SCALE)
        np.multiply.at(conditions.factor, where, 1 + longer * self.window.mask(sizes[1])[where[1]])


@dataclass(frozen=True)
class ClockSkew(Mechanism):
    """Host clocks that are off by up to `most_s` in either direction, which affects only the records."""

    most_s: float

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Change the hosts' clock offsets, which are all positive."""
        hosts = conditions.place.hosts_of_cells()
        names = sorted({host for of_stage in hosts for host in of_stage})
        ahead_s = dict(zip(names, rng.random(len(names)) * 2 * self.most_s, strict=True))
        conditions.clock_s += np.array([[ahead_s[host] for host in of_stage] for of_stage in hosts])
