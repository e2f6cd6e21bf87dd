"""Faults of workers: slowness (cause slow_worker), pauses (pause), slower GPU types (mixed_hardware).

Without these mechanisms, the workers are as fast as their peers and do not pause; all else stays the same.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from jobs.synthetic.conditions import Cell, Conditions, Place, Values
from jobs.synthetic.mechanisms.mechanism import Culprits, Directed, Direction, Mechanism, Windowed

Mask = NDArray[np.bool_]

WOBBLE: Final = 0.15
"""Relative standard deviation of a throttled GPU's slowness from step to step."""
MEMORY: Final = 0.7
"""Correlation of this variation between successive recorded steps."""


@dataclass(frozen=True)
class SlowWorkers(Directed):
    """Base class of mechanisms that slow the forwards, backwards or optimizers of some workers."""

    cause: ClassVar[str | None] = "slow_worker"

    def multiples(self, hit: Mask, factor: float) -> Values:
        """Return duration factors, shape (step,): 1 in steps that are not hit, else up to `factor`."""
        share = np.where(hit, self.window.share(len(hit)), 0.0)
        return np.where(share == 1.0, factor, 1 + (factor - 1) * share)

    def slow_down(
        self, conditions: Conditions, cells: Iterable[Cell], forward: Values, backward: Values
    ) -> None:
        """Multiply ops of the affected directions by these factors; optimizers by the factors of forwards."""
        every: dict[Direction, Values] = {"forward": forward, "backward": backward, "optimizer": forward}
        kept = [values if self.hits(each) else np.ones_like(values) for each, values in every.items()]
        for cell in cells:
            conditions.slow_down(cell, *kept)


@dataclass(frozen=True)
class OneWorker(SlowWorkers):
    """Base class of mechanisms that slow a single worker."""

    dp_rank: int
    pp_rank: int

    def culprits(self, place: Place) -> Culprits:
        """Return the slow worker as the culprit of this fault."""
        del place
        return {"workers": [[self.dp_rank, self.pp_rank]]}


@dataclass(frozen=True)
class WeakGpu(OneWorker):
    """Weak GPU: the computes of one worker take `factor` times as long, in a share of the steps.

    backward_factor : factor of backwards, if another: they depend more on memory bandwidth than on the clock
    """

    factor: float
    step_share: float = 1.0
    backward_factor: float | None = None

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Slow down the worker's computes."""
        hit = self.steps_hit(conditions.lanes[0], self.step_share, rng)
        backward = self.factor if self.backward_factor is None else self.backward_factor
        factors = (self.multiples(hit, factor) for factor in (self.factor, backward))
        self.slow_down(conditions, [(self.dp_rank, self.pp_rank)], *factors)


@dataclass(frozen=True)
class ThermalThrottling(OneWorker):
    """Thermal throttling: the duration factor of one worker rises from 1 towards 1 + depth, and fluctuates.

    depth : duration factor less 1 that the slowness approaches
    rise_steps : number of recorded steps after which 63 % of the depth is reached
    """

    depth: float
    rise_steps: float

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Slow down the worker's computes, more from step to step."""
        steps = conditions.lanes[0]
        age = np.arange(steps) - self.window.first + 1
        drift = 1 - np.exp(-np.maximum(age, 0) / self.rise_steps)
        waver = np.empty(steps)
        last = 0.0
        for step, shock in enumerate(rng.standard_normal(steps)):
            waver[step] = last = MEMORY * last + np.sqrt(1 - MEMORY**2) * shock
        factor = 1 + self.depth * np.maximum(drift * (1 + WOBBLE * waver), 0.0)
        factor = np.where(self.window.mask(steps), factor, 1.0)
        self.slow_down(conditions, [(self.dp_rank, self.pp_rank)], factor, factor)


@dataclass(frozen=True)
class SickHost(SlowWorkers):
    """Sick host: computes take `factor` times as long on all GPUs of a host, in a share of the steps."""

    host: str
    factor: float
    step_share: float = 1.0

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Slow down the computes of every worker with a rank on the host."""
        hit = self.steps_hit(conditions.lanes[0], self.step_share, rng)
        cells = conditions.place.cells_on(self.host)
        factor = self.multiples(hit, self.factor)
        self.slow_down(conditions, cells, factor, factor)

    def culprits(self, place: Place) -> Culprits:
        """Return the slow host and its workers in this job as the culprits of this fault."""
        return {"hosts": [self.host], "workers": [list(cell) for cell in place.cells_on(self.host)]}


@dataclass(frozen=True)
class UnsynchronisedGc(Windowed):
    """Unsynchronised garbage collection: each worker collects at random times, within a forward-compute.

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
    """Allocator stalls: the memory allocator frees blocks and requests new ones within a compute.

    stall_s       : mean length of a stall, exponentially distributed [s]
    compute_share : share of forward-computes that stall; backwards do not, because they reuse the memory
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


@dataclass(frozen=True)
class MixedTypes(Mechanism):
    """Mixed types: hosts have different GPU types; a worker is as fast as its slowest GPU.

    types   : host -> type; other hosts are as fast as the fastest type, and not in the manifest
    factors : type -> how many times as long as on the fastest type a forward and a backward take
    """

    types: Mapping[str, str]
    factors: Mapping[str, tuple[float, float]]

    cause: ClassVar[str | None] = "mixed_hardware"

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Slow down computes of workers with slower types."""
        del rng
        steps = np.ones(conditions.lanes[0])
        for cell, (forward, backward) in self.slow_cells(conditions.place).items():
            conditions.slow_down(cell, forward * steps, backward * steps)

    def culprits(self, place: Place) -> Culprits:
        """Return the workers with slower GPU types as the culprits of this fault."""
        return {"workers": [list(cell) for cell in self.slow_cells(place)]}

    def fields(self, place: Place) -> Mapping[str, Any]:
        """Return the manifest field gpu_types, for those of the job's hosts whose type is known."""
        ranks = range(place.shape.world_size)
        hosts = dict.fromkeys(place.host_of(rank) for rank in ranks)
        return {"gpu_types": {host: self.types[host] for host in hosts if host in self.types}}

    def slow_cells(self, place: Place) -> dict[Cell, tuple[float, float]]:
        """Return the workers with slower types, and their forward and backward factors."""
        found: dict[Cell, tuple[float, float]] = {}
        for host, name in self.types.items():
            for cell in place.cells_on(host):
                found[cell] = max(found.get(cell, (1.0, 1.0)), self.factors[name])
        return {cell: factors for cell, factors in found.items() if factors > (1.0, 1.0)}
