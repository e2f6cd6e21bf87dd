"""Compute the cost of GPU types by replays: one type as recorded, or all computes as on the fastest type."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from tests.oracle.records import Layout, Op
from tests.oracle.results import read_job

COMPUTES = ("forward-compute", "backward-compute")


class TypesCost(NamedTuple):
    """Results by GPU type, where None stands for hosts of unknown type.

    slowdown  : S_type
    ideal_s   : mean time of computes, by type and op type [s]
    fastest_s : mean step time if the computes of each type are divided by the type's factor [s]
    """

    slowdown: dict[str | None, float]
    ideal_s: dict[tuple[str | None, str], float]
    fastest_s: float


def types_cost(
    ops: Sequence[Op], layout: Layout, types: Mapping[str, str], factors: Mapping[tuple[str, str], float]
) -> TypesCost:
    """Compute the cost of GPU types for a job in which no worker changes its host.

    types   : host -> type
    factors : (type, op type) -> time of the op on this type, divided by that on the fastest type
    """
    job = read_job(ops, layout, "pooled-mean-median")

    def type_of(op: Op) -> str | None:
        return types.get(op.host or "")

    def is_of(name: str | None) -> Callable[[Op], bool]:
        return lambda op: type_of(op) == name

    every = [
        (graph.ops[op], duration)
        for step, graph in job.graphs.items()
        for op, duration in job.recorded[step].items()
    ]
    names = {type_of(op) for op, _ in every}
    ideal_step_s = job.mean(lambda _: False)
    ideal_s = {
        (name, kind): fmean(d for op, d in every if op.op_type == kind and type_of(op) == name)
        for name in names
        for kind in COMPUTES
    }
    step_s = [
        graph.replay(
            {
                op: duration / factors.get((type_of(graph.ops[op]) or "", graph.ops[op].op_type), 1.0)
                for op, duration in job.recorded[step].items()
            }
        )
        for step, graph in job.graphs.items()
    ]
    slowdown = {name: job.mean(is_of(name)) / ideal_step_s for name in names}
    return TypesCost(slowdown, ideal_s, fmean(step_s))
