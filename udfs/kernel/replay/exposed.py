"""Communication that delays a step (exposed), and communication during computes (hidden).

Each scenario is a set X of communication ops: those of one type, of one stage, or all. Every step is replayed
without X, all else as recorded, in one pass over the graph for all scenarios (udfs/README.md, "Exposed
communication").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.graph.graph import OpGraph, once_per_graph
from udfs.kernel.replay.replay import Durations, Rows, latest_of_dp_ranks
from udfs.kernel.replay.scenario_rows import MOST_GROWTHS, TYPE_GROUP, rows_with_lanes

ALL: Final = -1
"""Stands for every type group, or every stage."""

COMMUNICATION: Final = tuple(each for each in range(ot.COUNT) if each not in ot.AVERAGED)

STREAM_OF: Final = {ot.GRADS_REDUCE_SCATTER: ot.PARAMS_ALL_GATHER}
"""Ops of one type run one after the other on a worker; so do the ops of these two types together."""

Kind: TypeAlias = tuple[int, int]
"""Type group and stage of communication ops; in a scenario, either may be ALL."""


def has(scenario: Kind, kind: Kind) -> bool:
    """Return whether a scenario has ops of a kind."""
    return scenario[0] in (ALL, kind[0]) and scenario[1] in (ALL, kind[1])


def scenarios_of(graph: OpGraph) -> list[Kind]:
    """Return the communication that each scenario leaves out: all, one type group, or one stage."""
    kinds = {
        (TYPE_GROUP[op_type], stage)
        for op_type, stage in zip(graph.op_types, graph.stages, strict=True)
        if op_type in COMMUNICATION
    }
    groups, stages = (sorted({kind[axis] for kind in kinds}) for axis in (0, 1))
    each = [*((group, ALL) for group in groups), *((ALL, stage) for stage in stages)]
    return [(ALL, ALL), *each] if kinds else []


class _Sums(NamedTuple):
    """Ops whose durations are summed, and for each scenario the sums of which the largest counts.

    runs    : ops of one type on one worker.
    parts   : for each sum, the positions of its runs.
    in_all  : for each scenario, the sums over all its ops on each worker.
    in_turn : for each scenario, the sums over ops that a worker runs one after the other.
    """

    runs: list[range]
    parts: list[tuple[int, ...]]
    in_all: list[list[int]]
    in_turn: list[list[int]]


def spent(graph: OpGraph, duration_s: Floats, shortest_s: Floats) -> tuple[Floats, Floats]:
    """Return how long the busiest worker runs each scenario's ops: all of them, and those in series. [s]

    duration_s : float64, shape (op, step, dp_rank); recorded durations, in a rendezvous transfer times. [s]
    shortest_s : float64, shape (op,); the shortest duration of each op. [s]
    returns    : both float64, shape (scenario, step). [s]
    """
    sums = _sums(graph)
    of_run_s = np.empty((len(sums.runs), *duration_s.shape[1:]))
    for ops, total_s in zip(sums.runs, of_run_s, strict=True):
        own_s = duration_s[ops.start : ops.stop]
        takes_less = shortest_s[ops.start : ops.stop].min() < 0.0
        (np.maximum(own_s, 0.0) if takes_less else own_s).sum(axis=0, out=total_s)
    of_sum_s = latest_of_dp_ranks(_reduced(np.add, of_run_s, sums.parts))[:, :, 0]
    return _reduced(np.maximum, of_sum_s, sums.in_all), _reduced(np.maximum, of_sum_s, sums.in_turn)


def _reduced(reduce: np.ufunc, values: Floats, groups: Sequence[Sequence[int]]) -> Floats:
    """Reduce the values of each group over its members, which are on the first axis."""
    firsts = list(accumulate(map(len, groups), initial=0))[:-1]
    return reduce.reduceat(values[[each for group in groups for each in group]], firsts, axis=0)


@once_per_graph
def _sums(graph: OpGraph) -> _Sums:
    scenarios = scenarios_of(graph)
    runs: list[range] = []
    numbers: dict[tuple[int, ...], int] = {}
    in_all: list[list[int]] = [[] for _ in scenarios]
    in_turn: list[list[int]] = [[] for _ in scenarios]
    for cell, by_type in zip(graph.cells, graph.ops_by_type, strict=True):
        recorded = [op_type for op_type in COMMUNICATION if by_type[op_type]]
        run_of = {op_type: number for number, op_type in enumerate(recorded, len(runs))}
        runs += [by_type[op_type] for op_type in recorded]
        for scenario, of_all, of_streams in zip(scenarios, in_all, in_turn, strict=True):
            own = [op_type for op_type in run_of if has(scenario, (TYPE_GROUP[op_type], cell.stage))]
            streams: dict[int, list[int]] = {}
            for op_type in own:
                streams.setdefault(STREAM_OF.get(op_type, op_type), []).append(run_of[op_type])
            together = [run_of[op_type] for op_type in own]
            for sums, parts in ((of_all, [together]), (of_streams, streams.values())):
                sums += [numbers.setdefault(tuple(part), len(numbers)) for part in parts if part]
    return _Sums(runs, list(numbers), in_all, in_turn)


RECORDED: Final = 0
"""Row in which every op is as recorded; after it, one row for each set of ops that is removed."""


class ExposedTimes(NamedTuple):
    """Step times without each scenario's communication; float64, shape (scenario, step). [s]

    scenarios : type group and stage of each; only those with ops.
    without_s : step time if the scenario's ops take no time, and all other ops take the recorded time.
    spent_s   : longest time of any worker in the scenario's ops.
    stream_s  : longest time of any worker in those of the ops that it runs one after the other.
    """

    scenarios: tuple[Kind, ...]
    without_s: Floats
    spent_s: Floats
    stream_s: Floats


class Exposed(NamedTuple):
    """Cost of the communication of one scenario; means over steps. [s]

    scenario  : type group and stage, either may be ALL.
    exposed_s : time by which the communication lengthens the step.
    hidden_s  : longest time of any worker in the communication, less exposed_s; in no step below 0.
    saved_s   : upper bound of the time saved if the communication overlapped perfectly with other ops.
    """

    scenario: Kind
    exposed_s: float
    hidden_s: float
    saved_s: float


def replay_exposed(
    graph: OpGraph, duration_s: Floats, shortest_s: Floats, is_last: list[bool]
) -> ExposedTimes | None:
    """Replay without the communication of each type, then of each stage, and then without any.

    duration_s : float64, shape (op, step, dp_rank); recorded durations, in a rendezvous transfer times. [s]
    shortest_s : float64, shape (op,); the shortest duration of each op. [s]
    is_last    : ops that may end a step, from `last_ops`.
    returns    : None where the graph has no communication.
    """
    plan = _plan(graph)
    if not plan.scenarios:
        return None
    durations, nothing = list(duration_s.reshape(graph.size, -1)), np.array(0.0)
    # Negative durations, by buffered sends or clock noise, stay: without them a step could get longer.
    without = [
        np.minimum(lasts_s, 0.0) if takes_less else nothing
        for lasts_s, takes_less in zip(durations, (shortest_s < 0.0).tolist(), strict=True)
    ]
    kinds = zip(graph.op_types, graph.stages, strict=True)
    rows = [plan.without.get((TYPE_GROUP[op_type], stage), ()) for op_type, stage in kinds]
    shape = (max(plan.active), *duration_s.shape[1:])
    latest_s = Rows(graph, shape, Durations(durations, without, rows), plan.active).run(is_last)
    by_row_s = latest_of_dp_ranks(latest_s)[:, :, 0]
    return ExposedTimes(plan.scenarios, by_row_s[plan.rows], *spent(graph, duration_s, shortest_s))


def exposed_means(blocks: Sequence[tuple[Ints, ExposedTimes]], recorded_s: Floats) -> tuple[Exposed, ...]:
    """Return the mean cost of communication: of all of it, then by stage and by type group.

    blocks     : positions of steps among the job's, and their times; steps without communication are missing.
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
    """Rows of the replay, by the first op that each removes; scenarios with the same ops share a row.

    scenarios : as in ExposedTimes.
    rows      : row of each scenario.
    active    : for each node of the graph, number of rows with separate lanes from this node on.
    without   : rows without the ops of each kind.
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
    return _Plan(
        tuple(kinds_of),
        [RECORDED + 1 + taken.index(kinds) for kinds in kinds_of.values()],
        rows_with_lanes([0, *(starts[kinds] for kinds in taken)], len(graph.nodes)),
        {
            kind: tuple(row for row, kinds in enumerate(taken, RECORDED + 1) if kind in kinds)
            for kind in first_of
        },
    )
