"""Effective time: what the GPU-hours of a run were spent on in a day, for the table job_time.

Equations: udfs/README.md, "Effective time".
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import numpy as np

from schemas.vocabulary import STALLS, RunEvent, Status
from udfs.simulate.odd_records import log_day
from udfs.simulate.run_course import Attempt, Course, Span, course_of

Row = dict[str, Any]

MOST_OVERDRAWN: Final = 0.01
"""Share of the scheduled GPU-hours by which the parts may exceed them, as clocks and manifests are
inexact."""
_ROUNDING: Final = 1e-12
"""Rounding error of the sum of the parts, as a share of the scheduled GPU-hours; a smaller rest is stored as
0."""
_HOUR_S: Final = 3600.0
_COUNTED: Final = {
    "starts": (RunEvent.START, RunEvent.RESTART),
    "failures": (RunEvent.FAILURE,),
    "checkpoints": (RunEvent.CHECKPOINT,),
}


class StepTimes(NamedTuple):
    """Mean step times of a replayed unit: T_actual, T and T_ideal. [s]"""

    actual_s: float
    simulated_s: float
    ideal_s: float


class Work(NamedTuple):
    """Steps in a time window, and the time spent on them [s]; lost steps were repeated, or have to be."""

    steps_kept: float = 0.0
    steps_lost: float = 0.0
    kept_s: float = 0.0
    lost_s: float = 0.0


def time_rows(
    facts: Mapping[str, object], job: Row, times: StepTimes, lost_fraction: float | None
) -> list[Row]:
    """Return the row of job_time for a replayed unit; no row without events or GPU-hours.

    facts : the manifest; its `events` are rows of run_events in the order of the log
    job   : the unit's row of job_slowdown: status, world_size, gpu_hours
    lost_fraction : lost share of T_actual, summed over job_causes; None if the unit was not diagnosed
    """
    events, scheduled, gpus = facts.get("events"), job["gpu_hours"], job["world_size"]
    if not isinstance(events, Sequence) or not events or not scheduled or not gpus:
        return []
    course, window = course_of(events), _window(facts)
    work, spent_s = _shown(course, window, job["status"], times)
    scheduled_s = scheduled * _HOUR_S / gpus
    spent_s["outage"] = min(_length_s(course.held, window), max(scheduled_s - sum(spent_s.values()), 0.0))
    is_overdrawn = sum(spent_s.values()) > scheduled_s * (1 + MOST_OVERDRAWN)
    if is_overdrawn:  # the manifest and the events contradict each other, and either may be wrong
        spent_s, work = dict.fromkeys(spent_s, 0.0), Work()
    hours = {name: part_s * gpus / _HOUR_S for name, part_s in spent_s.items()}
    unknown = scheduled - sum(hours.values())
    kept = hours["productive"] + hours["straggling"] + hours["late_start"]
    queued = None
    if not any(window.begin_s <= at_s < window.end_s for at_s in course.unqueued_s):
        waits = (span for span in course.queues if window.begin_s <= span.end_s < window.end_s)
        queued = math.fsum(span.length_s for span in waits) * gpus / _HOUR_S
    return [
        {
            "scheduled_gpu_hours": scheduled,
            **{f"{name}_gpu_hours": part for name, part in hours.items()},
            "unknown_gpu_hours": 0.0 if abs(unknown) <= _ROUNDING * scheduled else unknown,
            "ettr": kept / scheduled,
            "productive_fraction": hours["productive"] / scheduled,
            "lost_to_causes_gpu_hours": None if lost_fraction is None else kept * lost_fraction,
            "steps_kept": work.steps_kept,
            "steps_lost": work.steps_lost,
            "outage_s": _length_s(course.outages, window),
            "queued_gpu_hours": queued,
            **{name: _count(course, window, kinds) for name, kinds in _COUNTED.items()},
            "contradictions": course.contradictions + is_overdrawn,
        }
    ]


def shown_gpu_hours(facts: Mapping[str, Any], job: Mapping[str, Any], times: StepTimes) -> float:
    """Return the GPU-hours that a unit's events show, without outages; stated GPU-hours do not matter.

    facts, job, times : as in time_rows
    """
    _, spent_s = _shown(course_of(facts["events"]), _window(facts), job["status"], times)
    return sum(spent_s.values()) * float(job["world_size"]) / _HOUR_S


def _shown(course: Course, window: Span, status: str, times: StepTimes) -> tuple[Work, dict[str, float]]:
    """Return the work in a window, and the seconds spent on each known part of it, except outages."""
    # Steps can be divided into parts if the replay matches the log, or leaves out only late starts.
    is_late = status == Status.HIGH_DISCREPANCY and times.actual_s >= times.simulated_s
    work = Work()
    if status == Status.ANALYSED or is_late:
        done = []
        for attempt, kept_below in zip(course.attempts, course.kept_below(), strict=True):
            if not attempt.steps:
                continue
            # Steps are interpolated between known (time, step) pairs.
            inside = Span(attempt.times_s[0], attempt.times_s[-1]).within(window)
            times_s, marks = np.array(attempt.times_s), np.array(attempt.steps)
            # Of several marks at the begin of the window the first counts, which np.interp finds in reverse.
            first = float(np.interp(-inside.begin_s, -times_s[::-1], marks[::-1]))
            last = float(np.interp(inside.end_s, times_s, marks))
            if last > first:
                stalled_s = sum(_stalled_s(attempt, kind, inside) for kind in STALLS)
                at_work_s = max(min((last - first) * times.actual_s, inside.length_s - stalled_s), 0.0)
                kept = min(max(kept_below - first, 0.0), last - first)
                each_s = at_work_s / (last - first)
                done.append(Work(kept, last - first - kept, kept * each_s, (last - first - kept) * each_s))
        work = Work(*(math.fsum(column) for column in zip(*done, strict=True))) if done else work
    steps = work.kept_s / times.actual_s
    return work, {
        "productive": steps * times.ideal_s,
        "straggling": steps * (times.simulated_s - times.ideal_s),
        "late_start": steps * (times.actual_s - times.simulated_s),
        "lost_work": work.lost_s,
        "startup": max(_length_s(course.startups, window) - _length_s(course.early, window), 0.0),
        **{kind: sum(_stalled_s(attempt, kind, window) for attempt in course.attempts) for kind in STALLS},
    }


def _stalled_s(attempt: Attempt, kind: str, window: Span) -> float:
    return _length_s(attempt.stalls.get(kind, ()), window)


def _length_s(spans: Iterable[Span], window: Span) -> float:
    return math.fsum(span.within(window).length_s for span in spans)


def _count(course: Course, window: Span, kinds: Sequence[str]) -> int:
    times_s = [at_s for kind in kinds for at_s in course.times_s.get(kind, ())]
    return sum(window.begin_s <= at_s < window.end_s for at_s in times_s)


def _window(facts: Mapping[str, object]) -> Span:
    """Return the run's time on its log date (UTC); unbounded where day, start or end is unknown. [s]"""
    begin_s, end_s = (each_us / 1e6 for each_us in log_day(facts, 0.0) or (-math.inf, math.inf))
    started_s, ended_s = (_moment_s(facts.get(name)) for name in ("started_at", "ended_at"))
    begin_s = begin_s if started_s is None else max(begin_s, started_s)
    end_s = end_s if ended_s is None else min(end_s, ended_s)
    return Span(min(begin_s, end_s), end_s)


def _moment_s(value: object) -> float | None:
    """Convert a timestamp from a jobs row or job.json to Unix time; None for any other value. [s]"""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    return value.timestamp() if isinstance(value, datetime) and value.tzinfo is not None else None
