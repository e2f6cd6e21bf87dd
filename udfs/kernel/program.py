"""What one stage does in one step: how many ops of each type, and in which order.

Two recordings with equal programs have the same dependency graph, whatever their times are.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel import op_type as ot

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

NO_OP_TOLERANCE_S: Final = 50e-6
"""A transfer is a recorded no-op only if it misses its computes by more than this [s]: clock rounding."""

Order = tuple[int, ...]


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

    def ops_of(self, op_type: int) -> range:
        """Numbers of the ops of one type, in start order."""
        first = sum(self.counts[:op_type])
        return range(first, first + self.counts[op_type])

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
    returns             : bool, shape (op, lane).
    """
    first_op = np.concatenate([[0], np.cumsum(counts)])
    flags = np.zeros(start_s.shape, dtype=bool)
    directions = (
        (ot.FORWARD_COMPUTE, ot.FORWARD_SEND, ot.FORWARD_RECV),
        (ot.BACKWARD_COMPUTE, ot.BACKWARD_SEND, ot.BACKWARD_RECV),
    )
    for compute, send, recv in directions:
        computes = slice(first_op[compute], first_op[compute + 1])
        if computes.start == computes.stop:
            continue
        sends = slice(first_op[send], first_op[send + 1])
        recvs = slice(first_op[recv], first_op[recv + 1])
        last_start_s = start_s[computes.stop - 1]
        flags[recvs] = start_s[recvs] > last_start_s + NO_OP_TOLERANCE_S
        first_end_s = start_s[computes.start] + duration_s[computes.start]
        flags[sends] = start_s[sends] + duration_s[sends] < first_end_s - NO_OP_TOLERANCE_S
    return flags
