"""Mechanisms of uneven work among stages (cause stage_imbalance) or data (cause data_imbalance).

Without these mechanisms, the same work is spread evenly: over all chunks, or over the microbatches of each
step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np

from jobs.synthetic.conditions import Conditions, Place
from jobs.synthetic.mechanisms.mechanism import NO_CULPRIT, Culprits, Mechanism, Windowed

MOST_SEQUENCES: Final = 64
"""Most sequences in a microbatch, even if further ones would fit."""
LEAST_WORK: Final = 0.02
"""Least linear work of a microbatch, relative to a full one: few tokens need as many kernels launched."""


@dataclass(frozen=True)
class LossLayer(Mechanism):
    """Loss layer: the model's last chunk also computes the loss, in a constant time per microbatch.

    forward_s, backward_s : time of the loss in each direction [s]; in a published trace 0.115 and 0.138,
        where a
                stage's forward takes 0.1
    is_spread : whether all chunks take an equal part of that time
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
        """Return the last stage as the culprit, or no culprit if the model has only one chunk."""
        last = place.shape.last_chunk
        return {"stages": [place.shape.pp_size - 1], "chunks": [last]} if last else NO_CULPRIT


@dataclass(frozen=True)
class UnevenLayers(Mechanism):
    """Uneven layers: chunks of the model have different numbers of equal layers.

    layers : number of layers of each chunk of the model; number c * pp_size + p is chunk c of stage p
    is_spread : whether all chunks get the mean number of layers
    """

    layers: Sequence[float]
    is_spread: bool = False

    cause: ClassVar[str | None] = "stage_imbalance"

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Weight the chunks by their layers, such that the mean weight is 1."""
        del rng
        weight = np.asarray(self.layers, float)
        if weight.shape != conditions.chunk_weight.shape:
            raise ValueError(f"layers of {len(weight)} chunks, but {len(conditions.chunk_weight)} chunks")
        if not self.is_spread:
            conditions.chunk_weight *= weight / weight.mean()

    def without(self) -> "UnevenLayers":
        """Return the layers spread evenly; the number per chunk need not be whole."""
        return replace(self, is_spread=True)

    def culprits(self, place: Place) -> Culprits:
        """Return the chunks with more layers than the mean, and the stages with most layers, as culprits."""
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
    """Packed sequences: microbatches are filled with sequences of log-normal length, up to a token limit.

    A microbatch takes sequences until the next does not fit. Its linear work is proportional to its tokens,
    its quadratic work (attention) to the sum of the squared lengths of its sequences. For one sequence of the
    full limit, quadratic over linear work is token_limit / (6 * hidden_size), because a layer needs 4 *
    tokens * hidden operations per token for attention and 24 * hidden^2 for all else (Narayanan et al., arXiv
    2104.04473, appendix).

    token_limit   : most tokens of a microbatch
    median_tokens : median length of sequences [tokens]
    spread        : standard deviation of the log of the length; sequences longer than the limit are cut
    hidden_size   : hidden size of the model
    is_balanced   : whether every microbatch gets the mean work of its step, over microbatches and dp ranks
    """

    token_limit: int
    median_tokens: float
    spread: float
    hidden_size: int = 4096
    is_balanced: bool = False

    cause: ClassVar[str | None] = "data_imbalance"

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Set the work of every microbatch; outside the window all microbatches of a step get their mean."""
        mean_tokens = self.median_tokens * np.exp(self.spread**2 / 2)
        drawn = int(np.clip(3 * self.token_limit / mean_tokens, 4, MOST_SEQUENCES))
        draws = rng.standard_normal((drawn, *conditions.linear.shape))
        length = np.minimum(self.median_tokens * np.exp(self.spread * draws) / self.token_limit, 1.0)
        length *= np.cumsum(length, axis=0) <= 1.0
        linear, squared = np.maximum(length.sum(axis=0), LEAST_WORK), (length * length).sum(axis=0)
        attention = self.token_limit / (6 * self.hidden_size)
        uneven = self.window.mask(linear.shape[1]) & (not self.is_balanced)
        for work, values in ((conditions.linear, linear), (conditions.quadratic, squared * attention)):
            mean = values.mean(axis=(0, 2), keepdims=True)
            work[:] = np.where(uneven[:, None], values, mean)

    def without(self) -> "PackedSequences":
        """Return the same data, balanced within each step."""
        return replace(self, is_balanced=True)
