"""Prepare blocks of steps for the diagnosis: durations, delays, late entries and calls of their ops."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Int32s, Ints, Mask, latest
from udfs.kernel.diagnosis.more_waits import (
    Calls,
    call_graph,
    find_calls,
    last_gathers,
    waiting_for_gathers,
)
from udfs.kernel.graph.graph import Layout, OpGraph, as_index, once_per_graph
from udfs.kernel.recorded.durations import CLAMP_S, NO_OP_TOLERANCE_S
from udfs.kernel.recorded.trace import StepBlock

Tensor = Floats
"""Float64, shape (stage, direction, chunk, microbatch, step, dp_rank); steps in the order of time."""


class KeptDelays(NamedTuple):
    """Launch delays of some ops: the time by which an op starts after all ops that it waits for have ended.

    ops     : int, shape (op,).
    delay_s : float64, shape (op, step, dp). [s]
    """

    ops: Ints
    delay_s: Floats


class BlockTimes(NamedTuple):
    """A block of steps with one graph, and the durations and delays with which the diagnosis replays it.

    duration_s : float64, shape (op, step, dp); of an op in a rendezvous, the transfer time. [s]
    microbatch : for each cell int32, shape (compute op, step, dp), or (compute op, 1, 1) if all rows agree.
    calls      : transfers that were issued as one call; the waits of `graph` take them into account.
    delays     : launch delays that replays keep (diagnosis, section 2.14).
    steps      : int, shape (step,); positions among the job's steps, in the order of time.
    is_cut     : op -> bool, shape (step, dp), for sends and recvs with a peer: whether the recv was posted so
                 late that the true transfer time may exceed the recorded one.
    entries    : how late workers began collectives, and the ops that follow these.
    since_gathers_s : float64, shape (op, step, dp); time from the end of each gather in `last_gathers` to the
                 start of its op. [s]
    """

    graph: OpGraph
    duration_s: Floats
    microbatch: tuple[Int32s, ...]
    calls: Calls
    delays: KeptDelays
    steps: Ints
    is_cut: dict[int, Mask]
    entries: KeptDelays
    since_gathers_s: Floats

    @property
    def entry_types(self) -> Ints:
        """Op type of each op that enters a collective or follows the computes, and has a delay; (op,)."""
        return self.types_of(self.entries.ops)

    def types_of(self, ops: Ints) -> Ints:
        """Return the types of the given ops, shape (op,)."""
        return np.array([self.graph.op_types[op] for op in ops.tolist()], dtype=np.int64)

    @property
    def number_of_steps(self) -> int:
        """Number of steps in this block."""
        return len(self.duration_s[0])


def block_times(block: StepBlock, end_s: Floats, began_s: Floats, layout: Layout) -> BlockTimes:
    """Prepare a block for the diagnosis: group transfers into calls, and find delays and late entries.

    block   : durations of ops in a rendezvous must be transfer times.
    end_s   : float64, shape (op, step, dp); recorded ends. [s]
    began_s : float64, shape (step,); earliest recorded start. [s]
    """
    graph = block.graph
    calls = find_calls(graph, block.start_s, end_s, block.duration_s)
    # If a send waits for its recv, data move after both have started, and the transfer is recorded whole.
    waited = () if layout.blocking is None else set(layout.blocking.types) - set(layout.blocking.eager)
    is_cut: dict[int, Mask] = {}
    for members, _ in graph.meetings:
        op_type = graph.op_types[members[0][0]]
        if op_type in ot.TRANSFERS:
            sends, recvs = (as_index(ops) for ops in members)
            late_s = -np.inf if op_type in waited else block.start_s[recvs] - block.start_s[sends]
            for ops, at in zip(members, (sends, recvs), strict=True):
                is_cut |= zip(ops, late_s > block.duration_s[at], strict=True)
    last = last_gathers(graph)
    return BlockTimes(
        graph=call_graph(graph, calls),
        duration_s=block.duration_s,
        microbatch=block.microbatch,
        calls=calls,
        delays=_kept_delays(graph, block.start_s, end_s, began_s, layout),
        steps=block.steps,
        is_cut=is_cut,
        entries=_entries(graph, block.start_s, end_s, layout),
        since_gathers_s=block.start_s[list(last)] - end_s[list(last.values())],
    )


def with_gathers_first(blocks: Sequence[BlockTimes]) -> Sequence[BlockTimes]:
    """Make each first compute wait for all gathers, unless some first compute began before they ended.

    If one worker begins its first compute before its last gather ends, the job computes while later chunks
    are gathered, and the blocks are returned unchanged.
    """
    if any((block.since_gathers_s < -NO_OP_TOLERANCE_S).any() for block in blocks):
        return blocks
    found: list[BlockTimes] = []
    for block in blocks:
        graph = waiting_for_gathers(block.graph)
        if graph is None:
            return blocks
        since_s = dict(zip(last_gathers(block.graph), block.since_gathers_s, strict=True))
        delay_s = block.delays.delay_s.copy()
        for place, op in enumerate(block.delays.ops.tolist()):
            np.minimum(delay_s[place], since_s.get(op, np.inf), out=delay_s[place])
        found.append(block._replace(graph=graph, delays=block.delays._replace(delay_s=delay_s)))
    return found


def _kept_delays(
    graph: OpGraph, start_s: Floats, end_s: Floats, began_s: Floats, layout: Layout
) -> KeptDelays:
    """Return the delays that replays keep: of first computes and loads, and of gathers that wait for no op.

    These are the delays of first forward-computes and of first data-loads. Parameter all-gathers, and recvs
    without a peer before a first forward-compute, are included if they wait for no op. Delays of other ops
    are mostly waiting for other workers.
    """
    met = _met(graph)
    ops = []
    for by_type in graph.ops_by_type:
        for first in by_type[ot.FORWARD_COMPUTE][:1]:
            recvs = [op for op in graph.waits_for[first] if graph.op_types[op] == ot.FORWARD_RECV]
            ops += [first, *(op for op in recvs if op not in met and not graph.waits_for[op])]
        ops += by_type[ot.DATA_LOAD][:1]
        if layout.has_data_parallelism:
            ops += [op for op in by_type[ot.PARAMS_ALL_GATHER] if not graph.waits_for[op]]
    delays = []
    for op in ops:
        sources = graph.waits_for[op]
        ready_s = latest(end_s, sources) if sources else began_s[:, None]
        delay_s = start_s[op] - ready_s
        delays.append(np.where(delay_s <= CLAMP_S, 0.0, delay_s))
    return KeptDelays(np.array(ops, dtype=np.int64), np.array(delays).reshape(-1, *start_s.shape[1:]))


@once_per_graph
def _met(graph: OpGraph) -> frozenset[int]:
    """Return the ops that are in a rendezvous."""
    return frozenset(op for members, _ in graph.meetings for ops in members for op in ops)


def _entries(graph: OpGraph, start_s: Floats, end_s: Floats, layout: Layout) -> KeptDelays:
    """Return how long after its inputs each op starts that enters a collective, or follows one. [s]

    The worker's last transfers before the entry count as inputs too, because the worker waited for a peer
    until they ended. Computes before a parameter all-gather also count, because it was not prefetched.
    """
    ops = [op for op in _entered(graph, is_parallel=layout.has_data_parallelism) if graph.waits_for[op]]
    ready_s = np.array([latest(end_s, graph.waits_for[op]) for op in ops]).reshape(-1, *start_s.shape[1:])
    place = {op: at for at, op in enumerate(ops)}
    for others, behind in _may_be_before(graph):
        entered = [op for op in behind if op in place]
        if others and entered:
            at = [place[op] for op in entered]
            # Ends and starts are sorted together: comparing all pairs is too slow for FSDP's many gathers.
            order = np.argsort(np.concatenate([end_s[others], start_s[entered]]), axis=0, kind="stable")
            ends_s = np.concatenate([end_s[others], np.full_like(start_s[entered], -np.inf)])
            latest_s = np.maximum.accumulate(np.take_along_axis(ends_s, order, axis=0), axis=0)
            np.put_along_axis(ends_s, order, latest_s, axis=0)
            ready_s[at] = np.maximum(ready_s[at], ends_s[len(others) :])
    return KeptDelays(np.array(ops, dtype=np.int64), np.maximum(start_s[ops] - ready_s, 0.0))


@once_per_graph
def _may_be_before(graph: OpGraph) -> list[tuple[list[int], list[int]]]:
    """Return pairs of two lists of one worker's ops; ops of the second may wait for ops of the first."""
    found: list[tuple[list[int], list[int]]] = []
    for by_type in graph.ops_by_type:
        last = [by_type[each][-1] for each in ot.TRANSFERS if by_type[each]]
        computes = [op for each in ot.COMPUTE for op in by_type[each]]
        gathers = by_type[ot.PARAMS_ALL_GATHER]
        others = [op for ops in by_type if ops is not gathers for op in ops]
        found += [(last, others), ([*last, *computes], list(gathers))]
    return found


@once_per_graph
def _entered(graph: OpGraph, *, is_parallel: bool) -> list[int]:
    recorded = set(graph.op_types)
    if is_parallel and not recorded & {ot.GRADS_REDUCE_SCATTER, ot.SEPARATE_GRADS_ALL_REDUCE}:
        return []  # Ops after the computes wait for a gradient reduction that was not logged.
    entered = ot.ENTERED if ot.OPTIMIZER_CLIP_MAIN_GRAD in recorded else ot.ENTERED - {ot.OPTIMIZER}
    return [op for op, op_type in enumerate(graph.op_types) if op_type in entered]


def in_time(blocks: Sequence[BlockTimes], parts: Sequence[Floats], axis: int) -> Floats:
    """Join arrays of several blocks along the axis of steps, in order of time."""
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate([block.steps for block in blocks]))
    return np.concatenate(parts, axis=axis).take(order, axis=axis)
