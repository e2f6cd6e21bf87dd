"""Mixed GPU types in one job (cause mixed_hardware). Without it all GPUs are of the fastest type."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from jobs.synthetic.conditions import Cell, Conditions, Place
from jobs.synthetic.mechanisms.mechanism import Culprits, Mechanism


@dataclass(frozen=True)
class MixedTypes(Mechanism):
    """Hosts have different GPU types; a worker is as fast as its slowest GPU.

    types   : host -> type; hosts that are not in it are as fast as the fastest, and stated nowhere
    factors : type -> how many times as long a forward and a backward take on it, 1 on the fastest
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
        """Name the workers with slower types."""
        return {"workers": [list(cell) for cell in self.slow_cells(place)]}

    def fields(self, place: Place) -> Mapping[str, Any]:
        """Manifest field gpu_types for the hosts that the job uses."""
        ranks = range(place.shape.world_size)
        hosts = dict.fromkeys(place.host_of(rank) for rank in ranks)
        return {"gpu_types": {host: self.types[host] for host in hosts if host in self.types}}

    def slow_cells(self, place: Place) -> dict[Cell, tuple[float, float]]:
        """Workers with slower types, and their forward and backward factors."""
        found: dict[Cell, tuple[float, float]] = {}
        for host, name in self.types.items():
            for cell in place.cells_on(host):
                found[cell] = max(found.get(cell, (1.0, 1.0)), self.factors[name])
        return {cell: factors for cell, factors in found.items() if factors > (1.0, 1.0)}
