"""Base classes of mechanisms, which have a cause, an effect, a window of steps, and culprits."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar, Final, Literal, Self

import numpy as np
from numpy.typing import NDArray

from jobs.synthetic.conditions import Conditions, Place

Culprits = Mapping[str, Any]
"""Culprits: `workers` as [dp_rank, pp_rank], `stages`, `chunks` of the model, `hosts`, `op_types`."""
NO_CULPRIT: Culprits = MappingProxyType({})


@dataclass(frozen=True)
class Window:
    """Range of recorded steps [first, end); if `end` is None, the range lasts to the last step.

    Both count recorded steps from 0. `first` is negative where it began before them.

    grows : whether what happens in it grows, step by step alike, until it is whole in the last one
    """

    first: int = 0
    end: int | None = None
    grows: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError for a window that ends before it begins, or that grows without end."""
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
        """Return this window for a count of steps that begins `steps` later."""
        return Window(self.first - steps, None if self.end is None else self.end - steps, self.grows)


ALWAYS: Final = Window()


class Mechanism(ABC):
    """A cause of changed durations of ops, with realistic parameters.

    cause : the cause that a diagnosis should name; None for a nuisance, which it should name under no cause
    """

    cause: ClassVar[str | None] = None

    @abstractmethod
    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Change the conditions; draw only from `rng`, independently of the conditions."""

    def without(self) -> Self | None:
        """Return the mechanism without its harm: the same work evenly spread, or None if nothing is left."""
        return None

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the mechanism as JSON types, without the window."""
        return {name: value for name, value in vars(self).items() if name != "window"}

    def culprits(self, place: Place) -> Culprits:
        """Return the culprits of the mechanism in a job, in the form of the truth file."""
        del place
        return NO_CULPRIT

    def fields(self, place: Place) -> Mapping[str, Any]:
        """Return the manifest fields that the mechanism adds."""
        del place
        return {}

    def part(self, first: int, end: int) -> Self | None:
        """Return the mechanism within recorded steps [first, end), numbered from 0; None if never active."""
        del first, end
        return self


@dataclass(frozen=True)
class Windowed(Mechanism):
    """A mechanism that is limited to a window of steps."""

    window: Window = field(default=ALWAYS, kw_only=True)

    def part(self, first: int, end: int) -> Self | None:
        """Shift the window; return None if the window does not overlap the steps."""
        inside = self.window.later(first)
        return replace(self, window=inside) if inside.mask(end - first).any() else None

    def steps_hit(self, steps: int, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Draw a share of the steps within the window; returns bool, shape (step,)."""
        return self.window.mask(steps) & (rng.random(steps) < share)


Direction = Literal["both", "forward", "backward", "optimizer"]
"""Which ops are slow: computes of both directions, of one, or the optimizer; transfers have no optimizer."""


@dataclass(frozen=True)
class Directed(Windowed):
    """A mechanism that may affect only one direction."""

    direction: Direction = field(default="both", kw_only=True)

    def hits(self, direction: Direction) -> bool:
        """Return whether the mechanism affects this direction, or the optimizer."""
        return self.direction == direction or (self.direction == "both" and direction != "optimizer")

    def parameters(self) -> dict[str, Any]:
        """Return the parameters of the mechanism, without the direction if it affects both."""
        kept = super().parameters()
        return kept if self.direction != "both" else {k: v for k, v in kept.items() if k != "direction"}


def workers_of(place: Place, pp_rank: int, dp_rank: int | None) -> list[list[int]]:
    """Return the workers of a stage as [dp_rank, pp_rank]; only one worker if `dp_rank` is given."""
    return [[each, pp_rank] for each in (range(place.shape.dp_size) if dp_rank is None else [dp_rank])]
