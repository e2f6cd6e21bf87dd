"""First computes before which the parameters of all model chunks are gathered.

In the what-if model a compute waits for its own chunk's gather alone (model, section 2), so that the time of
the others would look like a late start.
"""

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats
from udfs.kernel.graph.build_graph import reordered
from udfs.kernel.graph.graph import OpGraph, once_per_graph


@once_per_graph
def last_gathers(graph: OpGraph) -> dict[int, int]:
    """Last gather of a worker, by its first forward-compute and data-load where these wait for another."""
    found: dict[int, int] = {}
    for by_type in graph.ops_by_type:
        gathers = by_type[ot.PARAMS_ALL_GATHER]
        for op in (*by_type[ot.FORWARD_COMPUTE][:1], *by_type[ot.DATA_LOAD][:1]):
            awaited = [source for source in graph.waits_for[op] if source in gathers]
            if awaited and gathers[-1] not in awaited:
                found[op] = gathers[-1]
    return found


def since_gathers(graph: OpGraph, start_s: Floats, end_s: Floats) -> Floats:
    """Time from the end of each of `last_gathers` to the start of its op, shape (op, step, dp). [s]

    start_s, end_s : float64, shape (op, step, dp); recorded. [s]
    """
    last = last_gathers(graph)
    return start_s[list(last)] - end_s[list(last.values())]


@once_per_graph
def waiting_for_gathers(graph: OpGraph) -> OpGraph | None:
    """Return the graph in which these ops wait for these gathers; None if that would make a cycle."""
    last = last_gathers(graph)
    waits_for = list(graph.waits_for)
    for op, gather in last.items():
        waits_for[op] += (gather,)
    return reordered(graph, waits_for) if last else graph
