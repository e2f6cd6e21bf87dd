"""Standard error of a run's mean step time, which allows for changes of level and drift during the run."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.student import student_quantile

LEAST_BLOCKS: Final = 3
"""Fewest blocks that show noise, and fewest values that make a level: two always lie on a line."""
LEAST_STRETCH: Final = 0.1
"""Length of the shortest level, as a part of the run; shorter deviations are noise."""
SURE: Final = 0.9995
"""A change of level counts if noise alone gives a smaller one with this probability, at one given place."""
MOST_CARRIED: Final = 0.9
"""Largest correlation of neighbouring values that counts as noise; a larger one would be a course."""
_PLACES: Final = 100
"""Number of places at which changes of level are sought in the first pass."""


class Noise(NamedTuple):
    """Standard error of a mean by noise, in the unit of the values, with degrees of freedom.

    levels   : position of the first value, and mean, of each level of the course. A steady course has one
               level; if the course drifts, its thirds count as levels.
    is_drift : whether the course is a drift.
    """

    error: float
    freedom: float
    levels: Sequence[tuple[int, float]]
    is_drift: bool


class _Course(NamedTuple):
    """A model of values over a run: constant between changes at some positions, or with a drift.

    columns : one for each change, shape (value, change).
    cuts    : places that divide it into stretches with clearly different levels.
    """

    columns: Floats
    cuts: list[int]
    is_drift: bool = False


def noise_of(values: Floats, blocks: int) -> Noise | None:
    """Estimate the noise of the mean of ordered values about a level that is constant, jumps or drifts.

    Levels and drifts are the course of a run, and differences between levels are not noise. A course counts
    only if it is significant and most values follow it: rare pauses, or slowness that comes and goes, are
    noise. Noise is measured between means of blocks, because consecutive values are correlated. The
    correlation that remains between blocks is estimated as that of a first-order autoregressive process.

    blocks  : number of blocks of consecutive values; equal to the number of values if these are independent.
    returns : None if there are too few blocks.
    """
    if blocks < LEAST_BLOCKS:
        return None
    courses = _courses(values) if blocks >= 2 * LEAST_BLOCKS else [_Course(np.empty((len(values), 0)), [])]
    found = [each for course in courses if (each := _about(course, values, blocks)) is not None]
    return min(found, key=lambda noise: noise.error)


def _courses(values: Floats) -> Iterator[_Course]:
    number = len(values)
    place = np.arange(number)
    yield _Course(np.empty((number, 0)), [])
    yield _Course((place - place.mean())[:, None], [number // 3, number - number // 3], is_drift=True)
    total = np.concatenate([[0.0], np.cumsum(values - values.mean())])
    places = np.unique(np.linspace(0, number - 1, min(number, _PLACES + 1)).astype(np.int64))
    reach = np.arange(-(number // _PLACES) - 1, number // _PLACES + 2)
    for changes in (1, 2) if number >= 3 * LEAST_BLOCKS else (1,):
        # The best places are found in two passes, the second of which looks around those of the first.
        first, second = _best(total, places, places if changes > 1 else np.array([number]))
        first, _ = _best(total, np.clip(first + reach, 0, number - 1), np.array([second]))
        cuts = [first]
        if changes > 1:
            cuts.append(_best(total, np.array([first]), np.clip(second + reach, 0, number - 1))[1])
        yield _Course((place[:, None] >= cuts).astype(np.float64), cuts)


def _about(course: _Course, values: Floats, blocks: int) -> Noise | None:
    """Return the noise about a model of the values, or None if the values do not clearly follow the model."""
    number = len(values)
    columns = np.column_stack([np.ones(number), course.columns])
    fitted = np.linalg.lstsq(columns, values, rcond=None)[0]
    level = columns @ fitted
    freedom = blocks - len(fitted)
    left = values - level
    means = np.array([each.mean() for each in np.array_split(left, blocks)])
    error = float(np.sqrt(means @ means / freedom / blocks * _shared(left, len(fitted), blocks)))
    if course.cuts:
        errors = error * np.sqrt(number * np.diag(np.linalg.inv(columns.T @ columns)))
        if (np.abs(fitted) <= student_quantile(SURE, freedom) * errors)[1:].any():
            return None
        medians = np.diff([np.median(each) for each in np.split(values, course.cuts)])
        of_levels = np.diff([each.mean() for each in np.split(level, course.cuts)])
        if (medians * of_levels <= of_levels**2 / 2.0).any():
            return None
    means_of = [float(each.mean()) for each in np.split(values, course.cuts)]
    return Noise(error, freedom, list(zip([0, *course.cuts], means_of, strict=True)), course.is_drift)


def _shared(left: Floats, fitted: int, blocks: int) -> float:
    """Return the variance of the mean as a multiple of its variance for independent blocks.

    left   : residuals, an autoregressive process of order 1; its measured coefficient is corrected for bias
    fitted : number of fitted columns, which increases the bias
    """
    number, squares = len(left), float(left @ left)
    if blocks == number or squares == 0.0:
        return 1.0
    carried = float(left[1:] @ left[:-1]) / squares
    carried = min(max(carried + (fitted + 3.0 * carried) / number, 0.0), MOST_CARRIED)

    length = np.array([number, number / blocks])
    beyond = 2.0 * carried * (1.0 - carried**length) / (length * (1.0 - carried) ** 2)
    of_all, of_block = ((1.0 + carried) / (1.0 - carried) - beyond).tolist()
    return float(of_all / of_block)


def _best(total: Floats, first: Ints, second: Ints) -> tuple[int, int]:
    """Return the pair of cuts, one of `first` and one of `second`, that leaves the least squared errors.

    Only pairs whose stretches are long enough count.
    total : sums of the values before each place, shape (value + 1,).
    """
    number = len(total) - 1
    least = max(LEAST_BLOCKS, int(LEAST_STRETCH * number))
    explained = np.zeros((len(first), len(second)))
    edges: tuple[Ints, ...] = (np.array(0), first[:, None], second[None, :], np.array(number))
    for begin, end in pairwise(edges):
        is_long = (end - begin >= least) | (begin == number)
        squares = (total[end] - total[begin]) ** 2 / np.maximum(end - begin, 1)
        explained += np.where(is_long, squares, -np.inf)
    at, then = divmod(int(explained.argmax()), len(second))
    return int(first[at]), int(second[then])
