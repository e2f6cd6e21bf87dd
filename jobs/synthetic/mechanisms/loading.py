"""Late data: cause launch_delay. Without it no stage's first forward-compute is delayed by its host."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from jobs.synthetic.conditions import Conditions
from jobs.synthetic.mechanisms.mechanism import Culprits, Windowed
from jobs.synthetic.place import Place


@dataclass(frozen=True)
class SlowStorage(Windowed):
    """The first stage's first microbatch comes late, on one dp rank or on each by itself.

    mean_s     : mean wait beyond all that the compute waits for anyway, exponentially distributed [s]
    step_share : share of the steps in which storage is slow, for all dp ranks alike
    """

    mean_s: float
    step_share: float = 1.0
    dp_rank: int | None = None

    cause: ClassVar[str | None] = "launch_delay"

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Delay the first forward-compute of the first stage."""
        hit = self.steps_hit(conditions.lanes[0], self.step_share, rng)[:, None]
        wait_s = rng.exponential(self.mean_s, conditions.lanes)
        if self.dp_rank is not None:
            hit = hit & (np.arange(conditions.lanes[1]) == self.dp_rank)
        conditions.loading_s[0] += np.where(hit, wait_s, 0.0)

    def culprits(self, place: Place) -> Culprits:
        """Name the workers that wait."""
        dp_ranks = range(place.shape.dp_size) if self.dp_rank is None else [self.dp_rank]
        return {"workers": [[dp_rank, 0] for dp_rank in dp_ranks]}
