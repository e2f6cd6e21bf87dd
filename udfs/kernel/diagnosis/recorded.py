"""What the diagnosis needs of a block's recorded times, before they are let go."""

from itertools import pairwise
from typing import Final

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.diagnosis.calls import Calls, call_graph, find_calls
from udfs.kernel.diagnosis.compute_times import BlockTimes, KeptDelays
from udfs.kernel.durations import CLAMP_S
from udfs.kernel.graph import Layout, OpGraph, as_index
from udfs.kernel.program import Floats
from udfs.kernel.selection import medians_along, medians_of_rows
from udfs.kernel.trace import StepBlock

NAN: Final = float("nan")


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
        skew_s=_skew_s(graph, end_s, calls),
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


def _skew_s(graph: OpGraph, end_s: Floats, calls: Calls) -> Floats:
    """How far clocks are apart in each step: ends of ops that return together; nan without such. [s]

    Of a send and its recv where they are not part of larger calls, of stages that meet, and of the dp ranks
    of a collective; shape (step,).
    """
    steps = end_s.shape[1]
    pairs, replicas = [np.full(steps, NAN)], [np.full(steps, NAN)]
    across = [op for members, across_dp in graph.meetings if across_dp for ops in members for op in ops]
    if across and end_s.shape[-1] > 1:
        replicas.append(medians_along(np.abs(np.diff(end_s[across])), 2).min(axis=0))
    for members, _ in graph.meetings:
        is_transfer = graph.op_types[members[0][0]] in ot.TRANSFERS
        if not (is_transfer and calls.members):
            ends_s = [end_s[as_index(ops)] for ops in members]
            apart_s = [np.abs(end - other).swapaxes(0, 1) for end, other in pairwise(ends_s)]
            pairs += [medians_of_rows(apart.reshape(steps, -1)) for apart in apart_s]
    # A long collective ends when its own noise lets it, so that the shortest tells most of the clocks.
    shortest: Floats = np.fmin.reduce(replicas)
    return np.asarray(np.fmax(np.fmax.reduce(pairs), shortest))
