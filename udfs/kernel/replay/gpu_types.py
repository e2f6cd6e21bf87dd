"""Cost of each GPU type: its mean computes, and step time with only its ops as recorded."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.graph.graph import OpGraph
from udfs.kernel.replay.masked import op_dp_ranks, op_stages, replay_masks

BlockTimes = tuple[OpGraph, Floats, Floats]
"""Graph, durations, shape (op, step, dp), transfers in a rendezvous, and ideals, shape (op,). [s]"""


class TypeTimes(NamedTuple):
    """Times by GPU type; float64. [s]

    types     : int, shape (type,), ascending; the first is -1 if some workers' type is unknown.
    compute_s : shape (type, direction); mean compute, nan without any.
    alone_s   : shape (type,); mean step time with the ops of the type's workers as recorded, all else ideal.
    """

    types: Ints
    compute_s: Floats
    alone_s: Floats


def type_times(blocks: Iterable[BlockTimes], dp_size: int, worker_type: Ints) -> TypeTimes:
    """Replay a job once per GPU type, with only that type's ops as recorded.

    worker_type : int, shape (stage, dp_rank), -1 where unknown.
    """
    types = np.unique(worker_type)
    total_s, count = np.zeros((2, len(types), 2))
    alone_s, steps = np.zeros(len(types)), 0
    for graph, duration_s, ideal_of_op in blocks:
        of_op = worker_type[op_stages(graph), op_dp_ranks(graph, dp_size)]
        alone_s += replay_masks(graph, duration_s, ideal_of_op, of_op == types[:, None, None]).sum(axis=1)
        steps += duration_s.shape[1]
        op_types = np.array(graph.op_types)
        for direction, op_type in enumerate(ot.COMPUTE):
            ops = np.flatnonzero(op_types == op_type)
            place = np.searchsorted(types, of_op[ops]).ravel()
            total_s[:, direction] += np.bincount(place, duration_s[ops].sum(axis=1).ravel(), len(types))
            count[:, direction] += np.bincount(place, minlength=len(types)) * duration_s.shape[1]
    compute_s = np.divide(total_s, count, out=np.full(total_s.shape, np.nan), where=count > 0.0)
    return TypeTimes(types, compute_s, alone_s / steps)
