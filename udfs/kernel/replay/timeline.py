"""Timelines of one step: when each op starts and ends, and the critical path."""

from bisect import bisect_right
from typing import NamedTuple, TypeAlias

import numpy as np

from udfs.kernel.arrays import Floats, latest
from udfs.kernel.graph.graph import OpGraph, meeting_indices
from udfs.kernel.replay.replay import NO_OP, latest_of_dp_ranks

Place: TypeAlias = tuple[int, int]
"""One op of the step: its number in the graph, and its dp lane."""


class Timeline(NamedTuple):
    """Times of the ops of one step; lanes are dp ranks, or there is one lane if each has ops of its own.

    start_s : float64, shape (op, lane); when the op is called. [s]
    met_s   : float64, shape (op, lane); when the last op of its rendezvous is called, until which it only
              waits; start_s without a rendezvous. [s]
    end_s   : float64, shape (op, lane). [s]
    """

    start_s: Floats
    met_s: Floats
    end_s: Floats


class CriticalOp(NamedTuple):
    """One op on the critical path.

    place  : the op.
    from_s : time from which the step's end depends on it; until then it waited for other ops. [s]
    """

    place: Place
    from_s: float


def replayed_timeline(graph: OpGraph, duration_s: Floats) -> Timeline:
    """Return when every op starts and ends if it starts once all ops for which it waits have ended.

    This is the model's recurrence in plain form; `replay` computes it for all steps and scenarios at once.

    duration_s : float64, shape (op, lane); in a rendezvous transfer times. [s]
    """
    every_duration_s = duration_s.tolist()
    lanes = range(duration_s.shape[1])
    at_once_s = [0.0] * len(lanes)
    start_s, met_s, end_s = ([at_once_s] * graph.size for _ in Timeline._fields)

    def latest_of(times_s: list[list[float]]) -> list[float]:
        return list(map(max, *times_s)) if len(times_s) > 1 else times_s[0] if times_s else at_once_s

    for ops, across_dp, sources, *_ in graph.nodes:
        for op in ops:
            start_s[op] = latest_of([end_s[source] for source in graph.waits_for[op]])
        # The sources of the recv of an eager send include the ops for which the send waits.
        is_sent = ops[0] in graph.sent_by
        latest_s = latest_of([end_s[op] for op in sources] if is_sent else [start_s[op] for op in ops])
        if across_dp:
            latest_s = [max(latest_s)] * len(lanes)
        for op in ops:
            met_s[op] = latest_s
            end_s[op] = [met + lasts for met, lasts in zip(latest_s, every_duration_s[op], strict=True)]
    return Timeline(*(np.array(times_s) for times_s in (start_s, met_s, end_s)))


def timeline_of(graph: OpGraph, start_s: Floats, end_s: Floats) -> Timeline:
    """Build a timeline from known starts and ends; float64, shape (op, lane). [s]"""
    met_s = start_s.copy()
    for (members, across_dp), indices in zip(graph.meetings, meeting_indices(graph), strict=True):
        latest_s = latest(start_s, indices)
        is_eager = members[-1][0] in graph.sent_by
        for ops in indices[is_eager:]:
            met_s[ops] = latest_of_dp_ranks(latest_s) if across_dp else latest_s
    return Timeline(start_s, met_s, end_s)


def critical_path(graph: OpGraph, timeline: Timeline) -> list[CriticalOp]:
    """Return the ops on the critical path of a step, from first to last.

    The path is followed backwards from the op that ends last. In a rendezvous it goes to the op that was
    called last. From there it goes to the op that ended last before this call, among the ops for which the
    called op waits and the computes of its worker, because hosts may call transfers only after a compute. In
    a replay, each op begins when the one before it ends. In a recorded step, a gap means that the host was
    late, and an overlap that clocks differ. Of ops that end together, an op that is waited for comes before a
    compute of the worker, and then the first op of the graph.
    """
    number, meetings = np.full(graph.size, NO_OP), list[tuple[tuple[int, ...], bool]]()
    for members, across_dp in graph.meetings:
        for ops in zip(*members, strict=True):
            number[list(ops[1:] if ops[-1] in graph.sent_by else ops)] = len(meetings)
            meetings.append((ops, across_dp))
    place = divmod(int(timeline.end_s.argmax()), timeline.end_s.shape[1])
    path: list[CriticalOp] = []
    seen: set[Place] = set()
    while place not in seen:
        seen.add(place)
        path.append(CriticalOp(place, float(timeline.met_s[place])))
        latest = place
        if number[place[0]] != NO_OP:
            ops, across_dp = meetings[number[place[0]]]
            lanes = range(timeline.end_s.shape[1]) if across_dp else (place[1],)
            latest = _last_of(timeline.start_s, [place, *((op, lane) for op in ops for lane in lanes)])
        op, lane = latest
        before = [(source, lane) for source in graph.waits_for[op]]
        cell = bisect_right(graph.first_op, op) - 1
        first = graph.first_op[cell]
        computes = range(first, first + len(graph.cells[cell].program.compute_order))
        called_s = timeline.start_s[latest]
        before += [(each, lane) for each in computes if timeline.end_s[each, lane] <= called_s]
        if before:
            place = _last_of(timeline.end_s, before)
    return path[::-1]


def _last_of(times_s: Floats, places: list[Place]) -> Place:
    """Return the place (op, lane) with the latest time; of equal times, the first place."""
    ops, lanes = zip(*places, strict=True)
    return places[int(times_s[list(ops), list(lanes)].argmax())]
