"""Nuisances: effects that make a diagnosis harder, but that a diagnosis should not name as a cause.

Planned garbage collection stops all workers in the same step, in gc ops. No worker waits for another, so this
is no cause, and a diagnosis must not take the rare long gc ops for pauses. With expert imbalance, the work
depends on both the microbatch and the chunk: no microbatch is heavier on all stages (data_imbalance), and no
stage is heavier for all microbatches (stage_imbalance), so its cost should be unexplained. Healthy GPUs also
differ in speed: a worker that is a little slower than the median is no slow worker.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from jobs.synthetic.conditions import Conditions
from jobs.synthetic.mechanisms.mechanism import Mechanism, Windowed

GC_SPREAD: Final = 0.05
"""Standard deviation of the log of a planned collection's length over workers."""
MOST_TIMES_SCALE: Final = 8.0
"""Largest Pareto value, to which larger draws are reduced."""


@dataclass(frozen=True)
class PlannedGc(Windowed):
    """Planned garbage collection by all workers in the same step, every `every_steps` recorded steps."""

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
    """Expert imbalance: work differs by microbatch and chunk, by the same factor in forward and backward.

    spread : standard deviation of the log of the work
    """

    spread: float

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Multiply the computes by random factors of mean 1."""
        place, rows = conditions.place, conditions.place.computes
        shape = (place.shape.microbatches, place.shape.last_chunk + 1, *conditions.lanes)
        factor = np.exp(self.spread * rng.standard_normal(shape) - self.spread**2 / 2)
        factor = np.where(self.window.mask(conditions.lanes[0])[:, None], factor, 1.0)
        conditions.factor[rows] *= factor[place.microbatch[rows], place.chunk[rows]]


@dataclass(frozen=True)
class UnlikeGpus(Mechanism):
    """Healthy workers that differ in speed by factors that stay the same in all steps.

    spread : standard deviation of the log of the factor
    """

    spread: float

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Multiply the computes of every worker by its factor."""
        place, rows = conditions.place, conditions.place.computes
        factor = np.exp(self.spread * rng.standard_normal((place.shape.pp_size, place.shape.dp_size)))
        conditions.factor[rows] *= factor[place.pp_rank[rows]][:, None, :]


@dataclass(frozen=True)
class HeavyTailedNoise(Windowed):
    """Heavy-tailed noise: a small share of all ops, on any worker, takes longer at random.

    share : share of the ops that take longer
    scale : such an op takes 1 + scale * x times as long, x Pareto distributed with exponent 3 and mean 1/2
    """

    share: float
    scale: float

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Lengthen random ops of random workers."""
        sizes = (len(conditions.place.ops), *conditions.lanes)
        count = rng.poisson(self.share * np.prod(sizes))
        where = tuple(rng.integers(size, size=count) for size in sizes)
        longer = self.scale * np.minimum(rng.pareto(3.0, count), MOST_TIMES_SCALE)
        np.multiply.at(conditions.factor, where, 1 + longer * self.window.mask(sizes[1])[where[1]])


@dataclass(frozen=True)
class ClockSkew(Mechanism):
    """Clock skew: host clocks are up to `most_s` fast or slow, which changes only recorded times."""

    most_s: float

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Add 0 to 2 * most_s to each host's clock, because only differences between clocks matter."""
        hosts = conditions.place.hosts_of_cells()
        names = sorted({host for of_stage in hosts for host in of_stage})
        ahead_s = dict(zip(names, rng.random(len(names)) * 2 * self.most_s, strict=True))
        conditions.clock_s += np.array([[ahead_s[host] for host in of_stage] for of_stage in hosts])
