"""Exchange whole microbatches between the dp ranks of a generated job, by their true work."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobs.synthetic.conditions import Conditions
from jobs.synthetic.mechanisms.nuisances import ExpertImbalance
from jobs.synthetic.mechanisms.work import PackedSequences
from jobs.synthetic.simulation import child_rng


@dataclass(frozen=True)
class Exchanged(PackedSequences):
    """Packed sequences after the dp ranks have exchanged some microbatches within each step.

    experts : how unevenly the tokens load experts; the load moves with its microbatch; None: even
    seed    : seed of the job
    """

    experts: ExpertImbalance | None = None
    seed: int = 0

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Give microbatches, heaviest first, to the dp rank with the least work that still lacks some."""
        super().change(conditions, rng)
        workload = conditions.workload
        work = (1 + workload.backward_ratio) * conditions.linear
        work = work + (1 + workload.attention_backward_ratio) * conditions.quadratic
        order = _order(work)
        for values in (conditions.linear, conditions.quadratic):
            values[:] = _moved(values, order)
        if self.experts is not None:
            self._move_experts(self.experts, conditions, order)

    def _move_experts(
        self, experts: ExpertImbalance, conditions: Conditions, order: NDArray[np.int64]
    ) -> None:
        """Move each microbatch's load of the experts to the dp rank on which the microbatch now runs."""
        place, alone = conditions.place, Conditions(conditions.place, conditions.workload)
        experts.change(alone, child_rng(self.seed, f"{type(experts).__name__} 0"))
        for chunk in np.unique(place.chunk[place.computes]):
            rows = place.computes[place.chunk[place.computes] == chunk]
            load = np.empty(conditions.linear.shape)
            load[place.microbatch[rows]] = alone.factor[rows]
            conditions.factor[rows] *= (_moved(load, order) / load)[place.microbatch[rows]]


Exchanged.__name__ = PackedSequences.__name__  # equal names give equal draws


def _order(work: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the old flat index of each exchanged microbatch; shape (step, microbatch, dp_rank)."""
    microbatches, steps, ranks = work.shape
    orders = []
    for step in range(steps):
        given: list[list[int]] = [[] for _ in range(ranks)]
        load = np.zeros(ranks)
        weight = work[:, step].ravel()
        for place in np.argsort(-weight, kind="stable").tolist():
            rank = min((r for r in range(ranks) if len(given[r]) < microbatches), key=lambda r: load[r])
            given[rank].append(place)
            load[rank] += weight[place]
        orders.append(np.array(given).T)
    return np.array(orders)


def _moved(values: NDArray[np.float64], order: NDArray[np.int64]) -> NDArray[np.float64]:
    """Reorder values of microbatches in each step by `order`; shape (microbatch, step, dp_rank)."""
    moved = [values[:, step].ravel()[of_step] for step, of_step in enumerate(order)]
    return np.stack(moved, axis=1)
