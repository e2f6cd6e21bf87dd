"""Transfers that a worker issued as one call: they start together and return together.

The recorded length of such a transfer is the length of the call, which its slowest member sets. In the
what-if model each member waits for its own peer alone (model, section 2), so that a late peer of one member
would look like a slow transfer of the others.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel import op_type as ot
from udfs.kernel.build_graph import reordered
from udfs.kernel.errors import TraceDefectError
from udfs.kernel.graph import OpGraph
from udfs.kernel.program import Floats

SAME_S: Final = 1e-7
"""Times that differ by no more are the same: logs keep a tenth of a microsecond. [s]"""

SAME_LANES: Final = 0.95
"""Share of steps and dp ranks in which ops of one call must coincide."""


class Calls(NamedTuple):
    """Calls of several transfers.

    members  : ops of each call.
    is_free  : op -> bool, shape (step, dp): where another member returned last, so that the op's own transfer
               is not known, only that it took no longer.
    """

    members: tuple[tuple[int, ...], ...]
    is_free: dict[int, npt.NDArray[np.bool_]]


def find_calls(graph: OpGraph, start_s: Floats, end_s: Floats, transfer_s: Floats) -> Calls:
    """Transfers of one worker that start and end together in nearly all steps and dp ranks.

    start_s, end_s, transfer_s : float64, shape (op, step, dp). [s]
    """
    members: list[tuple[int, ...]] = []
    for cell, base in zip(graph.cells, graph.first_op, strict=False):
        firsts = cell.program.first_ops
        ops = range(base + firsts[ot.TRANSFERS[0]], base + firsts[ot.TRANSFERS[-1] + 1])
        members += _calls_among(ops, start_s, end_s)
    is_free: dict[int, npt.NDArray[np.bool_]] = {}
    for call in members:
        ready_s = [end_s[op] - transfer_s[op] for op in call]
        latest_s = np.maximum.reduce(ready_s) - SAME_S
        is_free |= {op: own_s < latest_s for op, own_s in zip(call, ready_s, strict=True)}
    return Calls(tuple(members), is_free)


def _calls_among(ops: range, start_s: Floats, end_s: Floats) -> list[tuple[int, ...]]:
    """Calls of several ops, of one worker's transfers."""
    first_s = start_s[ops.start : ops.stop, 0, 0]
    order = np.argsort(first_s, kind="stable")
    # Most transfers are issued alone, which one step of one dp rank tells.
    may_join = [False, *(np.diff(first_s[order]) <= SAME_S).tolist()]
    calls: list[list[int]] = []
    for op, joins in zip((order + ops.start).tolist(), may_join, strict=False):
        if joins and _coincide(calls[-1][-1], op, start_s, end_s):
            calls[-1].append(op)
        else:
            calls.append([op])
    return [tuple(call) for call in calls if len(call) > 1]


def _coincide(one: int, other: int, start_s: Floats, end_s: Floats) -> bool:
    together = np.abs(start_s[one] - start_s[other]) <= SAME_S
    together &= np.abs(end_s[one] - end_s[other]) <= SAME_S
    return bool(np.count_nonzero(together) >= SAME_LANES * together.size)


def call_graph(graph: OpGraph, calls: Calls) -> OpGraph:
    """The graph in which members of a call start together and whoever waits for one waits for all.

    The graph itself where that would be a circle.
    """
    if not calls.members:
        return graph
    call_of = {op: call for call in calls.members for op in call}
    is_alone = call_of.keys().isdisjoint
    waits_for = []
    for op, sources in enumerate(graph.waits_for):
        if op not in call_of and is_alone(sources):
            waits_for.append(sources)
            continue
        own = call_of.get(op, (op,))
        joined = [source for member in own for source in graph.waits_for[member] if source not in own]
        waits_for.append(
            tuple(dict.fromkeys(other for source in joined for other in call_of.get(source, (source,))))
        )
    try:
        return reordered(graph, waits_for)
    except TraceDefectError:
        return graph
