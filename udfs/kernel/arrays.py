"""The kernel's arrays by what they hold, and which of their rows are alike."""

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Int32s = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]


def alike(rows: npt.NDArray[np.generic]) -> list[Ints]:
    """Positions of equal rows, shape (row, value), one array per distinct row, these in ascending order."""
    if (rows == rows[:1]).all():
        return [np.arange(len(rows))]
    _, inverse = np.unique(rows, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    return [np.flatnonzero(inverse == number) for number in range(inverse.max() + 1)]


def common(columns: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The first column alone, where all are alike."""
    return columns[:, :1] if (columns == columns[:, :1]).all() else columns
