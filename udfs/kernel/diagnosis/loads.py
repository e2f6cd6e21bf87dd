"""Loads of data that take longer than their ideal."""

from typing import NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.diagnosis.block_times import BlockTimes


class SlowLoads(NamedTuple):
    """Data-loads of one block.

    ops     : int, shape (op,).
    as_is_s : float64, shape (op, step, dp); as they ran. [s]
    usual_s : the same, none longer than its ideal. [s]
    """

    ops: Ints
    as_is_s: Floats
    usual_s: Floats


def slow_loads(block: BlockTimes, ideal_s: Floats) -> SlowLoads:
    """Loads of a block beside what is left of them without the time beyond their ideal.

    ideal_s : float64, shape (stage,); ideal of a load, nan where none was recorded. [s]
    """
    graph = block.graph
    ops = np.flatnonzero(np.array(graph.op_types) == ot.DATA_LOAD)
    as_is_s = block.duration_s[ops]
    of_op_s = ideal_s[np.array(graph.stages)[ops]]
    return SlowLoads(ops, as_is_s, np.minimum(as_is_s, of_op_s[:, None, None]))
