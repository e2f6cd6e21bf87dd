"""Plan of the stacked replay: scenarios in the order of the first node at which they are not ideal.

Up to its first recorded op, a scenario equals the ideal timeline, which is one number per op. If scenarios
are sorted by the node of this op, the scenarios that need lanes are a prefix at every node of the graph.

Exact dp rank and worker slowdowns need two replicas only, the recorded one and an ideal one, because in the
ideal timeline all replicas are alike (model, section 6). Before the first dp collective that waits for other
ops, the recorded replica equals a lane of the scenario in which everything, or its whole stage, is recorded.
From there on both replicas have separate rows, which meet each other instead of the other lanes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.graph.graph import Layout, OpGraph, once_per_graph

TYPE_GROUP: Final = tuple(
    {ot.FORWARD_RECV: ot.FORWARD_SEND, ot.BACKWARD_RECV: ot.BACKWARD_SEND}.get(op_type, op_type)
    for op_type in range(ot.COUNT)
)
"""Op types replayed as one: send and recv of a direction are listed under their send."""

EVERYTHING: Final = 0
"""Row of the scenario in which every op is recorded."""

MOST_GROWTHS: Final = 16
"""Most nodes of the graph at which rows get lanes, because this copies all ends that are in use."""


class Replicas(NamedTuple):
    """Rows of the recorded replicas [first, first + number), after which come their ideal partners.

    Recorded row 0 is a whole dp rank; with a pipeline, row 1 + p is one worker of stage p.
    """

    first: int
    number: int

    @property
    def partners(self) -> int:
        """Index of the first row of the ideal partners of the replicas."""
        return self.first + self.number

    @property
    def end(self) -> int:
        """Index of the first row after the replicas and their partners."""
        return self.first + 2 * self.number


@dataclass(frozen=True)
class ScenarioRows:
    """Rows of the stacked replay; each row is a scenario.

    count           : number of rows.
    active          : for each node of the graph, number of rows with separate lanes from this node on.
    last_stage_ideal: row in which the last stage is ideal and all else recorded; -1 without a pipeline.
    type_row        : type group -> row in which it alone is recorded.
    stage_row       : stage -> row in which it alone is recorded (EVERYTHING where it is the only one).
    replicas        : rows of the two-replica scenarios; none with one replica.
    kinds           : each (op type, stage) of the graph.
    """

    count: int
    active: tuple[int, ...]
    last_stage_ideal: int
    type_row: dict[int, int]
    stage_row: dict[int, int]
    replicas: Replicas
    kinds: frozenset[tuple[int, int]]

    @cached_property
    def recorded(self) -> dict[tuple[int, int], tuple[int, ...]]:
        """Rows in which the ops of each (op type, stage) are as recorded; rows of replicas excluded."""
        found = {}
        for op_type, stage in self.kinds:
            rows = {EVERYTHING, self.type_row[TYPE_GROUP[op_type]], self.stage_row[stage]}
            if self.last_stage_ideal >= 0 and stage != max(self.stage_row):
                rows.add(self.last_stage_ideal)
            found[op_type, stage] = tuple(sorted(rows))
        return found


@once_per_graph
def plan_rows(graph: OpGraph, layout: Layout) -> ScenarioRows:
    """Order the scenarios of the model's section 5 by the node at which they first differ from the ideal.

    graph : with dp ranks as lanes.
    """
    first_of_type, first_of_stage, first_meeting = _first_nodes(graph)
    first_meeting = first_meeting if layout.dp_size > 1 else len(graph.nodes)
    starts: list[tuple[int, int, str, int]] = [(-1, 0, "everything", 0)]
    if layout.pp_size > 1:
        starts.append((-1, 1, "last_stage_ideal", 0))
        for stage, first in first_of_stage.items():
            starts.append((min(first, first_meeting), 1, "stage", stage))
    for group, first in first_of_type.items():
        starts.append((first, 1, "type", group))
    replica_count = 0
    if first_meeting < len(graph.nodes):
        replica_count = 1 + (layout.pp_size if layout.pp_size > 1 else 0)
        starts.extend((first_meeting, 2, "replica", i) for i in range(2 * replica_count))
    grain = max(1, len(graph.nodes) // MOST_GROWTHS)
    starts = [
        (first if kind == "replica" else first // grain * grain, order, kind, index)
        for first, order, kind, index in starts
    ]
    starts.sort()
    row_of = {(kind, index): row for row, (_, _, kind, index) in enumerate(starts)}
    stages = range(layout.pp_size)
    return ScenarioRows(
        count=len(starts),
        active=rows_with_lanes([first for first, *_ in starts], len(graph.nodes)),
        last_stage_ideal=row_of.get(("last_stage_ideal", 0), -1),
        type_row={group: row_of["type", group] for group in first_of_type},
        stage_row={stage: row_of.get(("stage", stage), EVERYTHING) for stage in stages},
        replicas=Replicas(row_of.get(("replica", 0), len(starts)), replica_count),
        kinds=frozenset(zip(graph.op_types, graph.stages, strict=True)),
    )


def rows_with_lanes(firsts: Sequence[int], nodes: int) -> tuple[int, ...]:
    """Count the rows with lanes at each node; firsts : node from which a row has lanes, ascending."""
    return tuple(np.searchsorted(firsts, np.arange(nodes), side="right").tolist())


def _first_nodes(graph: OpGraph) -> tuple[dict[int, int], dict[int, int], int]:
    """Return the first node of each type group, of each stage, and at which dp ranks meet after an op."""
    first_of_type: dict[int, int] = {}
    first_of_stage: dict[int, int] = {}
    first_meeting, op_types, stages = len(graph.nodes), graph.op_types, graph.stages
    for position, (ops, across_dp, sources, *_) in enumerate(graph.nodes):
        if across_dp and sources:
            first_meeting = min(first_meeting, position)
        for op in ops:
            first_of_type.setdefault(TYPE_GROUP[op_types[op]], position)
            first_of_stage.setdefault(stages[op], position)
    return first_of_type, first_of_stage, first_meeting
