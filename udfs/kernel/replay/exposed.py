"""What communication delays a step, and what of it workers hide behind their computes.

Each scenario is a set X of communication ops: those of one type, of one stage, or all. Every step is replayed
without X, all else as recorded, in one pass over the graph for all scenarios (udfs/README.md, "Exposed
communication").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.graph.graph import OpGraph, once_per_graph
from udfs.kernel.replay.replay import latest_of_dp_ranks
from udfs.kernel.replay.scenario_rows import MOST_GROWTHS, TYPE_GROUP
from udfs.kernel.replay.spent import COMMUNICATION, Kind, has, scenarios_of, spent

RECORDED: Final = 0
"""Row in which every op is as recorded; behind it one for each set of ops that is taken away."""


class ExposedTimes(NamedTuple):
    """Times of the scenarios; float64, shape (scenario, step). [s]

    scenarios : type group and stage of each; only those with ops.
    without_s : step time without the scenario's ops: those that took time take none, all else as recorded.
    spent_s   : what the worker with most of the scenario's ops spends in them.
    stream_s  : the same, of ops that a worker runs in turn.
    """

    scenarios: tuple[Kind, ...]
    without_s: Floats
    spent_s: Floats
    stream_s: Floats


class Exposed(NamedTuple):
    """What one scenario's communication costs; means over the steps. [s]

    scenario  : type group and stage, ALL where it has any.
    exposed_s : by how much it lengthens the step.
    hidden_s  : what the worker with most of it spends in it beyond that; 0 in steps that wait for more.
    saved_s   : at most so much shorter the step gets if it overlaps perfectly.
    """

    scenario: Kind
    exposed_s: float
    hidden_s: float
    saved_s: float


def replay_exposed(
    graph: OpGraph, duration_s: Floats, shortest_s: Floats, is_last: list[bool]
) -> ExposedTimes | None:
    """Replay without the communication of each type, of each stage, and without all of it.

    duration_s : float64, shape (op, step, dp_rank), as recorded; transfers in a rendezvous. [s]
    shortest_s : float64, shape (op,); the least of them. [s]
    is_last    : ops that may end a step, from `last_ops`.
    returns    : None where the graph has no communication.
    """
    plan = _plan(graph)
    if not plan.scenarios:
        return None
    latest_s = _replay_without(graph, plan, duration_s, (shortest_s < 0.0).tolist(), is_last)
    by_row_s = latest_of_dp_ranks(latest_s.reshape(-1, *duration_s.shape[1:]))[:, :, 0]
    return ExposedTimes(plan.scenarios, by_row_s[plan.rows], *spent(graph, duration_s, shortest_s))


def exposed_means(blocks: Sequence[tuple[Ints, ExposedTimes]], recorded_s: Floats) -> tuple[Exposed, ...]:
    """What communication costs a job, the whole of it first, then by stage, then by type group.

    blocks     : positions of steps among the job's, and their times; none of steps without communication.
    recorded_s : float64, shape (step,), of the whole job, T. [s]
    """
    scenarios = sorted({each for _, times in blocks for each in times.scenarios})
    without_s = np.tile(recorded_s, (len(scenarios), 1))
    spent_s, stream_s = np.zeros((2, *without_s.shape))
    for steps, times in blocks:
        at = np.ix_(np.array([scenarios.index(each) for each in times.scenarios]), steps)
        without_s[at], spent_s[at], stream_s[at] = times.without_s, times.spent_s, times.stream_s
    exposed_s = recorded_s - without_s
    hidden_s, saved_s = np.maximum(spent_s - exposed_s, 0.0), recorded_s - np.maximum(without_s, stream_s)
    means_s = np.mean([exposed_s, hidden_s, saved_s], axis=2).T.tolist()
    return tuple(Exposed(scenario, *each) for scenario, each in zip(scenarios, means_s, strict=True))


@dataclass(frozen=True)
class _Plan:
    """Rows of the replay, ordered by where the first op is taken away; scenarios with the same ops share one.

    scenarios : as in ExposedTimes.
    rows      : row of each scenario.
    active    : for each node of the graph, how many rows have separate lanes from there on.
    without   : rows in which ops of each kind are taken away.
    """

    scenarios: tuple[Kind, ...]
    rows: list[int]
    active: tuple[int, ...]
    without: dict[Kind, tuple[int, ...]]


@once_per_graph
def _plan(graph: OpGraph) -> _Plan:
    first_of: dict[Kind, int] = {}
    for position, (ops, *_) in enumerate(graph.nodes):
        for op in ops:
            if graph.op_types[op] in COMMUNICATION:
                first_of.setdefault((TYPE_GROUP[graph.op_types[op]], graph.stages[op]), position)
    kinds_of = {
        scenario: frozenset(kind for kind in first_of if has(scenario, kind))
        for scenario in scenarios_of(graph)
    }
    grain = max(1, len(graph.nodes) // MOST_GROWTHS)
    starts = {
        kinds: min(first_of[kind] for kind in kinds) // grain * grain
        for kinds in dict.fromkeys(kinds_of.values())
    }
    taken = sorted(starts, key=starts.__getitem__)
    firsts = np.array([starts[kinds] for kinds in taken])
    active = RECORDED + 1 + np.searchsorted(firsts, np.arange(len(graph.nodes)), side="right")
    return _Plan(
        tuple(kinds_of),
        [RECORDED + 1 + taken.index(kinds) for kinds in kinds_of.values()],
        tuple(active.tolist()),
        {
            kind: tuple(row for row, kinds in enumerate(taken, RECORDED + 1) if kind in kinds)
            for kind in first_of
        },
    )


def _replay_without(
    graph: OpGraph, plan: _Plan, duration_s: Floats, takes_less: list[bool], is_last: list[bool]
) -> Floats:
    """Latest end of each lane, shape (row, lane), lane = (step, dp_rank). [s]

    takes_less : ops that take less than no time in some lane.
    """
    lanes = duration_s[0].size
    spare = range(graph.slots, graph.slots + 3)
    ends_s = np.empty((graph.slots + 3, max(plan.active), lanes))
    ends_s[spare.start] = 0.0
    latest_s = np.zeros(ends_s.shape[1:])
    rows, durations = [list(of_slot) for of_slot in ends_s], list(duration_s.reshape(graph.size, -1))
    kinds = zip(graph.op_types, graph.stages, strict=True)
    rows_without = [plan.without.get((TYPE_GROUP[op_type], stage), ()) for op_type, stage in kinds]
    filled, in_use, views, active_s = 0, set[int](), list[Floats](), latest_s
    add, copy = np.add, np.copyto
    for (_, across_dp, _, slots, op_slots), active in zip(graph.nodes, plan.active, strict=True):
        if active != filled:
            for slot in in_use:
                ends_s[slot, filled:active] = ends_s[slot, RECORDED]
            latest_s[filled:active] = latest_s[RECORDED]
            # Views once for every slot, because one costs as much as a small sum.
            filled, views, active_s = active, list(ends_s[:, :active]), latest_s[:active]
        start = _latest(views, slots, spare, duration_s.shape[2] if across_dp else 1)
        in_use.update([slot for _, slot in op_slots])
        start_s, start_rows = views[start], rows[start]
        for op, slot in op_slots:
            end_s, end_rows = views[slot], rows[slot]
            add(start_s, durations[op], end_s)
            for row in rows_without[op]:
                copy(end_rows[row], start_rows[row])
                if takes_less[op]:
                    # A buffered send, or clock noise: if it ended later, a step could get longer.
                    add(start_rows[row], np.minimum(durations[op], 0.0), end_rows[row])
            if is_last[op]:
                np.maximum(active_s, end_s, out=active_s)
    return latest_s


def _latest(views: list[Floats], slots: tuple[int, ...], spare: range, dp_ranks: int) -> int:
    """Slot of the latest end of some ops, of all dp ranks where these meet.

    spare : slots of what starts at once, of the latest of several ends, and of when dp ranks have met.
    """
    at_once, latest, met = spare
    start = slots[0] if slots else at_once
    if len(slots) > 1:
        latest_s = views[latest]
        np.maximum(views[start], views[slots[1]], out=latest_s)
        for slot in slots[2:]:
            np.maximum(latest_s, views[slot], out=latest_s)
        start = latest
    if dp_ranks > 1:
        by_dp = views[start].reshape(len(views[start]), -1, dp_ranks)
        views[met].reshape(by_dp.shape)[...] = latest_of_dp_ranks(by_dp)
        start = met
    return start
