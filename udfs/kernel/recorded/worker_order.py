"""In which order a worker computes and waits for blocking transfers (model, section 2)."""

from collections.abc import Callable
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints, Mask, common

SAME_S: Final = 1e-7
"""Times that differ by no more are the same: logs keep a tenth of a microsecond. [s]"""

SAME_ROWS: Final = 0.95
"""Ops that coincide in this share of the rows are one call in all of them."""


class WorkerOrder(NamedTuple):
    """Computes and blocking transfers of rows with equal counts.

    ops       : int, shape (op, row), or (op, 1) where all rows agree; by start.
    is_joined : bool, same; whether the op is of one call with the one before it.
    """

    ops: Ints
    is_joined: Mask

    def groups(self, row: int) -> tuple[tuple[int, ...], ...]:
        """Ops of one row, those of one call together."""
        found: list[tuple[int, ...]] = []
        columns = (part[:, min(row, part.shape[1] - 1)].tolist() for part in self)
        for op, is_joined in zip(*columns, strict=True):
            if is_joined:
                found[-1] += (op,)
            else:
                found.append((op,))
        return tuple(found)


def worker_order(
    counts: tuple[int, ...],
    start_s: Floats,
    duration_s: Floats,
    types: tuple[int, ...],
    positions: Callable[[list[int]], Ints],
) -> WorkerOrder:
    """Order of the computes and of transfers of some types; without such types, of nothing.

    counts              : ops of each type.
    start_s, duration_s : float64, shape (op, row), ops by (type, start). [s]
    positions           : gives, of some ops, where they stand in the log; int, shape (op, row).
    """
    first = tuple(accumulate(counts, initial=0))
    chosen = [op for each in (*ot.COMPUTE, *types) for op in range(first[each], first[each + 1])]
    if not types or not chosen:
        nothing = np.empty((0, 1), dtype=np.int64)
        return WorkerOrder(nothing, nothing.astype(bool))
    ops = np.array(chosen)
    starts_s = start_s[ops]
    ends_s = starts_s + duration_s[ops]
    # What takes no time comes before what starts with it.
    order = np.lexsort((positions(chosen), ends_s, starts_s), axis=0)
    ordered = ops[order]
    starts_s, ends_s = (np.take_along_axis(times_s, order, axis=0) for times_s in (starts_s, ends_s))
    is_transfer = ordered >= first[ot.TRANSFERS[0]]
    is_joined = np.zeros(ordered.shape, dtype=bool)
    is_joined[1:] = is_transfer[1:] & is_transfer[:-1]
    for times_s in (starts_s, ends_s):
        is_joined[1:] &= np.diff(times_s, axis=0) <= SAME_S
    share = is_joined.mean(axis=1, keepdims=True)
    is_joined = (is_joined | (share >= SAME_ROWS)) & (share > 1.0 - SAME_ROWS)
    return WorkerOrder(common(ordered), common(is_joined))
