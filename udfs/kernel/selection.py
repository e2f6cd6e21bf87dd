"""Medians, quantiles and order statistics that are exact, and several times as fast as NumPy's."""

from functools import cache
from math import floor, prod
from typing import Final, TypeVar

import numpy as np

from udfs.kernel.arrays import Floats

Values = TypeVar("Values", Floats, float)

MANY: Final = 4096
"""From this number of values on, a search for a narrow bracket around a rank is worthwhile."""

VERY_FEW: Final = 256
"""Up to this number of values, sorting is faster than selecting."""

SAMPLE: Final = 1024
MARGIN: Final = 64
"""Values in the sample from which the bracket is taken, and half of the bracket's width in ranks of the
sample, which is four standard errors."""

FEW: Final = 9
ENOUGH: Final = 4096
"""Up to FEW values along an axis, and from ENOUGH values in all, comparing whole rows is faster than sorting
each column."""

SORTED: Final = 1024
"""Up to this length of an axis, sorting takes less time than selecting."""


def neighbours(values: Floats, rank: int) -> tuple[float, float]:
    """Return the sorted values at a rank and the next rank, or the last value twice; values : (value,)."""
    following = min(rank + 1, values.size - 1)
    if values.size > MANY:
        sample = np.sort(values[:: values.size // SAMPLE])
        at = rank * len(sample) // values.size
        low, high = sample[max(at - MARGIN, 0)], sample[min(at + MARGIN, len(sample) - 1)]
        is_below = values < low
        below, inside = int(np.count_nonzero(is_below)), values[(values <= high) ^ is_below]
        if below <= rank and following < below + inside.size < below + values.size:
            lower, upper = neighbours(inside, rank - below)
            return lower, upper if following > rank else lower
    ordered = values.copy()
    if values.size > VERY_FEW:
        ordered.partition((rank, following))
    else:
        ordered.sort()
    return float(ordered[rank]), float(ordered[following])


def medians_of_rows(rows: Floats, *, low: bool = False) -> Floats:
    """Return the median of each row, or the lower of two middle values; rows : shape (row, value)."""
    size = rows.shape[1]
    if size > MANY:
        middles = np.array([neighbours(row, (size - 1) // 2) for row in rows])
        return middles[:, 0] if low or size % 2 else middles.mean(axis=1)
    return medians_along(rows, 1, low=low)


def median_of_all(values: Floats) -> float:
    """Return the median of a flat array, shape (value,)."""
    lower, upper = neighbours(values, (values.size - 1) // 2)
    return lower if values.size % 2 else (lower + upper) / 2


def deviation_of_all(values: Floats) -> float:
    """Return the median absolute deviation of a flat array, shape (value,)."""
    return median_of_all(np.abs(values - median_of_all(values)))


def quantile_of_all(values: Floats, share: float) -> float:
    """Return a quantile of a flat array, shape (value,), with linear interpolation."""
    at = (values.size - 1) * share
    lower, upper = neighbours(values, floor(at))
    return _between(lower, upper, at - floor(at))


def ascending(values: Floats, *axes: int) -> Floats:
    """Return a copy in which the given axes are flattened into the last axis and sorted.

    Sorting a short axis that is contiguous in memory is faster than selecting along one that is not.
    """
    others = (axis for axis in range(values.ndim) if axis not in axes)
    ordered = values.transpose(*others, *axes).copy(order="C")
    if len(axes) > 1:
        joined = prod(ordered.shape[-len(axes) :])  # reshape cannot infer it if another axis is empty
        ordered = ordered.reshape(*ordered.shape[: -len(axes)], joined)
    ordered.sort(axis=-1)
    return ordered


@cache
def evenly(size: int, most: int) -> tuple[int, ...]:
    """Return at most `most` positions below `size`, evenly spaced, the first and last among them."""
    return tuple(np.unique(np.linspace(0, size - 1, most).astype(np.int64)).tolist())


def medians_along(values: Floats, axis: int, *, low: bool = False) -> Floats:
    """Return the median along an axis, or the lower of the two middle values."""
    size = values.shape[axis]
    ranks = ((size - 1) // 2,) if low or size % 2 else (size // 2 - 1, size // 2)
    middles = ranked(values, ranks, axis)
    return middles[0] if len(ranks) == 1 else (middles[0] + middles[1]) / 2


def ranked(values: Floats, ranks: tuple[int, ...], axis: int = 0) -> list[Floats]:
    """Return the order statistics of the given ranks along an axis."""
    size = values.shape[axis]
    if size > FEW or values.size < ENOUGH:
        if size > SORTED:
            ordered = np.ascontiguousarray(np.moveaxis(values, axis, -1))
            ordered = np.partition(ordered, sorted(set(ranks)), axis=-1)
        else:
            ordered = ascending(values, axis)
        return [ordered[..., rank] for rank in ranks]
    rows = _compared(list(np.moveaxis(values, axis, 0)), ranks)
    return [rows[rank] for rank in ranks]


def sorted_rows(values: Floats) -> Floats:
    """Return `np.sort(values, axis=0)` of values without NaN; values : shape (few, many)."""
    size = len(values)
    if size > FEW or values.size < ENOUGH:
        return np.sort(values, axis=0)
    return np.array(_compared(list(values), tuple(range(size))))


def _compared(rows: list[Floats], ranks: tuple[int, ...]) -> list[Floats]:
    """Sort rows by comparing pairs of rows, only as far as the wanted ranks require."""
    for first, second, is_lower_wanted, is_upper_wanted in _network(len(rows), ranks):
        lower, upper = rows[first], rows[second]
        if is_lower_wanted:
            rows[first] = np.minimum(lower, upper)
        if is_upper_wanted:
            rows[second] = np.maximum(lower, upper)
    return rows


@cache
def _network(size: int, ranks: tuple[int, ...]) -> list[tuple[int, int, bool, bool]]:
    """Return comparators that sort `size` values (Batcher 1968), without those that no wanted rank needs.

    returns : positions of two values, and whether the lower, or the upper, of them is wanted there.
    """
    comparisons = []
    width = 1
    while width < size:
        gap = width
        while gap:
            starts = range(gap % width, size - gap, 2 * gap)
            firsts = [at for start in starts for at in range(start, min(start + gap, size - gap))]
            comparisons += [(at, at + gap) for at in firsts if at // (2 * width) == (at + gap) // (2 * width)]
            gap //= 2
        width *= 2
    wanted, kept = set(ranks), []
    for first, second in reversed(comparisons):
        if not wanted.isdisjoint((first, second)):
            kept.append((first, second, first in wanted, second in wanted))
            wanted |= {first, second}
    return kept[::-1]


def median(ordered: Floats) -> Floats:
    """Return the median along the last axis, which must be sorted."""
    half = ordered.shape[-1] // 2
    middle: Floats = ordered[..., half]
    return middle if ordered.shape[-1] % 2 else (ordered[..., half - 1] + middle) / 2


def quantile(ordered: Floats, share: float) -> Floats:
    """Return a quantile along the last axis, which must be sorted, with linear interpolation."""
    at = (ordered.shape[-1] - 1) * share
    upper = min(floor(at) + 1, ordered.shape[-1] - 1)
    return _between(ordered[..., floor(at)], ordered[..., upper], at - floor(at))


def _between(lower: Values, upper: Values, part: float) -> Values:
    """Interpolate linearly between two values, with the rounding of NumPy's quantile."""
    return upper - (upper - lower) * (1 - part) if part >= 0.5 else lower + (upper - lower) * part
