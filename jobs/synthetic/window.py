"""When a mechanism is at work."""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Window:
    """Recorded steps from `first` up to `end`, which is left out; None: to the last.

    Both count recorded steps from 0. `first` is negative where it began before them.
    """

    first: int = 0
    end: int | None = None

    def __post_init__(self) -> None:
        """Refuse a window that ends before it begins."""
        if self.end is not None and self.end < self.first:
            raise ValueError(f"a window that starts at step {self.first} cannot end at {self.end}")

    def mask(self, steps: int) -> NDArray[np.bool_]:
        """Whether each step is within, shape (step,)."""
        step = np.arange(steps)
        return (step >= self.first) & (step < (steps if self.end is None else self.end))

    def later(self, steps: int) -> "Window":
        """The same window, counted from `steps` steps later on."""
        return Window(self.first - steps, None if self.end is None else self.end - steps)


ALWAYS: Final = Window()
