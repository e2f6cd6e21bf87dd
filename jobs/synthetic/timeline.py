"""The event simulation: when each op starts and ends on every dp rank in every step."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter

import numpy as np
from numpy.typing import NDArray

from jobs.synthetic.program import ProgramOp, meetings

Times = NDArray[np.float64]
"""Microseconds since the start of the step, shape (op, step, dp_rank)."""


@dataclass(frozen=True)
class Timeline:
    """Start and end of every op; a waiting op has started. Shape (op, step, dp_rank) [us]."""

    start_us: Times
    end_us: Times


@dataclass(frozen=True)
class Issue:
    """The host issues the ops of one call as soon as all that they wait for has ended."""

    members: tuple[int, ...]
    waits: tuple[int, ...]


@dataclass(frozen=True)
class Return:
    """The ops of one call return together, when the last is done; each works from its meeting's last issue.

    met            : of each member, the ops whose issue it waits for, itself among them
    meets_replicas : of each member, whether these are the ops of all dp ranks
    """

    members: tuple[int, ...]
    met: tuple[tuple[int, ...], ...]
    meets_replicas: tuple[bool, ...]


class EventSimulation:
    """A program's events in an order in which each comes after all it depends on; run as often as wanted."""

    def __init__(self, ops: Sequence[ProgramOp]) -> None:
        """Raise ValueError if the program can never end."""
        calls = _calls(ops)
        call_of = {op.number: name for name, members in calls.items() for op in members}
        met_by_name = meetings(ops)
        self._events: list[Issue | Return] = []
        for event, name in _in_order(calls, call_of, met_by_name):
            members = calls[name]
            numbers = tuple(op.number for op in members)
            if event == "issue":
                self._events.append(Issue(numbers, tuple({wait for op in members for wait in op.waits})))
                continue
            met = (met_by_name[op.meeting] if op.meeting is not None else [op] for op in members)
            met_numbers = tuple(tuple(other.number for other in others) for others in met)
            self._events.append(Return(numbers, met_numbers, tuple(op.meets_replicas for op in members)))

    def run(self, busy_us: Times, delay_us: Times) -> Timeline:
        """Run a step's ops on all lanes (step, dp) at once.

        busy_us  : time an op works or moves data, without waiting for others, shape (op, step, dp_rank) [us]
        delay_us : time the host lets an op wait although it could start, same shape [us]

        The ops of one call are issued together and return together. Data of a meeting moves from the moment
        the last of its members has been issued.
        """
        start, end = np.zeros_like(busy_us), np.zeros_like(busy_us)
        for event in self._events:
            if isinstance(event, Issue):
                issued = _latest(delay_us, event.members)
                if event.waits:
                    issued = _latest(end, event.waits) + issued
                for number in event.members:
                    start[number] = issued
                continue
            done = [
                _last_issue(start, met, meets_replicas=is_wide) + busy_us[number]
                for number, met, is_wide in zip(event.members, event.met, event.meets_replicas, strict=True)
            ]
            returned = done[0] if len(done) == 1 else np.maximum.reduce(done)
            for number in event.members:
                end[number] = returned
        return Timeline(start, end)


def _latest(times: Times, numbers: Sequence[int]) -> Times:
    """The latest of some ops' times, shape (step, dp_rank) [us]."""
    latest: Times = times[numbers[0]]
    for number in numbers[1:]:
        latest = np.maximum(latest, times[number])
    return latest


def _last_issue(start: Times, met: Sequence[int], *, meets_replicas: bool) -> Times:
    """When the last member of a meeting was issued, shape (step, dp_rank) or (step, 1) [us]."""
    latest = _latest(start, met)
    return latest.max(axis=-1, keepdims=True) if meets_replicas else latest


def _calls(ops: Sequence[ProgramOp]) -> dict[Hashable, list[ProgramOp]]:
    calls: dict[Hashable, list[ProgramOp]] = defaultdict(list)
    for op in ops:
        calls[("op", op.number) if op.call is None else op.call].append(op)
    return calls


def _in_order(
    calls: dict[Hashable, list[ProgramOp]],
    call_of: dict[int, Hashable],
    met_by_name: dict[Hashable, list[ProgramOp]],
) -> list[tuple[str, Hashable]]:
    """Sort the events so that each comes after all it depends on: ("issue" or "return", call).

    Raises graphlib.CycleError, a ValueError, where some wait for each other.
    """
    needs: dict[tuple[str, Hashable], set[tuple[str, Hashable]]] = {}
    for name, members in calls.items():
        needs["issue", name] = {("return", call_of[wait]) for op in members for wait in op.waits}
        met = [other for op in members if op.meeting is not None for other in met_by_name[op.meeting]]
        needs["return", name] = {("issue", name), *(("issue", call_of[other.number]) for other in met)}
    return list(TopologicalSorter(needs).static_order())
