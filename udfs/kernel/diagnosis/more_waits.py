"""Add waits to the graph: waits that the what-if model leaves out (model, section 2).

Transfers that a worker issues as one call start together and return together, so that their recorded duration
is that of the slowest member. In the model each member waits for its own peer only, and a late peer of one
member would look like slow transfers of all others.

In some jobs, first computes wait until the parameters of all model chunks are gathered. In the model they
wait for the gather of their own chunk only, and the time of the other gathers would look like a launch delay.
"""

from collections.abc import Iterable
from itertools import chain, pairwise
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Mask
from udfs.kernel.graph.build_graph import reordered
from udfs.kernel.graph.graph import OpGraph, once_per_graph
from udfs.kernel.recorded.worker_order import SAME_S

SAME_LANES: Final = 0.95
"""Share of steps and dp ranks in which ops of one call must coincide."""


class Calls(NamedTuple):
    """Groups of transfers, each of which was issued in one call.

    members  : ops of each call.
    is_free  : op -> bool, shape (step, dp): whether another member of the call returned last, so that the
               op's recorded duration is only an upper bound for its own transfer.
    """

    members: tuple[tuple[int, ...], ...]
    is_free: dict[int, Mask]


def find_calls(graph: OpGraph, start_s: Floats, end_s: Floats, transfer_s: Floats) -> Calls:
    """Group a worker's transfers into calls: those that start and end together in SAME_LANES of the lanes.

    start_s, end_s, transfer_s : float64, shape (op, step, dp). [s]
    """
    first_s = start_s[:, 0, 0].tolist()
    pairs: list[tuple[int, int]] = []
    for by_type in graph.ops_by_type:
        ops = chain.from_iterable(by_type[each] for each in ot.TRANSFERS)
        in_order = sorted(ops, key=first_s.__getitem__)
        # The first step of one dp rank already excludes most pairs, because most transfers are issued alone.
        pairs += [(a, b) for a, b in pairwise(in_order) if first_s[b] - first_s[a] <= SAME_S]
    calls: list[list[int]] = []
    if pairs:
        ones, others = np.array(pairs).T
        together = np.abs(start_s[ones] - start_s[others]) <= SAME_S
        together &= np.abs(end_s[ones] - end_s[others]) <= SAME_S
        joins = np.count_nonzero(together, axis=(1, 2)) >= SAME_LANES * together[0].size
        for one, other in np.array(pairs)[joins].tolist():
            if calls and calls[-1][-1] == one:
                calls[-1].append(other)
            else:
                calls.append([one, other])
    is_free: dict[int, Mask] = {}
    for size in {len(call) for call in calls}:
        members = np.array([call for call in calls if len(call) == size])
        ready_s = end_s[members] - transfer_s[members]
        is_early = ready_s < ready_s.max(axis=1, keepdims=True) - SAME_S
        is_free |= zip(members.ravel().tolist(), is_early.reshape(-1, *is_early.shape[2:]), strict=True)
    return Calls(tuple(tuple(call) for call in calls), is_free)


def call_graph(graph: OpGraph, calls: Calls) -> OpGraph:
    """Return a graph in which the ops of a call wait for the same ops, and are only waited for together.

    The graph is returned unchanged if these waits would form a cycle.
    """
    return (_call_graph(graph, calls.members) if calls.members else None) or graph


@once_per_graph
def _call_graph(graph: OpGraph, calls: tuple[tuple[int, ...], ...]) -> OpGraph | None:
    """Return the graph with these calls, each given by its ops; None if they would form a cycle."""
    call_of = {op: call for call in calls for op in call}
    is_alone = call_of.keys().isdisjoint

    def whole(sources: Iterable[int]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(chain.from_iterable(call_of.get(op, (op,)) for op in sources)))

    waits_for = [sources if is_alone(sources) else whole(sources) for sources in graph.waits_for]
    for call in calls:
        joined = whole(chain.from_iterable(graph.waits_for[op] for op in call))
        awaited = tuple(source for source in joined if source not in call)
        for op in call:
            waits_for[op] = awaited
    return reordered(graph, waits_for)


@once_per_graph
def last_gathers(graph: OpGraph) -> dict[int, int]:
    """Return {op: the worker's last gather} for first computes and loads that wait for an earlier gather."""
    found: dict[int, int] = {}
    for by_type in graph.ops_by_type:
        gathers = by_type[ot.PARAMS_ALL_GATHER]
        for op in (*by_type[ot.FORWARD_COMPUTE][:1], *by_type[ot.DATA_LOAD][:1]):
            awaited = [source for source in graph.waits_for[op] if source in gathers]
            if awaited and gathers[-1] not in awaited:
                found[op] = gathers[-1]
    return found


@once_per_graph
def waiting_for_gathers(graph: OpGraph) -> OpGraph | None:
    """Return a graph in which the ops in `last_gathers` wait for these gathers; None if it has a cycle."""
    last = last_gathers(graph)
    waits_for = list(graph.waits_for)
    for op, gather in last.items():
        waits_for[op] += (gather,)
    return reordered(graph, waits_for) if last else graph
