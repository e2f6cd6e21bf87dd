"""Uneven stages: cause stage_imbalance. Without them the same work is spread evenly over all chunks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from jobs.synthetic.conditions import Conditions
from jobs.synthetic.mechanisms.mechanism import NO_CULPRIT, Culprits, Mechanism
from jobs.synthetic.place import Place


@dataclass(frozen=True)
class LossLayer(Mechanism):
    """The model's last chunk also computes the loss: constant time per microbatch, whatever the data.

    forward_s, backward_s : its time each way [s]; in a published trace 0.115 and 0.138 beside a stage's 0.1
    is_spread : all chunks bear an equal part of it
    """

    forward_s: float
    backward_s: float
    is_spread: bool = False

    cause: ClassVar[str | None] = "stage_imbalance"

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Add to the fixed time of the last chunk, or of all."""
        del rng
        time_s = np.array([self.forward_s, self.backward_s])
        if self.is_spread:
            conditions.fixed_s += time_s[:, None] / len(conditions.chunk_weight)
        else:
            conditions.fixed_s[:, -1] += time_s

    def without(self) -> "LossLayer":
        """Spread it."""
        return replace(self, is_spread=True)

    def culprits(self, place: Place) -> Culprits:
        """Name the last stage."""
        last = place.shape.last_chunk
        return {"stages": [place.shape.pp_size - 1], "chunks": [last]} if last else NO_CULPRIT


@dataclass(frozen=True)
class UnevenLayers(Mechanism):
    """The model's chunks hold different numbers of layers, all equally heavy.

    layers : of each chunk of the model; chunk c * pp_size + p is chunk c of stage p
    """

    layers: Sequence[float]
    is_spread: bool = False

    cause: ClassVar[str | None] = "stage_imbalance"

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Weigh the chunks; the workload's times are those of the mean chunk."""
        del rng
        weight = np.asarray(self.layers, float)
        if weight.shape != conditions.chunk_weight.shape:
            raise ValueError(f"layers of {len(weight)} chunks, but {len(conditions.chunk_weight)} chunks")
        if not self.is_spread:
            conditions.chunk_weight *= weight / weight.mean()

    def without(self) -> "UnevenLayers":
        """Spread the layers evenly, in parts of layers if need be."""
        return replace(self, is_spread=True)

    def culprits(self, place: Place) -> Culprits:
        """Name the chunks above the mean, and the heaviest stages where stages differ."""
        weight = np.asarray(self.layers, float)
        by_stage = weight.reshape(place.shape.vpp_size, place.shape.pp_size).sum(axis=0)
        heaviest = by_stage == by_stage.max()
        found = {
            "stages": np.flatnonzero(heaviest & ~heaviest.all()).tolist(),
            "chunks": np.flatnonzero(weight > weight.mean()).tolist(),
        }
        return found if found["chunks"] else NO_CULPRIT
