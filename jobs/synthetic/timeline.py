"""Event simulation: computes the start and end of each op on every dp rank in every step."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import reduce
from graphlib import TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from jobs.synthetic.program import ProgramOp, meetings

Times = NDArray[np.float64]
"""Microseconds since the start of the step, shape (op, step, dp_rank)."""


@dataclass(frozen=True)
class Timeline:
    """Start and end of every op, shape (op, step, dp_rank); waiting for peers lies between the two. [us]"""

    start_us: Times
    end_us: Times


@dataclass(frozen=True)
class Call:
    """Ops that the host issues together, once all ops that they wait for have ended.

    Each member begins to work when the last op of its meeting is issued. All members end together, with the
    last.

    members        : numbers of the ops
    waits          : numbers of the ops that must have ended before the call is issued
    met            : for each member, the numbers of all ops of its meeting, itself included
    meets_replicas : for each member, whether its meeting includes these ops on all dp ranks
    """

    members: tuple[int, ...]
    waits: frozenset[int]
    met: tuple[tuple[int, ...], ...]
    meets_replicas: tuple[bool, ...]


class EventSimulation:
    """A program with its events in topological order, which can be run with any durations."""

    def __init__(self, ops: Sequence[ProgramOp]) -> None:
        """Sort the events; raise graphlib.CycleError, a ValueError, if the program deadlocks."""
        by_name: dict[Hashable, list[ProgramOp]] = defaultdict(list)
        for op in ops:
            by_name[("op", op.number) if op.call is None else op.call].append(op)
        met_at = meetings(ops)
        calls = [
            Call(
                members=tuple(op.number for op in members),
                waits=frozenset(wait for op in members for wait in op.waits),
                met=tuple(
                    (op.number,) if op.meeting is None else tuple(met_at[op.meeting]) for op in members
                ),
                meets_replicas=tuple(op.meets_replicas for op in members),
            )
            for members in by_name.values()
        ]
        call_of = {number: place for place, call in enumerate(calls) for number in call.members}
        needs: dict[tuple[str, int], set[tuple[str, int]]] = {}
        for place, call in enumerate(calls):
            needs["issue", place] = {("return", call_of[wait]) for wait in call.waits}
            needs["return", place] = {("issue", call_of[number]) for met in call.met for number in met}
        order = TopologicalSorter(needs).static_order()
        self._events = [(event == "issue", calls[place]) for event, place in order]

    def run(self, busy_us: Times, delay_us: Times) -> Timeline:
        """Return the start and end of each op, computed for all steps and dp ranks at once.

        busy_us  : time for which an op works or moves data, without waiting, shape (op, step, dp_rank) [us]
        delay_us : time between the moment when an op could start and its start, same shape [us]
        """
        start, end = np.zeros_like(busy_us), np.zeros_like(busy_us)
        for is_issue, call in self._events:
            if is_issue:
                issued = _latest(delay_us, call.members)
                if call.waits:
                    issued = _latest(end, tuple(call.waits)) + issued
                for number in call.members:
                    start[number] = issued
                continue
            returned = [
                _last_issue(start, met, meets_replicas=is_wide) + busy_us[number]
                for number, met, is_wide in zip(call.members, call.met, call.meets_replicas, strict=True)
            ]
            for number in call.members:
                end[number] = reduce(np.maximum, returned)
        return Timeline(start, end)


def _latest(times: Times, numbers: Sequence[int]) -> Times:
    return reduce(np.maximum, (times[number] for number in numbers))


def _last_issue(start: Times, met: Sequence[int], *, meets_replicas: bool) -> Times:
    """Return when the last of the ops that start together is issued, shape (step, dp_rank or 1). [us]"""
    latest = _latest(start, met)
    return latest.max(axis=-1, keepdims=True) if meets_replicas else latest
