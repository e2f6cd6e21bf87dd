"""Derive from a run's events its attempts, and what happened between two attempts.

udfs/README.md, "Effective time", has the rules and terms. A run has few events, so that plain Python
suffices.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa

from schemas.vocabulary import STALLS, UNIT_KEY, RunEvent

CLOCK_SLACK_S: Final = 1.0
"""An event may begin by this time before the previous event ends, because clocks are sometimes corrected.
[s]"""

_US: Final = 1e-6
_AT_WORK: Final = "at work"
_STARTING: Final = "starting"
_SAVED_EARLY: Final = "starting, and saved before the first step"
_DOWN: Final = "down"
_STOPPED: Final = "stopped"
_QUEUED: Final = "queued"
_UNKNOWN: Final = "unknown"
_IN_STARTUP: Final = frozenset({_STARTING, _SAVED_EARLY})
_RUNNING: Final = _IN_STARTUP | {_AT_WORK, _UNKNOWN}
_STATES: Final = _RUNNING | {_DOWN, _STOPPED, _QUEUED}
_ALLOWED: Final = {
    RunEvent.START: _STATES,
    RunEvent.RESTART: _STATES,
    RunEvent.FIRST_STEP: {_STARTING, _SAVED_EARLY, _UNKNOWN},
    RunEvent.STEP: {_AT_WORK, _UNKNOWN},
    **dict.fromkeys(STALLS, _RUNNING),
    RunEvent.FAILURE: _RUNNING | {_DOWN},
    RunEvent.STOP: _STATES - {_STOPPED},
    RunEvent.SUBMITTED: _STATES - {_QUEUED},
}
"""By kind of event, the states of a run that allow it; a run may die without an event, and start in any
state."""


class Span(NamedTuple):
    """A span of time from start to end. [s]"""

    begin_s: float
    end_s: float

    def within(self, window: "Span") -> "Span":
        """Return the intersection with a window; it is empty if the two do not overlap."""
        begin_s = min(max(self.begin_s, window.begin_s), window.end_s)
        return Span(begin_s, max(begin_s, min(self.end_s, window.end_s)))

    @property
    def length_s(self) -> float:
        """Length of the interval; 0 if its recorded end lies before its recorded start. [s]"""
        return max(self.end_s - self.begin_s, 0.0)


@dataclass
class Attempt:
    """One attempt of a run from its start to its end, by the run's events.

    resumes_at : step that its start names; None if it names none
    times_s, steps : marks by time; a mark is a time, and the step that comes next at this time
    stalls     : spans in which training stood still, by kind of event, which is one of STALLS
    saved_step : step that comes next after the last checkpoint; None if unknown
    has_failed : whether it ended by a failure
    """

    resumes_at: int | None = None
    times_s: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    stalls: dict[str, list[Span]] = field(default_factory=dict)
    saved_step: int | None = None
    has_failed: bool = False

    @property
    def first_step(self) -> int | None:
        """The attempt's first step, or None if no event names it."""
        return self.steps[0] if self.steps else self.resumes_at

    def mark(self, at_s: float, step: int | None) -> None:
        """Record the step that comes next at a given time."""
        if step is not None:
            self.times_s.append(max([at_s, *self.times_s[-1:]]))
            self.steps.append(step)

    def forget(self, marks: int) -> None:
        """Drop all (time, step) pairs of the attempt except for the first `marks`."""
        del self.times_s[marks:], self.steps[marks:]


@dataclass
class Course:
    """Attempts of a run and the times around them, by the run's events; in Unix time. [s]

    startups, outages : from a start to the first step, and from a failure to the next start
    early   : parts of startups in which the run loaded data or evaluated
    held    : parts of outages in which the run keeps its GPUs, until it is submitted again or starts
    queues  : from a submission to the start
    unqueued_s : times of starts without a submission before; restarts need none
    times_s : times of events by kind, without discarded events
    contradictions : number of events that contradict the event before
    """

    attempts: list[Attempt] = field(default_factory=list)
    startups: list[Span] = field(default_factory=list)
    early: list[Span] = field(default_factory=list)
    outages: list[Span] = field(default_factory=list)
    held: list[Span] = field(default_factory=list)
    queues: list[Span] = field(default_factory=list)
    unqueued_s: list[float] = field(default_factory=list)
    times_s: dict[str, list[float]] = field(default_factory=dict)
    contradictions: int = 0

    def kept_below(self) -> list[float]:
        """Return for each attempt its first step that was or must be repeated; infinite without one."""
        found, least = [], math.inf
        for attempt in reversed(self.attempts):
            mine = least
            if attempt.has_failed and least == math.inf and attempt.steps:
                mine = attempt.steps[0] if attempt.saved_step is None else attempt.saved_step
            found.append(mine)
            least = min(least, math.inf if attempt.first_step is None else attempt.first_step)
        return found[::-1]


