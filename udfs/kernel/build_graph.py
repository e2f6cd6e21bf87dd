"""From the programs of all stages to the dependency graph of one step, in an order in which it can run."""

from collections import deque

from udfs.kernel.errors import TraceDefectError
from udfs.kernel.graph import Cell, Layout, OpGraph, Unit, op_ref, op_types_of
from udfs.kernel.graph_edges import Draft, add_edges
from udfs.kernel.graph_groups import Group, collectives, transfer_pairs


def build_graph(cells: tuple[Cell, ...], layout: Layout) -> OpGraph:
    """Dependency graph of one step.

    cells   : one per stage (replicas as lanes) or one per (stage, dp_rank), sorted.
    raises  : TraceDefectError for a transfer without its counterpart and for a cycle.
    """
    draft = Draft(layout, cells)
    add_edges(draft)
    groups = transfer_pairs(draft) + collectives(draft)
    size = draft.first_op[-1]
    in_rendezvous = [False] * size
    for ops, _ in groups:
        for op in ops:
            in_rendezvous[op] = True
    groups += [((op,), False) for op, meets in enumerate(in_rendezvous) if not meets]
    return OpGraph(
        cells=cells,
        first_op=draft.first_op,
        op_types=op_types_of(cells),
        stages=tuple(cell.stage for cell in cells for _ in range(cell.program.size)),
        waits_for=tuple(
            tuple(ops) if len(ops) < 2 else tuple(dict.fromkeys(ops)) for ops in draft.waits_for
        ),
        units=_in_order(draft, groups),
        in_rendezvous=tuple(in_rendezvous),
    )


def _in_order(draft: Draft, groups: list[Group]) -> tuple[Unit, ...]:
    """Units in topological order; raises TraceDefectError with the ops of a cycle."""
    waits_for = draft.waits_for
    unit_of = [0] * len(waits_for)
    sources: list[list[int]] = []
    for number, (ops, _) in enumerate(groups):
        for op in ops:
            unit_of[op] = number
        sources.append(waits_for[ops[0]] if len(ops) == 1 else [s for op in ops for s in waits_for[op]])
    followers: list[list[int]] = [[] for _ in groups]
    for number, waits in enumerate(sources):
        for source in waits:
            followers[unit_of[source]].append(number)
    open_waits = [len(waits) for waits in sources]
    ready = deque(number for number in range(len(groups)) if not open_waits[number])
    order = []
    while ready:
        number = ready.popleft()
        order.append(number)
        for follower in followers[number]:
            open_waits[follower] -= 1
            if not open_waits[follower]:
                ready.append(follower)
    if len(order) < len(groups):
        _refuse_cycle(draft, groups, unit_of, sources, open_waits)
    return _units(groups, sources, order, len(waits_for))


def _units(groups: list[Group], sources: list[list[int]], order: list[int], size: int) -> tuple[Unit, ...]:
    """Units with what they wait for and what nothing waits for after them."""
    is_done = bytearray(size)
    units: list[Unit] = []
    for number in reversed(order):
        (ops, across_dp), waits = groups[number], tuple(sources[number])
        if len(waits) > 1:
            waits = tuple(dict.fromkeys(waits))
        releases = []
        for op in waits + ops:
            if not is_done[op]:
                is_done[op] = 1
                releases.append(op)
        units.append((ops, across_dp, waits, tuple(releases)))
    units.reverse()
    return tuple(units)


def _refuse_cycle(
    draft: Draft, groups: list[Group], unit_of: list[int], sources: list[list[int]], open_waits: list[int]
) -> None:
    """Walk backwards through what never became ready until a unit repeats: that stretch is a cycle."""
    number = next(i for i, waits in enumerate(open_waits) if waits)
    path: list[int] = []
    while number not in path:
        path.append(number)
        number = next(unit_of[source] for source in sources[number] if open_waits[unit_of[source]])
    cycle = path[path.index(number) :]
    refs = [op_ref(draft.cells, draft.first_op, groups[i][0][0]) for i in reversed(cycle)]
    raise TraceDefectError(f"{len(refs)} ops wait for each other in a circle", refs)
