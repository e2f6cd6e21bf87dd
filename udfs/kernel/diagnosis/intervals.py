"""Compute intervals of savings, because only some of a day's steps are recorded and the others may differ."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.cause import DATA_IMBALANCE, SLOW_WORKER, UNEXPLAINED, CauseFound
from udfs.kernel.student import student_quantile

HOUR_S: Final = 3600.0

CONFIDENCE: Final = 0.9
"""Confidence of a two-sided interval."""

MOST_BLOCKS: Final = 10
"""If all steps are consecutive, they are divided into up to this number of blocks, which count as samples."""

REGULAR: Final = 0.8
"""Stretches of steps are regular if at least this share of them has the same distance to the next stretch."""

OF_STEP: Final = 0.0005
OF_SAVING: Final = 0.005
OF_SAVING_BY_CAUSE: Final = {SLOW_WORKER: 0.02, DATA_IMBALANCE: 0.05}
"""Half widths for errors of the diagnosis: a share of the step, and a share of the saving, which is larger
for causes that can be mistaken for each other. Measured by `python -m tests.evaluation.coverage --part 1`."""


def number_of_steps(
    numbers: Ints, actual_s: Floats, gpu_hours: float | None, world_size: int | None
) -> float:
    """Return the day's number of steps, from its GPU-hours or from the range of step numbers if larger.

    Without GPU-hours, the range is returned, or infinity if the recorded steps have no gaps, because
    consecutive steps may be a whole day or a part of it.

    numbers, actual_s : numbers and times [s] of the recorded steps, shape (step,).
    """
    spanned = float(numbers[-1] - numbers[0] + 1)
    if gpu_hours is not None and world_size:
        return max(spanned, gpu_hours * HOUR_S / world_size / float(actual_s.mean()))
    return spanned if spanned > len(numbers) else np.inf


class HalfWidths(NamedTuple):
    """Half widths of intervals, and degrees of freedom of Student's distribution; nan without an interval."""

    widths: Floats
    freedom: float


def half_widths(saved: Floats, actual_s: Floats, numbers: Ints, steps_of_day: float) -> HalfWidths:
    """Return half widths of the savings' intervals, counting only the error due to unrecorded steps.

    A saving is a ratio of two sums over steps, so that its error is that of the mean of saved - fraction *
    actual. A stretch of consecutive steps counts as one sample; if there is only one, each of its blocks
    does.

    saved        : saving in each step over the mean step time, shape (..., step).
    actual_s     : recorded step times, shape (step,). [s]
    numbers      : numbers of the training steps, ascending, shape (step,).
    steps_of_day : number of steps of the day, infinite if not known.
    returns      : widths of shape (...); nan if only one step is recorded.
    """
    steps = len(numbers)
    missing = max(0.0, 1.0 - steps / steps_of_day)
    if missing == 0.0:
        return HalfWidths(np.zeros(saved.shape[:-1]), np.nan)
    if steps < 2:
        return HalfWidths(np.full(saved.shape[:-1], np.nan), np.nan)
    left = saved - saved.mean(axis=-1, keepdims=True) * (actual_s / actual_s.mean())
    # Where stretches begin; gaps shorter than half of the mean stretch divide none.
    gaps = np.diff(numbers, prepend=numbers[0] - 2) - 1
    starts = np.flatnonzero(gaps)
    is_apart = 2 * gaps[starts] >= np.diff(starts, append=steps).mean()
    is_apart[0] = True
    starts = starts[is_apart]
    apart = np.diff(numbers[starts])
    is_regular = len(starts) > 2 and (apart == np.median(apart)).mean() >= REGULAR
    if len(starts) == 1:
        blocks = max(2, min(MOST_BLOCKS, steps // 2))
        starts = np.arange(blocks) * steps // blocks
    sums, draws = np.add.reduceat(left, starts, axis=-1), len(starts)
    if is_regular:
        # Regular samples show a trend over the day, so the error follows from differences of successive ones.
        squares = np.square(np.diff(sums, axis=-1)).sum(axis=-1) / 2.0
        freedom = 2.0 * (draws - 1) ** 2 / (3 * draws - 4)
    else:
        centred = sums - sums.mean(axis=-1, keepdims=True)
        squares, freedom = np.square(centred).sum(axis=-1), draws - 1.0
    error = np.sqrt(missing * squares * draws / (draws - 1)) / steps
    return HalfWidths(student_quantile((1.0 + CONFIDENCE) / 2.0, freedom) * error, freedom)


def with_diagnosis(found: HalfWidths, causes: Sequence[CauseFound]) -> Floats:
    """Widen the interval of each saving by the error of the diagnosis.

    found   : half widths for what each fix saves alone and for the attributed part; shape (2, cause).
    returns : shape (4, cause): both half widths with the diagnosis's error, this error alone for what a fix
              saves, and the degrees of freedom.
    """
    saved = np.array([[each.time_saved_fraction, each.attributed_fraction] for each in causes]).T
    of_saving = [OF_SAVING_BY_CAUSE.get(each, OF_SAVING) for each in range(len(causes))]
    unknown = np.hypot(OF_STEP, of_saving * saved)
    unknown[1, UNEXPLAINED] = 0.0
    halves = np.hypot(found.widths, unknown)
    own = np.where(np.isnan(halves[:1]), np.nan, unknown[:1])
    return np.vstack([halves, own, np.full_like(own, found.freedom)])
