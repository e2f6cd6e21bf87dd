"""Mechanisms of slow transfers (cause communication) and late data (causes launch_delay and data_loading).

Without these mechanisms, transfers and loads take their usual times, and data delays no forward-compute.
"""

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

import numpy as np

from jobs.synthetic.conditions import Conditions, Place, Rows
from jobs.synthetic.mechanisms.mechanism import NO_CULPRIT, Culprits, Directed, Windowed, workers_of

EXTRA_SPREAD: Final = 0.3
"""Standard deviation of the log of the time that a flap adds to a transfer."""


@dataclass(frozen=True)
class FlappingLink(Directed):
    """Flapping link: in some steps, a stage's transfers are lost and resent, on one dp rank or on each.

    direction      : forward for activations, backward for gradients
    extra_s        : median time added to a transfer that is hit [s]
    step_share     : share of the steps in which the link flaps, drawn for each dp rank
    transfer_share : share of the transfers that are hit in these steps
    """

    pp_rank: int
    extra_s: float
    step_share: float = 1.0
    transfer_share: float = 1.0
    dp_rank: int | None = None

    cause: ClassVar[str | None] = "communication"

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Add time to both ends of the affected transfers."""
        lanes = conditions.lanes
        flaps = (rng.random(lanes) < self.step_share) & self.window.mask(lanes[0])[:, None]
        if self.dp_rank is not None:
            flaps &= np.arange(lanes[1]) == self.dp_rank
        for rows in conditions.place.transfers_from(self.pp_rank):
            hit = flaps & (rng.random(lanes) < self.transfer_share)
            extra_s = self.extra_s * np.exp(EXTRA_SPREAD * rng.standard_normal(lanes))
            if self.hits("forward" if conditions.place.is_forward(rows) else "backward"):
                extra_s *= self.window.share(lanes[0])[:, None]
                conditions.added_s[rows] += np.where(hit, extra_s, 0.0)

    def culprits(self, place: Place) -> Culprits:
        """Return the sending stage and its workers as the culprits of this fault."""
        if not place.transfers_from(self.pp_rank):
            return NO_CULPRIT
        return {"stages": [self.pp_rank], "workers": workers_of(place, self.pp_rank, self.dp_rank)}


@dataclass(frozen=True)
class CongestedNetwork(Windowed):
    """Congested network: other traffic leaves transfers or collectives only a share of the bandwidth.

    traffic         : which ops are slow: transfers between stages, or collectives among replicas
    bandwidth_share : share of the bandwidth that is left for this job
    step_share      : share of the steps in which the network is congested
    """

    traffic: Literal["pipeline", "replicas"]
    bandwidth_share: float
    step_share: float = 1.0

    cause: ClassVar[str | None] = "communication"

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """In congested steps, divide the durations of the affected ops by `bandwidth_share`."""
        hit = self.steps_hit(conditions.lanes[0], self.step_share, rng)
        rows = self._rows(conditions.place)
        if len(rows):
            conditions.factor[rows] *= np.where(hit, 1 / self.bandwidth_share, 1.0)[:, None]

    def culprits(self, place: Place) -> Culprits:
        """Return the affected op types as the culprits of this fault."""
        return {"op_types": sorted({place.ops[row].op_type for row in self._rows(place)})}

    def _rows(self, place: Place) -> Rows:
        if self.traffic == "replicas":
            return place.collectives
        sent = [rows for pp_rank in range(place.shape.pp_size) for rows in place.transfers_from(pp_rank)]
        return np.concatenate(sent) if sent else np.array([], np.int64)


@dataclass(frozen=True)
class SlowStorage(Windowed):
    """Slow storage: the first stage's first microbatch comes late, on one dp rank or on each independently.

    mean_s     : mean delay of the forward-compute, exponentially distributed, added to any other waiting [s]
    step_share : share of the steps in which storage is slow, the same steps on all dp ranks
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
        """Return the workers of the first stage, which wait for data, as the culprits of this fault."""
        return {"workers": workers_of(place, 0, self.dp_rank)}


@dataclass(frozen=True)
class SlowReads(Windowed):
    """Slow reads: data-loads miss the cache and take longer, on one dp rank or on each independently.

    mean_s     : mean time added to a load that is hit, exponentially distributed [s]
    load_share : share of the loads that are hit, drawn for each load
    """

    mean_s: float
    load_share: float = 1.0
    dp_rank: int | None = None

    cause: ClassVar[str | None] = "data_loading"

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Add time to the affected data-loads."""
        rows, lanes = conditions.place.rows("data-load"), conditions.lanes
        hit = rng.random((len(rows), *lanes)) < self.load_share
        extra_s = rng.exponential(self.mean_s, (len(rows), *lanes))
        hit &= self.window.mask(lanes[0])[:, None]
        if self.dp_rank is not None:
            hit &= np.arange(lanes[1]) == self.dp_rank
        conditions.added_s[rows] += np.where(hit, extra_s, 0.0)

    def culprits(self, place: Place) -> Culprits:
        """Return the workers that load data as the culprits of this fault."""
        if not len(place.rows("data-load")):
            return NO_CULPRIT
        stages = range(place.shape.pp_size)
        return {"workers": [each for stage in stages for each in workers_of(place, stage, self.dp_rank)]}
