"""The best checkpoint interval by Young and Daly, from the failures and checkpoints in a run's events.

The best interval is that of J. T. Daly, "A higher order estimate of the optimum checkpoint interval for
restart dumps", FGCS 22 (2006), Eq. 37; its first order is Young's. The saving counts time for checkpoints,
for work lost at failures, and for restarts. Failures are assumed to be proportional to working time, so that
a run that repeats less work fails less often. Expected times of both intervals are compared, because the work
that a failure destroys is random.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from schemas.vocabulary import RunEvent
from udfs.simulate.run_course import Attempt, Span, course_of

LEAST_FAILURES: Final = 2
"""With fewer failures, the time between failures is not known even roughly."""

MOST_TIMES: Final = 700.0
"""Intervals count as at most this multiple of the time between failures, beyond which exp overflows."""


class Interval(NamedTuple):
    """Present and best interval between two checkpoints.

    now_s, best_s : working time from one checkpoint to the next. [s]
    stall_s       : time for which a checkpoint stops the work. [s]
    failures, between_s : number of failures, and working time per failure. [s]
    saved_fraction : expected part of the run's time that the best interval saves over the present one.
    """

    now_s: float
    best_s: float
    stall_s: float
    failures: int
    between_s: float
    saved_fraction: float


def best_interval(events: Iterable[Mapping[str, Any]]) -> Interval | None:
    """Find the best checkpoint interval of a run.

    None if the events show fewer than two failures, or no interval. Also None if the best interval would save
    more than the run lost: its failures were then not random, as in a loop of crashes.

    events : rows of run_events in the order of the log.
    """
    course = course_of(events)
    attempts = course.attempts
    failures = sum(attempt.has_failed for attempt in attempts)
    works = [_work_of(attempt) for attempt in attempts]
    late_s = _late_s(works)
    work_s, kept_s, gaps_s, stalls_s = 0.0, 0.0, list[float](), list[float]()
    for attempt, work, slow_s, kept_below in zip(attempts, works, late_s, course.kept_below(), strict=True):
        work_s += work.own_s - slow_s
        kept_s += (work.own_s - slow_s) * _kept_share(attempt.steps, kept_below)
        saves = attempt.stalls.get(RunEvent.CHECKPOINT, [])
        stalls_s += [save.length_s for save in saves]
        ends_s = [*attempt.times_s[:1], *(save.end_s for save in saves)]
        between = [Span(end_s, save.begin_s) for save, end_s in zip(saves, ends_s, strict=False)]
        gaps_s += [_own_s(attempt, gap) for gap in between]
    if failures < LEAST_FAILURES or not gaps_s or min(kept_s, sum(stalls_s), float(np.median(gaps_s))) <= 0.0:
        return None
    now_s, stall_s, between_s = float(np.median(gaps_s)), float(np.mean(stalls_s)), work_s / failures
    best_s = daly(stall_s, between_s)
    starts_s = [span.length_s for span in course.startups], late_s
    # Starts that no failure caused take the same time with any interval.
    first_s = sum(sum(each_s[: max(len(each_s) - failures, 0)]) for each_s in starts_s)
    idle_s = sum(map(sum, starts_s)) - first_s + sum(span.length_s for span in course.outages)
    times_s = [
        first_s + _worked_s(kept_s, every_s, between_s) * (1 + idle_s / work_s) + kept_s // every_s * stall_s
        for every_s in (now_s, best_s)
    ]
    saved = 1 - times_s[1] / times_s[0]
    lost_s = work_s - kept_s + sum(stalls_s) + idle_s
    if saved * (work_s + sum(stalls_s) + first_s + idle_s) > lost_s:
        return None
    return Interval(now_s, best_s, stall_s, failures, between_s, saved)


class _Work(NamedTuple):
    """Working time and steps of an attempt, in total and until its first event with a later step. [s]

    Time before the attempt's first event with a step is start-up, and does not count.
    """

    own_s: float = 0.0
    steps: int = 0
    first_s: float = 0.0
    first_steps: int = 0


def _work_of(attempt: Attempt) -> _Work:
    later = [at for at, step in enumerate(attempt.steps) if step > attempt.steps[0]]
    if not later:
        return _Work(_own_s(attempt, Span(attempt.times_s[0], attempt.times_s[-1])) if attempt.steps else 0.0)
    first, *_, last = attempt.steps
    begin_s, end_s = attempt.times_s[0], attempt.times_s[-1]
    until_s, until = attempt.times_s[later[0]], attempt.steps[later[0]]
    of_all_s, of_first_s = (_own_s(attempt, Span(begin_s, each_s)) for each_s in (end_s, until_s))
    return _Work(of_all_s, last - first, of_first_s, until - first)


def _late_s(works: Sequence[_Work]) -> list[float]:
    """Return how much longer the first steps of each attempt took than as many later steps. [s]

    Later steps are those of the same attempt, whose hosts may be slow; if it has none, those of all attempts.
    """
    steps = sum(work.steps - work.first_steps for work in works)
    later_s = sum(work.own_s - work.first_s for work in works if work.steps)
    late_s = []
    for work in works:
        own_steps = work.steps - work.first_steps
        pace_s = (work.own_s - work.first_s) / own_steps if own_steps else later_s / max(steps, 1)
        is_known = bool(work.first_steps and steps)
        late_s.append(max(work.first_s - work.first_steps * pace_s, 0.0) if is_known else 0.0)
    return late_s


def _own_s(attempt: Attempt, span: Span) -> float:
    """Return the length of a span minus the times in it in which training stood still. [s]"""
    still = (stall for kind in attempt.stalls.values() for stall in kind)
    return span.length_s - sum(stall.within(span).length_s for stall in still)


def _kept_share(steps: Sequence[int], kept_below: float) -> float:
    """Return the share of an attempt's steps that no later attempt repeats; steps : of its events."""
    if not steps:
        return 0.0
    done = steps[-1] - steps[0]
    return min(max(kept_below - steps[0], 0.0), done) / done if done > 0 else 0.0


def daly(stall_s: float, between_s: float) -> float:
    """Return Daly's interval between checkpoints (Eq. 37): sqrt(2 C M) with two higher-order terms. [s]"""
    if stall_s >= 2 * between_s:
        return between_s
    part = stall_s / (2 * between_s)
    return math.sqrt(2 * stall_s * between_s) * (1 + math.sqrt(part) / 3 + part / 9) - stall_s


def _worked_s(kept_s: float, every_s: float, between_s: float) -> float:
    """Return the mean working time until a given amount of work is saved, if failures are random.

    The work after the last checkpoint is shorter than an interval, and is repeated less often.
    """
    whole, left_s = divmod(kept_s, every_s)
    again, last = (math.expm1(min(each_s / between_s, MOST_TIMES)) for each_s in (every_s, left_s))
    return between_s * (whole * again + last)
