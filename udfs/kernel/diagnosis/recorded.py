"""What the diagnosis needs of a block's recorded times, before they are let go."""

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats
from udfs.kernel.diagnosis.calls import call_graph, find_calls
from udfs.kernel.diagnosis.compute_times import BlockTimes, KeptDelays
from udfs.kernel.graph.graph import Layout, OpGraph
from udfs.kernel.recorded.durations import CLAMP_S
from udfs.kernel.recorded.trace import StepBlock


def block_times(block: StepBlock, end_s: Floats, layout: Layout) -> BlockTimes:
    """A block as the diagnosis replays it.

    block : its durations are transfers already.
    end_s : float64, shape (op, step, dp); recorded. [s]
    """
    graph = block.graph
    calls = find_calls(graph, block.start_s, end_s, block.duration_s)
    return BlockTimes(
        graph=call_graph(graph, calls),
        duration_s=block.duration_s,
        microbatch=block.microbatch,
        calls=calls,
        delays=_kept_delays(graph, block.start_s, end_s, layout),
    )


def _kept_delays(graph: OpGraph, start_s: Floats, end_s: Floats, layout: Layout) -> KeptDelays:
    """Delays of each stage's first forward-compute, and of gathers of parameters that wait for nothing.

    Not of others: recorded delays of transfers and of what follows them are mostly waiting.
    """
    ops = []
    for cell, base in zip(graph.cells, graph.first_op, strict=False):
        firsts = cell.program.first_ops
        if firsts[ot.FORWARD_COMPUTE + 1] > firsts[ot.FORWARD_COMPUTE]:
            ops.append(base)
        if layout.has_data_parallelism:
            gathers = range(base + firsts[ot.PARAMS_ALL_GATHER], base + firsts[ot.PARAMS_ALL_GATHER + 1])
            ops += [op for op in gathers if not graph.waits_for[op]]
    step_start_s = start_s.min(axis=0).min(axis=-1)[:, None]
    delays = []
    for op in ops:
        sources = graph.waits_for[op]
        ready_s = np.max([end_s[source] for source in sources], axis=0) if sources else step_start_s
        delay_s = start_s[op] - ready_s
        delays.append(np.where(delay_s <= CLAMP_S, 0.0, delay_s))
    return KeptDelays(np.array(ops, dtype=np.int64), np.array(delays).reshape(-1, *start_s.shape[1:]))
