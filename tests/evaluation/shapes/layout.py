"""Assign the workers of a drawn job to hosts, and order the computes of each worker."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

FORWARD: Final = 0
BACKWARD: Final = 1

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Layout:
    """Sizes of a job, and how its workers exchange data.

    host          : int, shape (stage, dp_rank); number of the host of each worker.
    step          : int, shape (step,); training step numbers.
    is_early      : a receive is posted after the previous compute of its direction; else when it is needed.
    is_buffered   : a send ends when its data are copied; else when they have arrived.
    is_overlapped : gradients are reduced per chunk, during the computes; else after all computes.
    """

    dp: int
    pp: int
    vpp: int
    microbatches: int
    host: Ints
    step: Ints
    is_early: bool = False
    is_buffered: bool = False
    is_overlapped: bool = False
    has_gc: bool = True
    has_loads: bool = False

    @property
    def steps(self) -> int:
        return len(self.step)

    @property
    def lanes(self) -> tuple[int, int]:
        """Shape of arrays of times of one op: (step, dp_rank)."""
        return self.steps, self.dp

    @property
    def computes(self) -> int:
        """Number of forward computes, and of backward computes, of a worker in a step."""
        return self.vpp * self.microbatches

    def workers_of_host(self, host: int) -> frozenset[tuple[int, int]]:
        """Return the (stage, dp_rank) pairs of the workers on a host."""
        return frozenset((int(stage), int(dp_rank)) for stage, dp_rank in np.argwhere(self.host == host))

    @property
    def workers(self) -> frozenset[tuple[int, int]]:
        """Return the (stage, dp_rank) pairs of all workers."""
        return frozenset((stage, dp_rank) for stage in range(self.pp) for dp_rank in range(self.dp))


def hosts(dp: int, pp: int, workers_per_host: int, *, is_along_stages: bool) -> Ints:
    """Return the number of each worker's host, shape (stage, dp_rank).

    Hosts are filled with `workers_per_host` workers each, stage by stage or replica by replica.
    """
    number = np.arange(dp * pp) // workers_per_host
    return number.reshape(pp, dp) if is_along_stages else number.reshape(dp, pp).T


def order_of_computes(layout: Layout, stage: int) -> list[tuple[int, int, int]]:
    """Return the 1F1B order of a stage's computes as (direction, chunk, microbatch).

    With several chunks per stage, the order is interleaved 1F1B: chunks take turns after each group of
    microbatches, which has one microbatch per stage. The number of microbatches is then a multiple of the
    number of stages.
    """
    pp, vpp, total = layout.pp, layout.vpp, layout.computes
    warm_up = min(pp - 1 - stage if vpp == 1 else 2 * (pp - 1 - stage) + (vpp - 1) * pp, total)

    def unit(direction: int, ordinal: int) -> tuple[int, int, int]:
        if vpp == 1:
            return direction, 0, ordinal
        group, within = divmod(ordinal, pp * vpp)
        chunk, microbatch = divmod(within, pp)
        return direction, chunk if direction == FORWARD else vpp - 1 - chunk, group * pp + microbatch

    order = [unit(FORWARD, ordinal) for ordinal in range(warm_up)]
    for ordinal in range(total):
        if warm_up + ordinal < total:
            order.append(unit(FORWARD, warm_up + ordinal))
        order.append(unit(BACKWARD, ordinal))
    return order
