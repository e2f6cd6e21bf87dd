"""Idle time before computes which a replay leaves out, so that the replay is shorter than the step.

A replay starts each op when the ops for which it waits have ended. A pause between two ops, such as a garbage
collection, is part of no op and therefore of no replay: only the recorded starts show it.
"""

from collections.abc import Callable
from itertools import chain, islice
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats
from udfs.kernel.graph.graph import Layout, OpGraph

LEAST_LONGER: Final = 0.02
"""Gaps are sought if the mean step takes longer than its replay by this share of the mean T_actual, and in
the steps that do."""


class Gap(NamedTuple):
    """The worker whose pauses before computes explain most of the time that replays leave out.

    stage, dp_rank : worker whose pauses are longest in total.
    op_type        : most frequent op type of the compute that follows its longest pause of a step.
    gap_s          : time in which no op runs before this compute, mean over `steps`. [s]
    steps          : number of steps in which the worker's pause explains the longer step.
    others         : number of other workers whose pauses explain at least one longer step.
    """

    stage: int
    dp_rank: int
    op_type: int
    gap_s: float
    steps: int
    others: int


def longest_gaps(graph: OpGraph, start_s: Floats, end_s: Floats, layout: Layout) -> Floats:
    """Return for each worker and step the longest time for which a compute could begin but did not.

    A stage's first forward-compute is left out, because replays keep its wait as a launch delay.

    start_s, end_s : float64, shape (op, step, dp_rank). [s]
    returns        : float64, shape (2, stage, step, dp_rank): the time [s], and the compute's op type.
    """
    found = np.zeros((2, layout.pp_size, start_s.shape[1], layout.dp_size))
    for cell, by_type in zip(graph.cells, graph.ops_by_type, strict=True):
        computes = chain.from_iterable(by_type[each] for each in ot.COMPUTE)
        late = [op for op in islice(computes, 1, None) if graph.waits_for[op]]
        if not late:
            continue
        gaps_s = np.array([start_s[op] - end_s[list(graph.waits_for[op])].max(axis=0) for op in late])
        found[0, cell.stage][:, cell.dp_ranks] = gaps_s.max(axis=0)
        found[1, cell.stage][:, cell.dp_ranks] = np.array(graph.op_types)[late][gaps_s.argmax(axis=0)]
    return found


def gap_of(read_gaps: Callable[[], Floats], actual_s: Floats, replayed_s: Floats) -> Gap | None:
    """Find the worker whose pauses make steps longer than their replay; None if pauses do not explain it.

    read_gaps            : returns the gaps of all steps, as `longest_gaps`; few units need this call.
    actual_s, replayed_s : shape (step,); recorded and replayed step times. [s]
    """
    longer_s, least_s = actual_s - replayed_s, LEAST_LONGER * actual_s.mean()
    if longer_s.mean() < least_s:
        return None
    gaps = read_gaps()
    # Half of the time suffices, because the worker may have waited during a part of its pause anyway.
    explains = (gaps[0] >= longer_s[:, None] / 2) & (longer_s >= least_s)[:, None]
    of_worker_s = np.where(explains, gaps[0], 0.0).sum(axis=1)
    if not explains.any():
        return None
    stage, dp_rank = (int(at) for at in np.unravel_index(of_worker_s.argmax(), of_worker_s.shape))
    own = explains[stage, :, dp_rank]
    op_type = int(np.bincount(gaps[1, stage, own, dp_rank].astype(np.int64)).argmax())
    steps, others = int(own.sum()), int(explains.any(axis=1).sum()) - 1
    return Gap(stage, dp_rank, op_type, float(of_worker_s[stage, dp_rank]) / steps, steps, others)
