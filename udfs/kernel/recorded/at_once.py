"""Whether ops begin at once when their worker is done waiting for a transfer (model, section 2)."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from udfs.kernel.arrays import Mask
from udfs.kernel.recorded.durations import NO_OP_TOLERANCE_S
from udfs.kernel.recorded.trace import StepBlock

LEAST_POSTPONED: Final = 24
"""Fewer ops may begin with the end of a transfer by chance."""

AT_ONCE: Final = 0.99
"""At least this share of the ops that waits postpone begins when the wait ends."""


def begin_at_once(
    plain: Sequence[StepBlock], blocking: Sequence[StepBlock], least: int = LEAST_POSTPONED
) -> bool:
    """Whether the record shows the waits of blocking transfers, whatever the step time says of them.

    Asked are ops that could have begun earlier, by more than a clock's noise, had their worker not waited.
    If it waited, they begin as soon as it is done; if not, their starts hardly ever fall on that instant.

    plain, blocking : the same steps, laid out without and with these waits.
    least           : as many ops must be postponed.
    """
    pairs = [
        (free, waiting, np.isin(waiting.steps, free.steps))
        for waiting in blocking
        for free in plain
        if waiting.start_s.shape[::2] == free.start_s.shape[::2]
    ]
    number, at_once = np.sum([(0, 0), *(_counts(*pair) for pair in pairs if pair[-1].any())], axis=0).tolist()
    return bool(number >= least and at_once >= AT_ONCE * number)


def _counts(free: StepBlock, waiting: StepBlock, steps: Mask) -> tuple[int, int]:
    """Ops that waits postpone, and those of them that begin when the wait ends."""
    start_s = waiting.start_s[:, steps]
    end_s = start_s + waiting.duration_s[:, steps]
    number = at_once = 0
    for op, (before, now) in enumerate(zip(free.graph.waits_for, waiting.graph.waits_for, strict=True)):
        if before and len(now) > len(before):
            wait_end_s = end_s[list(now)].max(axis=0)
            is_postponed = wait_end_s - end_s[list(before)].max(axis=0) > NO_OP_TOLERANCE_S
            is_at_once = np.abs(start_s[op] - wait_end_s) <= NO_OP_TOLERANCE_S
            number += int(np.count_nonzero(is_postponed))
            at_once += int(np.count_nonzero(is_postponed & is_at_once))
    return number, at_once
