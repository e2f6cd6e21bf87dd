"""Signs of blocking in recorded times: no overlaps with other work, and ops that begin when a wait ends."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Mask
from udfs.kernel.recorded.durations import NO_OP_TOLERANCE_S
from udfs.kernel.recorded.trace import StepBlock

OVERLAPPING: Final = 0.01
"""At most this share of the transfers of a blocking type overlaps other work, by clock errors or odd
records."""

RESOLUTION_S: Final = 1e-6
"""Least overlap that counts; logs record tenths of it. [s]"""

TOGETHER: Final = 16_384
"""Most pairs of ops that are compared at a time, so that their times fit the cache."""

LEAST_POSTPONED: Final = 24
"""Fewest postponed ops that show waits: fewer ops may begin at the end of a transfer by chance."""

AT_ONCE: Final = 0.99
"""At least this share of the ops that a wait postpones begins when the wait ends."""


def types_that_may(blocks: Sequence[StepBlock], eager: Sequence[int] = ()) -> tuple[int, ...]:
    """Return the types of transfers that may block, because few transfers of the type overlap other work.

    eager : types of sends that do not wait for their receive.
    """
    ends_s = [block.start_s + block.duration_s for block in blocks]
    return tuple(each for each in ot.TRANSFERS if _may_block(each, blocks, ends_s, is_eager=each in eager))


def _may_block(
    op_type: int, blocks: Sequence[StepBlock], ends_s: Sequence[Floats], *, is_eager: bool
) -> bool:
    """Return whether a type of transfers was recorded, and hardly any overlaps other work of its worker.

    ends_s : recorded ends of the ops of each block, shape (op, step, dp). [s]
    """
    number: int = sum(
        len(by_type[op_type]) * end_s[0].size
        for block, end_s in zip(blocks, ends_s, strict=True)
        for by_type in block.graph.ops_by_type
    )
    overlapping = 0
    for block, end_s in zip(blocks, ends_s, strict=True):
        for by_type in block.graph.ops_by_type:
            in_turn = [*ot.COMPUTE, *ot.TAIL]
            if not by_type[ot.SEPARATE_GRADS_ALL_REDUCE]:
                in_turn.append(ot.GRADS_REDUCE_SCATTER)
            others = [op for each in in_turn for op in by_type[each]]
            transfers = slice(by_type[op_type].start, by_type[op_type].stop)
            own_s = block.duration_s[transfers]
            # For sends of a few us, half of their length counts: times of one worker are of one clock.
            most_s = np.clip(own_s / 2, RESOLUTION_S, NO_OP_TOLERANCE_S) if is_eager else NO_OP_TOLERANCE_S
            overlapping += int(np.count_nonzero(_overlap(block.start_s, end_s, transfers, others, most_s)))
            if overlapping > OVERLAPPING * number:  # usually after the first worker
                return False
    return number > 0


def _overlap(
    start_s: Floats, end_s: Floats, transfers: slice, others: Sequence[int], most_s: Floats | float
) -> Mask:
    """Mask transfers that overlap another op for longer than most_s; (op, step, dp)."""
    starts_s, ends_s = start_s[transfers], end_s[transfers]
    found = np.zeros(starts_s.shape, dtype=bool)
    together = max(TOGETHER // max(found.size, 1), 1)
    for first in range(0, len(others) if found.size else 0, together):
        some = list(others[first : first + together])
        shared_s = np.minimum(ends_s, end_s[some, None])
        shared_s -= np.maximum(starts_s, start_s[some, None])
        found |= (shared_s > most_s).any(axis=0)
    return found


def begin_at_once(
    plain: Sequence[StepBlock], blocking: Sequence[StepBlock], least: int = LEAST_POSTPONED
) -> bool:
    """Return whether enough ops begin just when a wait for a blocking transfer ends.

    Only postponed ops count: those that could have begun earlier, by more than clock noise, if their worker
    had not waited. If the worker waited, these ops begin when the wait ends; otherwise they begin at any
    time.

    plain, blocking : the same steps, laid out without and with waits for blocking transfers.
    least           : least number of postponed ops for a positive answer.
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
    """Count the ops that waits would postpone, and how many of these begin when the wait ends."""
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
