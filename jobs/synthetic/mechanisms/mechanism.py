"""Base classes of mechanisms: the interface of all, windows of steps, and directions of ops."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from jobs.synthetic.conditions import Conditions, Place

Culprits = Mapping[str, Any]
"""What a mechanism slows: `workers` as [dp_rank, pp_rank], `stages`, `chunks` of the model, `hosts` or
`op_types`."""
NO_CULPRIT: Culprits = MappingProxyType({})


@dataclass(frozen=True)
class Window:
    """Range of recorded steps [first, end); if `end` is None, the range lasts to the last step.

    Both count recorded steps from 0. `first` is negative if the effect began before the first recorded step.

    grows : whether the strength of the effect grows linearly over the steps, up to 1 in the last step
    """

    first: int = 0
    end: int | None = None
    grows: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for a window that ends before it begins, or that grows but has no end."""
        if self.end is None and self.grows:
            raise ValueError("a window with grows=True needs an end, where it reaches full strength")
        if self.end is not None and self.end < self.first:
            raise ValueError(f"a window that starts at step {self.first} cannot end at {self.end}")

    def mask(self, steps: int) -> NDArray[np.bool_]:
        """Return whether each step lies within the window, shape (step,)."""
        step = np.arange(steps)
        return (step >= self.first) & (step < (steps if self.end is None else self.end))

    def share(self, steps: int) -> NDArray[np.float64]:
        """Return the strength of the effect in each step, from 0 to 1, shape (step,)."""
        if self.end is None or not self.grows:
            return self.mask(steps).astype(np.float64)
        grown: NDArray[np.float64] = (np.arange(steps) - self.first + 1) / (self.end - self.first)
        return np.where(self.mask(steps), grown, 0.0)

    def later(self, steps: int) -> "Window":
        """Return this window with steps renumbered, so that the present step `steps` becomes step 0."""
        return Window(self.first - steps, None if self.end is None else self.end - steps, self.grows)


ALWAYS: Final = Window()


class Mechanism(ABC):
    """A fault or nuisance of a generated job, which changes durations, delays, work or clocks.

    cause : the cause that a diagnosis should name; None for a nuisance, which is no cause
    """

    cause: ClassVar[str | None] = None

    @abstractmethod
    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Change the conditions; random draws use only `rng`, and do not depend on the conditions."""

    def without(self) -> Self | None:
        """Return the mechanism after its fix, such as the same work spread evenly; None if it is gone."""
        return None

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the mechanism as JSON types, without the window."""
        return {name: value for name, value in vars(self).items() if name != "window"}

    def culprits(self, place: Place) -> Culprits:
        """Return the workers, stages, hosts or op types that the mechanism slows; by default none."""
        del place
        return NO_CULPRIT

    def fields(self, place: Place) -> Mapping[str, Any]:
        """Return the manifest fields that the mechanism adds."""
        del place
        return {}

    def part(self, first: int, end: int) -> Self | None:
        """Return the mechanism for steps [first, end) only, counted from 0; None if not active in them."""
        del first, end
        return self


@dataclass(frozen=True)
class Windowed(Mechanism):
    """A mechanism that is limited to a window of steps."""

    window: Window = field(default=ALWAYS, kw_only=True)

    def part(self, first: int, end: int) -> Self | None:
        """Return the mechanism for steps [first, end), counted from `first`; None if inactive in them."""
        inside = self.window.later(first)
        return replace(self, window=inside) if inside.mask(end - first).any() else None

    def steps_hit(self, steps: int, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Return which steps of the window are hit, each with probability `share`; bool, shape (step,)."""
        return self.window.mask(steps) & (rng.random(steps) < share)


Direction = Literal["both", "forward", "backward", "optimizer"]
"""Which ops are slow: forwards and backwards, one of these, or the optimizer (not for transfers)."""


@dataclass(frozen=True)
class Directed(Windowed):
    """A mechanism that may affect ops of one direction only."""

    direction: Direction = field(default="both", kw_only=True)

    def hits(self, direction: Direction) -> bool:
        """Return whether the mechanism affects ops of this direction."""
        return self.direction == direction or (self.direction == "both" and direction != "optimizer")

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the mechanism, without the direction if it affects both."""
        kept = super().parameters()
        return kept if self.direction != "both" else {k: v for k, v in kept.items() if k != "direction"}


def workers_of(place: Place, pp_rank: int, dp_rank: int | None) -> list[list[int]]:
    """Return the workers of a stage as [dp_rank, pp_rank]; only one worker if `dp_rank` is given."""
    return [[each, pp_rank] for each in (range(place.shape.dp_size) if dp_rank is None else [dp_rank])]
