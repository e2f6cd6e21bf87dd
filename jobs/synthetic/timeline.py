"""The event simulation: when each op starts and ends on every dp rank in every step."""

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jobs.synthetic.program import ProgramOp

Times = NDArray[np.float64]
"""Microseconds since the start of the step, shape (op, step, dp_rank)."""


@dataclass(frozen=True)
class Timeline:
    """Start and end of every op; a waiting op has started. Shape (op, step, dp_rank) [us]."""

    start_us: Times
    end_us: Times


def run_program(ops: Sequence[ProgramOp], busy_us: Times, delay_us: Times) -> Timeline:
    """Run a step's ops on all lanes (step, dp_rank) at once.

    busy_us  : time an op works or moves data, without waiting for others, shape (op, step, dp_rank) [us]
    delay_us : time the host lets an op wait although it could start, same shape [us]

    The ops of one call are issued together and return together. Data of a meeting moves from the moment
    the last of its members has been issued. Raises ValueError if the program can never end.
    """
    calls = _calls(ops)
    call_of = {op.number: name for name, members in calls.items() for op in members}
    meetings = _meetings(ops)
    start, end = np.zeros_like(busy_us), np.zeros_like(busy_us)
    for event, name in _in_order(calls, call_of, meetings):
        members = calls[name]
        if event == "issue":
            free = [end[wait] for op in members for wait in op.waits]
            ready = np.maximum.reduce(free) if free else np.zeros_like(busy_us[0])
            issued = ready + np.maximum.reduce([delay_us[op.number] for op in members])
            for op in members:
                start[op.number] = issued
            continue
        returned = np.maximum.reduce(
            [_last_issue(op, meetings, start) + busy_us[op.number] for op in members]
        )
        for op in members:
            end[op.number] = returned
    return Timeline(start, end)


def _last_issue(
    op: ProgramOp, meetings: dict[Hashable, list[ProgramOp]], start: Times
) -> NDArray[np.float64]:
    """When the last member of the op's meeting was issued, shape (step, dp_rank) or (step, 1) [us]."""
    members = meetings[op.meeting] if op.meeting is not None else [op]
    latest: NDArray[np.float64] = np.maximum.reduce([start[member.number] for member in members])
    return latest.max(axis=-1, keepdims=True) if op.meets_replicas else latest


def _calls(ops: Sequence[ProgramOp]) -> dict[Hashable, list[ProgramOp]]:
    calls: dict[Hashable, list[ProgramOp]] = defaultdict(list)
    for op in ops:
        calls[("op", op.number) if op.call is None else op.call].append(op)
    return calls


def _meetings(ops: Sequence[ProgramOp]) -> dict[Hashable, list[ProgramOp]]:
    meetings: dict[Hashable, list[ProgramOp]] = defaultdict(list)
    for op in ops:
        if op.meeting is not None:
            meetings[op.meeting].append(op)
    return meetings


def _in_order(
    calls: dict[Hashable, list[ProgramOp]],
    call_of: dict[int, Hashable],
    meetings: dict[Hashable, list[ProgramOp]],
) -> list[tuple[str, Hashable]]:
    """Sort the events so that each comes after all it depends on: ("issue" or "return", call)."""
    needs: dict[tuple[str, Hashable], set[tuple[str, Hashable]]] = {}
    for name, members in calls.items():
        needs["issue", name] = {("return", call_of[wait]) for op in members for wait in op.waits}
        met = [other for op in members if op.meeting is not None for other in meetings[op.meeting]]
        needs["return", name] = {("issue", name), *(("issue", call_of[other.number]) for other in met)}
    needed_by = defaultdict(list)
    for event, before in needs.items():
        for other in before:
            needed_by[other].append(event)
    open_needs = {event: len(before) for event, before in needs.items()}
    order = [event for event, count in open_needs.items() if count == 0]
    for event in order:  # grows while it is read
        for other in needed_by[event]:
            open_needs[other] -= 1
            if open_needs[other] == 0:
                order.append(other)
    if len(order) < len(needs):
        raise ValueError(
            f"{len(needs) - len(order)} of {len(needs)} events of the program wait for each other"
        )
    return order