class _Follower:
    """State machine that reads the events of a run."""

    def __init__(self) -> None:
        self.course = Course()
        self._state, self._since_s, self._last_s = _UNKNOWN, 0.0, -math.inf
        self._attempt: Attempt | None = None
        self._marks, self._had_failed = 0, False  # state of the attempt before the last event
        self._failed_s: float | None = None  # time of the failure before the run was queued again
        self._early: list[Span] = []  # stalls of the present startup
        self._last_kind: str | None = None

    def take(self, kind: str, at_s: float, step: int | None, stall_s: float) -> None:
        """Take the next event; if two events contradict each other, both are discarded."""
        if kind == RunEvent.SUBMITTED:
            at_s = max(at_s, self._last_s)  # a run submitted in advance waits from the last event on
        before = self._attempt.steps[-1:] if self._attempt is not None else []
        is_new = kind in (RunEvent.START, RunEvent.RESTART)
        goes_back = at_s < self._last_s - CLOCK_SLACK_S
        is_mark = not is_new and kind != RunEvent.SUBMITTED
        undoes = is_mark and step is not None and bool(before) and step < before[0]
        if goes_back or undoes or self._state not in _ALLOWED[kind]:
            self.course.contradictions += 1
            if self._attempt is not None:
                self._attempt.forget(self._marks)
                self._attempt.has_failed = self._had_failed
            if self._last_kind is not None:
                self.course.times_s[self._last_kind].pop()
            self._state, self._attempt, self._last_kind, self._failed_s = _UNKNOWN, None, None, None
            return
        self.course.times_s.setdefault(kind, []).append(at_s)
        self._last_kind = kind
        self._last_s = max(self._last_s, at_s + stall_s)
        if self._attempt is not None:
            self._marks, self._had_failed = len(self._attempt.steps), self._attempt.has_failed
        if is_new:
            self._begins(kind, at_s, step)
        elif kind == RunEvent.SUBMITTED:
            self._leaves(at_s)
            self._state, self._since_s, self._attempt = _QUEUED, at_s, None
        elif kind in (RunEvent.FAILURE, RunEvent.STOP):
            self._ends(at_s, step, has_failed=kind == RunEvent.FAILURE)
        elif kind in STALLS and self._state in _IN_STARTUP:
            self._stalls_early(kind, Span(at_s, at_s + stall_s))
        else:
            self._goes_on(kind, at_s, step, stall_s)

    def _begins(self, kind: str, at_s: float, step: int | None) -> None:
        if self._state == _QUEUED:
            self.course.queues.append(Span(self._since_s, at_s))
        else:
            self._leaves(at_s)
            self.course.unqueued_s += [at_s] if kind == RunEvent.START else []
        if self._failed_s is not None:
            self.course.outages.append(Span(self._failed_s, at_s))
        self._open(step)
        self._state, self._since_s, self._failed_s, self._early = _STARTING, at_s, None, []

    def _leaves(self, at_s: float) -> None:
        """End the current attempt if a start or a submission shows that it is over."""
        self._failed_s = self._since_s if self._state == _DOWN else None
        if self._failed_s is not None:
            self.course.held.append(Span(self._failed_s, at_s))
        elif self._state in _RUNNING and self._attempt is not None:
            self._attempt.has_failed = True  # it died without an event

    def _stalls_early(self, kind: str, span: Span) -> None:
        if kind == RunEvent.CHECKPOINT:
            # If no first step follows, the run was at work without an event that says so.
            self._state = _SAVED_EARLY
        elif self._attempt is not None:
            self._attempt.stalls.setdefault(kind, []).append(span)
            self._early.append(span)

    def _is_up(self, at_s: float) -> None:
        startup = Span(self._since_s, at_s)
        self.course.startups.append(startup)
        self.course.early += (span.within(startup) for span in self._early)

    def _goes_on(self, kind: str, at_s: float, step: int | None, stall_s: float) -> None:
        if self._state in _IN_STARTUP:
            self._is_up(at_s)
        attempt = self._attempt or self._open(None)
        attempt.mark(at_s, step)
        if kind in STALLS:
            attempt.stalls.setdefault(kind, []).append(Span(at_s, at_s + stall_s))
            attempt.mark(at_s + stall_s, step)
        if kind == RunEvent.CHECKPOINT and step is not None:
            attempt.saved_step = step
        self._state = _AT_WORK

    def _ends(self, at_s: float, step: int | None, *, has_failed: bool) -> None:
        if self._state == _STARTING:
            self._is_up(at_s)
        if self._attempt is not None:
            self._attempt.has_failed |= has_failed
            if self._state == _AT_WORK:
                self._attempt.mark(at_s, step)
        if self._state != _DOWN:
            self._since_s = at_s
        self._state = _DOWN if has_failed else _STOPPED

    def _open(self, step: int | None) -> Attempt:
        self._attempt, self._marks, self._had_failed = Attempt(step), 0, False
        self.course.attempts.append(self._attempt)
        return self._attempt


def in_order(rows: pa.Table) -> pa.Table:
    """Sort rows of run_events by log and line, and keep the columns that course_of reads."""
    names = [*UNIT_KEY, "event", "at_us", "step", "duration_us"]
    ordered = rows.sort_by([("source_file", "ascending"), ("line", "ascending")])
    return ordered.select([name for name in names if name in rows.column_names])


def course_of(events: Iterable[Mapping[str, Any]]) -> Course:
    """Derive the course of a run from its rows of run_events, in the order of the log."""
    follower = _Follower()
    before: tuple[object, ...] = ()
    for event in events:
        kind, stall_us = event["event"], event.get("duration_us")
        same = (kind, event["at_us"], event.get("step"), stall_us)
        if same == before:  # log shippers may repeat lines
            follower.course.contradictions += 1
            continue
        before = same
        stall_s = (stall_us or 0.0) * _US if kind in STALLS else 0.0
        follower.take(kind, event["at_us"] * _US, event.get("step"), stall_s)
    return follower.course
