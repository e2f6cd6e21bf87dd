"""Mechanisms of uneven work among stages (cause stage_imbalance) or data (cause data_imbalance).

Without it the same work is spread evenly: over all chunks, or within each step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from jobs.synthetic.conditions import Conditions, Place
from jobs.synthetic.mechanisms.mechanism import NO_CULPRIT, Culprits, Mechanism, Windowed

MOST_SEQUENCES: Final = 64
"""Most sequences drawn for one microbatch: if all fit, it holds that many."""
LEAST_WORK: Final = 0.02
"""Least part of a full microbatch: even with few tokens, every kernel of every layer has to be launched."""


@dataclass(frozen=True)
class LossLayer(Mechanism):
    """The loss layer: the model's last chunk also computes the loss, in a constant time per microbatch.

    forward_s, backward_s : its time each way [s]; in a published trace 0.115 and 0.138 beside a stage's 0.1
    is_spread : all chunks bear an equal part of it
    """

    forward_s: float
    backward_s: float
    is_spread: bool = False

    cause: ClassVar[str | None] = "stage_imbalance"

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Increase the constant time of the last chunk, or of all chunks."""
        del rng
        time_s = np.array([self.forward_s, self.backward_s])
        if self.is_spread:
            conditions.fixed_s += time_s[:, None] / len(conditions.chunk_weight)
        else:
            conditions.fixed_s[:, -1] += time_s

    def without(self) -> "LossLayer":
        """Return the loss layer spread evenly over all chunks."""
        return replace(self, is_spread=True)

    def culprits(self, place: Place) -> Culprits:
        """Name the last stage, if there are several chunks."""
        last = place.shape.last_chunk
        return {"stages": [place.shape.pp_size - 1], "chunks": [last]} if last else NO_CULPRIT


@dataclass(frozen=True)
class UnevenLayers(Mechanism):
    """Chunks of the model with different numbers of equal layers.

    layers : of each chunk of the model; chunk c * pp_size + p is chunk c of stage p
    """

    layers: Sequence[float]
    is_spread: bool = False

    cause: ClassVar[str | None] = "stage_imbalance"

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Weight the chunks by their layers; the mean chunk takes the workload's time."""
        del rng
        weight = np.asarray(self.layers, float)
        if weight.shape != conditions.chunk_weight.shape:
            raise ValueError(f"layers of {len(weight)} chunks, but {len(conditions.chunk_weight)} chunks")
        if not self.is_spread:
            conditions.chunk_weight *= weight / weight.mean()

    def without(self) -> "UnevenLayers":
        """Return the layers spread evenly, in fractions of layers if necessary."""
        return replace(self, is_spread=True)

    def culprits(self, place: Place) -> Culprits:
        """Name the chunks above the mean, and the heaviest stages if stages differ."""
        weight = np.asarray(self.layers, float)
        by_stage = weight.reshape(place.shape.vpp_size, place.shape.pp_size).sum(axis=0)
        heaviest = by_stage == by_stage.max()
        found = {
            "stages": np.flatnonzero(heaviest & ~heaviest.all()).tolist(),
            "chunks": np.flatnonzero(weight > weight.mean()).tolist(),
        }
        return found if found["chunks"] else NO_CULPRIT


@dataclass(frozen=True)
class PackedSequences(Windowed):
    """Microbatches packed with sequences of long-tailed length, up to a token limit.

    A microbatch takes sequences until the next does not fit. The linear work goes with its tokens, the
    quadratic with the sum of its squared lengths. One sequence of the full limit takes tokens / (6 * hidden)
    as long in attention as in all else: per token and layer 4 * tokens * hidden operations beside
    24 * hidden^2 (Narayanan et al., arXiv 2104.04473, appendix).

    token_limit   : of a microbatch [tokens]
    median_tokens : length of the median sequence [tokens]
    spread        : standard deviation of the log of the length; sequences longer than the limit are cut
    hidden_size   : of the model
    is_balanced   : every microbatch of a step gets the step's mean work, over microbatches and dp ranks
    """

    token_limit: int
    median_tokens: float
    spread: float
    hidden_size: int = 4096
    is_balanced: bool = False

    cause: ClassVar[str | None] = "data_imbalance"

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Set the work of every microbatch, which is balanced outside the window."""
        linear, squared = self._fill(conditions.linear.shape, rng)
        attention = self.token_limit / (6 * self.hidden_size)
        uneven = self.window.mask(linear.shape[1]) & (not self.is_balanced)
        for work, values in ((conditions.linear, linear), (conditions.quadratic, squared * attention)):
            mean = values.mean(axis=(0, 2), keepdims=True)
            work[:] = np.where(uneven[:, None], values, mean)

    def without(self) -> "PackedSequences":
        """Return the same data, balanced within each step."""
        return replace(self, is_balanced=True)

    def _fill(
        self, shape: tuple[int, ...], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Draw tokens and summed squares of sequence lengths of microbatches, in full-length sequences."""
        mean = self.median_tokens * np.exp(self.spread**2 / 2)
        drawn = int(np.clip(3 * self.token_limit / mean, 4, MOST_SEQUENCES))
        length = self.median_tokens * np.exp(self.spread * rng.standard_normal((drawn, *shape)))
        length = np.minimum(length / self.token_limit, 1.0)
        length *= np.cumsum(length, axis=0) <= 1.0
        return np.maximum(length.sum(axis=0), LEAST_WORK), (length * length).sum(axis=0)
