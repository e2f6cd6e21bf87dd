"""Compute exposed communication with a separate replay for each step and set of ops (udfs/README.md)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from schemas.vocabulary import OP_TYPE_GROUPS
from tests.oracle.ideals import MEAN_IDEAL
from tests.oracle.records import Layout, Op
from tests.oracle.results import read_job
from tests.oracle.step_graph import StepGraph

Key = tuple[str, int]
"""(op type, stage); ("all", ...) stands for every op type, and (..., -1) for every stage."""

ONE_STREAM = {"grads-reduce-scatter": "params-all-gather"}


@dataclass(frozen=True)
class Seconds:
    """Exposed, busy, hidden and overlap-saved time of a set of ops, in one step or as means over steps."""

    exposed_s: float
    busy_s: float
    hidden_s: float
    overlap_saved_s: float


def exposed_communication(ops: Sequence[Op], layout: Layout) -> dict[Key, Seconds]:
    """Return figures by op type and stage, and for all communication; raises the errors of `what_if`."""
    job = read_job(ops, layout, "pooled-mean-median")
    keys: set[Key] = set()
    for graph in job.graphs.values():
        for op in graph.waits_for:
            if graph.ops[op].op_type not in MEAN_IDEAL:
                keys |= {("all", -1), ("all", graph.ops[op].pp_rank), (_group(graph.ops[op]), -1)}
    found = {}
    for key in keys:
        steps = [_step(graph, job.recorded[step], key) for step, graph in job.graphs.items()]
        names = ("exposed_s", "busy_s", "hidden_s", "overlap_saved_s")
        found[key] = Seconds(*(fmean(getattr(step, name) for step in steps) for name in names))
    return found


def _group(op: Op) -> str:
    return OP_TYPE_GROUPS.get(op.op_type, op.op_type)


def _is_of(op: Op, key: Key) -> bool:
    op_type, stage = key
    is_communication = op.op_type not in MEAN_IDEAL
    return is_communication and op_type in ("all", _group(op)) and stage in (-1, op.pp_rank)


def _step(graph: StepGraph, recorded: dict[int, float], key: Key) -> Seconds:
    chosen = {op for op in recorded if _is_of(graph.ops[op], key)}
    whole_s = graph.replay(recorded)
    without_s = graph.replay({op: min(d, 0.0) if op in chosen else d for op, d in recorded.items()})
    spent: dict[tuple[int, int], float] = defaultdict(float)
    stream: dict[tuple[int, int, str], float] = defaultdict(float)
    for number in chosen:
        op, duration_s = graph.ops[number], max(recorded[number], 0.0)
        spent[op.dp_rank, op.pp_rank] += duration_s
        stream[op.dp_rank, op.pp_rank, ONE_STREAM.get(op.op_type, op.op_type)] += duration_s
    exposed_s = whole_s - without_s
    busy_s = max(max(spent.values(), default=0.0), exposed_s)
    saved_s = whole_s - max(without_s, max(stream.values(), default=0.0))
    return Seconds(exposed_s, busy_s, busy_s - exposed_s, saved_s)
