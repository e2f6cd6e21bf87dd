"""Uneven data: cause data_imbalance. Without it the same data are balanced within each step."""

from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray

from jobs.synthetic.conditions import Conditions
from jobs.synthetic.mechanisms.mechanism import Windowed

MOST_SEQUENCES: Final = 64
"""Sequences drawn for one microbatch: if all of them fit, that is how many it holds."""
LEAST_WORK: Final = 0.02
"""Of a full microbatch: however few its tokens, every kernel of every layer has to be launched."""


@dataclass(frozen=True)
class PackedSequences(Windowed):
    """Sequences of long-tailed length are packed into microbatches up to a token limit.

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
        """Set the work of every microbatch; balanced outside of the window."""
        linear, squared = self._fill(conditions.linear.shape, rng)
        attention = self.token_limit / (6 * self.hidden_size)
        uneven = self.window.mask(linear.shape[1]) & (not self.is_balanced)
        for work, values in ((conditions.linear, linear), (conditions.quadratic, squared * attention)):
            mean = values.mean(axis=(0, 2), keepdims=True)
            work[:] = np.where(uneven[:, None], values, mean)

    def without(self) -> "PackedSequences":
        """Balance it."""
        return replace(self, is_balanced=True)

    def _fill(
        self, shape: tuple[int, ...], rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Draw tokens and sum of squared lengths of each microbatch, both relative to one full sequence."""
        mean = self.median_tokens * np.exp(self.spread**2 / 2)
        drawn = int(np.clip(3 * self.token_limit / mean, 4, MOST_SEQUENCES))
        length = self.median_tokens * np.exp(self.spread * rng.standard_normal((drawn, *shape)))
        length = np.minimum(length / self.token_limit, 1.0)
        length *= np.cumsum(length, axis=0) <= 1.0
        return np.maximum(length.sum(axis=0), LEAST_WORK), (length * length).sum(axis=0)
