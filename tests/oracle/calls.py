"""Limit transfers that another transfer of their call hides to their usual time (model, section 2)."""

from collections.abc import Mapping, Sequence
from math import isnan, nan
from statistics import median

from schemas.vocabulary import OP_TYPES
from tests.oracle.step_graph import StepGraph
from tests.oracle.worker_graph import SAME_S

CLEARLY = 1.5
Transfers = set[tuple[int, int]]
"""Pairs (step, op)."""


def put_usual(graphs: Mapping[int, StepGraph], recorded: dict[int, dict[int, float]]) -> None:
    """Limit transfers of a call to the usual time of their type, except the transfer that was ready last.

    If several transfers of a call were ready last, one of them keeps its length: the one whose data
    clearly arrived last, else the one on the clearly slower link, else each in turn over the calls. A
    length that was kept for this reason does not count for the usual time, because it is that of the
    slower transfer.
    """
    hidden: Transfers = set()
    slower: Transfers = set()
    for step, graph in graphs.items():
        for call, last in _calls(graph, recorded[step]):
            chosen = _slower(graph, recorded[step], call)
            kept = [chosen] if chosen in last else last
            hidden |= {(step, op) for op in call if op not in kept}
            slower |= {(step, op) for op in kept if len(last) > 1}
    for op_type in {graphs[step].ops[op].op_type for step, op in hidden}:
        shown = [
            (step, op)
            for step, graph in graphs.items()
            for op in graph.with_peer
            if graph.ops[op].op_type == op_type and (step, op) not in hidden
        ]
        known = [each for each in shown if each not in slower] or shown
        usual_s = median(recorded[step][op] for step, op in known) if known else 0.0
        for step, op in hidden:
            if graphs[step].ops[op].op_type == op_type:
                recorded[step][op] = min(recorded[step][op], usual_s)


def _calls(graph: StepGraph, recorded: Mapping[int, float]) -> list[tuple[list[int], list[int]]]:
    """Return, for each call, its members in order of OP_TYPES, and the members that became ready last."""
    found = []
    for call in graph.calls:
        ready = {op: graph.ops[op].end_s - recorded[op] for op in call}
        last = [op for op in call if ready[op] >= max(ready.values()) - SAME_S]
        found.append((sorted(call, key=lambda op: OP_TYPES.index(graph.ops[op].op_type)), last))
    return found


def _slower(graph: StepGraph, recorded: Mapping[int, float], call: list[int]) -> int:
    """Return the member of a call whose length is kept if all members became ready at the same time."""
    place = {op: number for link in graph.links for number, pair in enumerate(link) for op in pair}
    calls = _calls(graph, recorded)
    recv_of = {op: recv for link in graph.links for send, recv in link for op in (send, recv)}
    early = {op for members, last in calls for op in members if op not in last}
    arrivals = {op: recorded[recv] for op, recv in recv_of.items() if recv not in early}
    arrived = _clearly_longest([arrivals.get(op, nan) for op in call])
    if arrived is not None:
        return call[arrived]
    in_doubt = {op for members, last in calls for op in members if len(last) > 1 or op not in last}
    usual = []
    for op in call:
        link = next((link for link in graph.links if any(op in pair for pair in link)), [])
        known = sorted(recorded[recv] for _, recv in link if recv not in in_doubt)
        usual.append(known[(len(known) - 1) // 2] if known else nan)
    of_slowest_link = _clearly_longest(usual)
    return call[place.get(call[0], 0) % len(call) if of_slowest_link is None else of_slowest_link]


def _clearly_longest(times: Sequence[float]) -> int | None:
    """Return the index of the longest time; None if it is not CLEARLY times the second, or a time is nan."""
    *_, second, longest = sorted(times)
    if any(map(isnan, times)) or longest <= CLEARLY * max(second, 0.0):
        return None
    return times.index(longest)
