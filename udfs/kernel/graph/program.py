"""What one stage does in one step: how many ops of each type, and in which order.

Two recordings with equal programs have the same dependency graph, whatever their times are.
"""

from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel import op_type as ot

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

NO_OP_TOLERANCE_S: Final = 50e-6
"""A transfer is a recorded no-op only if it misses its computes by more than this [s]: clock rounding."""

Order = tuple[int, ...]

DIRECTIONS: Final = (
    (ot.FORWARD_COMPUTE, ot.FORWARD_SEND, ot.FORWARD_RECV),
    (ot.BACKWARD_COMPUTE, ot.BACKWARD_SEND, ot.BACKWARD_RECV),
)
"""Compute, send and recv of each direction."""


class StageProgram(NamedTuple):
    """The recorded order of one stage's ops; ops are numbered by (type, start), from 0.

    counts        : ops of each type, one number per type.
    compute_order : the compute ops in the order of their starts.
    dp_order      : params-all-gather and grads-reduce-scatter in the order of their starts.
    chunks        : model chunk of each op that has one (compute and dp stream); -1 elsewhere.
    no_ops        : transfers that never moved data (model, section 2, no-op transfers, kind a).
    """

    counts: Order
    compute_order: Order
    dp_order: Order
    chunks: Order
    no_ops: Order

    @property
    def first_ops(self) -> tuple[int, ...]:
        """Number of the first op of each type, and behind them the number of all ops."""
        return tuple(accumulate(self.counts, initial=0))

    @property
    def size(self) -> int:
        """Number of ops."""
        return sum(self.counts)


def no_op_transfers(counts: Order, start_s: Floats, duration_s: Floats) -> npt.NDArray[np.bool_]:
    """Which transfers never moved data (model, section 2, kind a).

    A recv that starts after the last compute of its direction has started, or a send that ends before the
    first compute of its direction has ended.

    counts              : ops of each type.
    start_s, duration_s : float64, shape (op, lane), ops by (type, start). [s]
    returns             : bool, shape (op, lane), or (op, 1) where no lane has any.
    """
    first_op = tuple(accumulate(counts, initial=0))
    found = []
    for compute, send, recv in DIRECTIONS:
        first, end = first_op[compute], first_op[compute + 1]
        if first == end:
            continue
        latest_s = start_s[end - 1] + NO_OP_TOLERANCE_S
        earliest_s = start_s[first] + duration_s[first] - NO_OP_TOLERANCE_S
        # Ops stand in the order of their starts, so that the search ends with the first that did move data.
        for op in reversed(range(first_op[recv], first_op[recv + 1])):
            is_late = start_s[op] > latest_s
            if not is_late.any():
                break
            found.append((op, is_late))
        for op in range(first_op[send], first_op[send + 1]):
            if not (start_s[op] < earliest_s).any():
                break
            found.append((op, start_s[op] + duration_s[op] < earliest_s))
    if not any(flags.any() for _, flags in found):
        return np.zeros((len(start_s), 1), dtype=bool)
    no_ops = np.zeros(start_s.shape, dtype=bool)
    for op, flags in found:
        no_ops[op] = flags
    return no_ops
