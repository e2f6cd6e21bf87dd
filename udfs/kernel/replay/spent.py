"""Time that workers spend in communication, by kind of op."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats
from udfs.kernel.graph.graph import OpGraph, once_per_graph
from udfs.kernel.replay.replay import latest_of_dp_ranks
from udfs.kernel.replay.scenario_rows import TYPE_GROUP

ALL: Final = -1
"""Stands for every type group, or every stage."""

COMMUNICATION: Final = tuple(each for each in range(ot.COUNT) if each not in ot.AVERAGED)

STREAM_OF: Final = {ot.GRADS_REDUCE_SCATTER: ot.PARAMS_ALL_GATHER}
"""A worker runs ops of one type in turn; ops of these types too."""

Kind: TypeAlias = tuple[int, int]
"""Type group and stage of communication ops; a scenario has them too, ALL where it has any."""


def has(scenario: Kind, kind: Kind) -> bool:
    """Whether a scenario contains ops of a kind."""
    return scenario[0] in (ALL, kind[0]) and scenario[1] in (ALL, kind[1])


def scenarios_of(graph: OpGraph) -> list[Kind]:
    """Communication scenarios of a graph: all of it, each type group, each stage; empty without any."""
    kinds = {
        (TYPE_GROUP[op_type], stage)
        for op_type, stage in zip(graph.op_types, graph.stages, strict=True)
        if op_type in COMMUNICATION
    }
    groups, stages = (sorted({kind[axis] for kind in kinds}) for axis in (0, 1))
    each = [*((group, ALL) for group in groups), *((ALL, stage) for stage in stages)]
    return [(ALL, ALL), *each] if kinds else []


class _Sums(NamedTuple):
    """Plan of sums over ops, and of the maxima over these sums.

    runs    : ops of one type on one worker, [first, end).
    parts   : runs of each sum.
    in_all  : of each scenario the sums of all its ops on a worker.
    in_turn : of each scenario the sums of those that a worker runs in turn.
    """

    runs: list[tuple[int, int]]
    parts: list[tuple[int, ...]]
    in_all: list[list[int]]
    in_turn: list[list[int]]


def spent(graph: OpGraph, duration_s: Floats, shortest_s: Floats) -> tuple[Floats, Floats]:
    """Largest time that one worker spends in each scenario's ops: in all, and in those run in turn. [s]

    duration_s : float64, shape (op, step, dp_rank), as recorded; transfers in a rendezvous. [s]
    shortest_s : float64, shape (op,); the least of them. [s]
    returns    : both float64, shape (scenario, step). [s]
    """
    sums = _sums(graph)
    of_run_s = np.empty((len(sums.runs), *duration_s.shape[1:]))
    for (first, end), total_s in zip(sums.runs, of_run_s, strict=True):
        own_s = duration_s[first:end]
        takes_less = shortest_s[first:end].min() < 0.0
        (np.maximum(own_s, 0.0) if takes_less else own_s).sum(axis=0, out=total_s)
    of_sum_s = latest_of_dp_ranks(_reduced(np.add, of_run_s, sums.parts))[:, :, 0]
    return _reduced(np.maximum, of_sum_s, sums.in_all), _reduced(np.maximum, of_sum_s, sums.in_turn)


def _reduced(reduce: np.ufunc, values: Floats, groups: Sequence[Sequence[int]]) -> Floats:
    """Reduce the values of each group's members along the first axis."""
    firsts = list(accumulate(map(len, groups), initial=0))[:-1]
    reduced: Floats = reduce.reduceat(values[[each for group in groups for each in group]], firsts, axis=0)
    return reduced


@once_per_graph
def _sums(graph: OpGraph) -> _Sums:
    scenarios = scenarios_of(graph)
    runs: list[tuple[int, int]] = []
    numbers: dict[tuple[int, ...], int] = {}
    in_all: list[list[int]] = [[] for _ in scenarios]
    in_turn: list[list[int]] = [[] for _ in scenarios]
    for cell, base in zip(graph.cells, graph.first_op, strict=False):
        run_of: dict[int, int] = {}
        for op_type, (first, end) in enumerate(pairwise(cell.program.first_ops)):
            if op_type in COMMUNICATION and first < end:
                run_of[op_type] = len(runs)
                runs.append((base + first, base + end))
        for scenario, of_all, of_streams in zip(scenarios, in_all, in_turn, strict=True):
            own = [op_type for op_type in run_of if has(scenario, (TYPE_GROUP[op_type], cell.stage))]
            streams: dict[int, list[int]] = {}
            for op_type in own:
                streams.setdefault(STREAM_OF.get(op_type, op_type), []).append(run_of[op_type])
            for sums, parts in (
                (of_all, [[run_of[op_type] for op_type in own]]),
                (of_streams, streams.values()),
            ):
                sums += [numbers.setdefault(tuple(part), len(numbers)) for part in parts if part]
    return _Sums(runs, list(numbers), in_all, in_turn)
