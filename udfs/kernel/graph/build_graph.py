"""Build the dependency graph of one step from the programs of all stages, in topological order."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from udfs.kernel.graph.edges import Draft, add_edges, collectives, transfer_pairs
from udfs.kernel.graph.graph import Cell, Layout, OpGraph, ReplayNode, TraceDefectError, op_ref

Group: TypeAlias = tuple[tuple[int, ...], bool]
"""Ops that start together, and whether they do so on all dp lanes."""


def build_graph(cells: tuple[Cell, ...], layout: Layout) -> OpGraph:
    """Build the dependency graph of one step.

    cells   : one per stage (replicas as lanes) or one per (stage, dp_rank), sorted.
    raises  : TraceDefectError for a transfer without its counterpart and for a cycle.
    """
    draft = Draft(layout, cells)
    add_edges(draft)
    waits_for = [tuple(ops) if len(ops) < 2 else tuple(dict.fromkeys(ops)) for ops in draft.waits_for()]
    meetings = transfer_pairs(draft) + collectives(draft)
    groups: list[Group] = []
    sent_by: dict[int, int] = {}
    eager = layout.blocking.eager if layout.blocking is not None else ()
    for members, across_dp in meetings:
        if eager and op_ref(cells, draft.first_op, members[0][0]).op_type in eager:
            sent_by |= zip(members[1], members[0], strict=True)
        else:
            groups += [(ops, across_dp) for ops in zip(*members, strict=True)]
    met = {op for ops, _ in groups for op in ops}
    groups += [((op,), False) for op in range(draft.first_op[-1]) if op not in met]
    nodes, slots = _in_order(cells, draft.first_op, waits_for, groups, sent_by)
    return OpGraph(
        cells=cells,
        first_op=draft.first_op,
        op_types=tuple(t for cell in cells for t, n in enumerate(cell.program.counts) for _ in range(n)),
        stages=tuple(cell.stage for cell in cells for _ in range(cell.program.size)),
        waits_for=tuple(waits_for),
        waits=tuple(draft.waits),
        nodes=nodes,
        slots=slots,
        meetings=tuple(meetings),
        sent_by=sent_by,
    )


def reordered(graph: OpGraph, waits_for: list[tuple[int, ...]]) -> OpGraph | None:
    """Return the graph with other dependencies, in a topological order; None if these form a cycle."""
    groups: list[Group] = [(ops, across_dp) for ops, across_dp, *_ in graph.nodes]
    try:
        nodes, slots = _in_order(graph.cells, graph.first_op, waits_for, groups, graph.sent_by)
    except TraceDefectError:
        return None
    waits = [(source, op) for op, sources in enumerate(waits_for) for source in sources]
    sources, ops = ([pair[end] for pair in waits] for end in (0, 1))
    return replace(graph, waits_for=tuple(waits_for), waits=((sources, ops),), nodes=nodes, slots=slots)


def _in_order(
    cells: tuple[Cell, ...],
    first_op: tuple[int, ...],
    waits_for: list[tuple[int, ...]],
    groups: list[Group],
    sent_by: Mapping[int, int],
) -> tuple[tuple[ReplayNode, ...], int]:
    """Sort nodes topologically, each as late as possible, and count the slots that their ends need.

    The recv of an eager send also waits for the ops for which the send waits, because it needs the send's
    start. The search is depth first from the last ops, so that a scenario that differs from the ideal only in
    late ops shares all earlier nodes with the ideal.

    raises : TraceDefectError with the ops of a cycle.
    """
    node_of = [0] * len(waits_for)
    sources: list[tuple[int, ...]] = []
    for number, (ops, _) in enumerate(groups):
        waits = waits_for[ops[0]]
        node_of[ops[0]] = number
        for op in ops[1:]:
            node_of[op] = number
            waits += waits_for[op]
        if ops[0] in sent_by:
            waits += waits_for[sent_by[ops[0]]]
        is_plain = len(ops) == 1 and ops[0] not in sent_by
        sources.append(waits if is_plain else tuple(dict.fromkeys(waits)))
    is_awaited = bytearray(len(groups))
    for waits in sources:
        for source in waits:
            is_awaited[node_of[source]] = 1
    # Nodes that nothing waits for first; nodes not reached from them form a cycle.
    order: list[int] = []
    state = bytearray(len(groups))
    for root in sorted(range(len(groups)), key=is_awaited.__getitem__):
        if not state[root]:
            cycle = _visit(root, sources, node_of, state, order)
            if cycle:
                refs = [op_ref(cells, first_op, groups[i][0][0]) for i in cycle]
                raise TraceDefectError(f"{len(refs)} ops wait for each other in a circle", refs)
    return _nodes(groups, sources, order, len(waits_for))


def _visit(
    root: int, sources: list[tuple[int, ...]], node_of: list[int], state: bytearray, order: list[int]
) -> list[int]:
    """Append to `order` all nodes that `root` waits for and then `root`, depth first; return any cycle.

    state : per node 0 (not seen), 1 (under way) or 2 (in the order).
    """
    path = [root]
    rest = [iter(sources[root])]
    state[root] = 1
    while path:
        for source in rest[-1]:
            number = node_of[source]
            if not state[number]:
                state[number] = 1
                path.append(number)
                rest.append(iter(sources[number]))
                break
            if state[number] == 1:
                return path[path.index(number) :][::-1]
        else:
            rest.pop()
            done = path.pop()
            state[done] = 2
            order.append(done)
    return []


def _nodes(
    groups: list[Group], sources: list[tuple[int, ...]], order: list[int], size: int
) -> tuple[tuple[ReplayNode, ...], int]:
    """Return the replay nodes with their sources and end slots, and the number of slots."""
    is_done = bytearray(size)
    releases: list[list[int]] = []
    for number in reversed(order):
        last_used = []
        for op in sources[number] + groups[number][0]:
            if not is_done[op]:
                is_done[op] = 1
                last_used.append(op)
        releases.append(last_used)
    nodes: list[ReplayNode] = []
    slot_of, free, slots = [0] * size, list[int](), 0
    for number in order:
        (ops, across_dp), waits = groups[number], sources[number]
        for op in ops:
            if not free:
                free.append(slots)
                slots += 1
            slot_of[op] = free.pop()
        source_slots, op_slots = (
            tuple([slot_of[op] for op in waits]),
            tuple([(op, slot_of[op]) for op in ops]),
        )
        nodes.append((ops, across_dp, waits, source_slots, op_slots))
        free += [slot_of[op] for op in releases.pop()]
    return tuple(nodes), slots
