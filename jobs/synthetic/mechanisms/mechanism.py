"""What all mechanisms share: a cause, a change, a window, what is left without it, who is to blame."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from jobs.synthetic.conditions import Conditions
from jobs.synthetic.place import Place
from jobs.synthetic.window import ALWAYS, Window

Culprits = Mapping[str, Any]
"""Who is to blame: `workers` as [dp_rank, pp_rank], `stages`, `chunks` of the model, `hosts`, `op_types`."""
NO_CULPRIT: Culprits = MappingProxyType({})


class Mechanism(ABC):
    """Something that changes how long ops take, with numbers a person would recognise.

    cause : the cause that a diagnosis should name; None for a nuisance, which it should name under no cause
    """

    cause: ClassVar[str | None]

    @abstractmethod
    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Change the conditions. Draws what it needs whatever the conditions are, and from `rng` alone."""

    def without(self) -> "Mechanism | None":
        """What remains when its harm is undone: nothing, or the same work evenly spread."""
        return None

    def parameters(self) -> dict[str, Any]:
        """What it is made with, in types that JSON knows."""
        return dict(vars(self))

    def culprits(self, place: Place) -> Culprits:
        """Who is to blame."""
        del place
        return NO_CULPRIT

    def part(self, first: int, end: int) -> "Mechanism | None":
        """What of it falls into recorded steps [first, end), counted from there; None if nothing does."""
        del first, end
        return self


@dataclass(frozen=True)
class Windowed(Mechanism):
    """A mechanism that begins and ends."""

    window: Window = field(default=ALWAYS, kw_only=True)

    def part(self, first: int, end: int) -> "Mechanism | None":
        """Shift the window; None where it does not reach into the steps."""
        inside = self.window.later(first)
        return replace(self, window=inside) if inside.mask(end - first).any() else None

    def steps_hit(self, steps: int, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
        """Draw the steps, within the window, in which it shows: a share of them. Shape (step,)."""
        return self.window.mask(steps) & (rng.random(steps) < share)
