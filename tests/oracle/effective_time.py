"""Compute how a run spent its GPU-hours, from section "Effective time" of udfs/README.md alone."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Any

Event = Mapping[str, Any]
Span = tuple[float, float]
STARTS = ("start", "restart")
SUBMITTED = "submitted"
STILL = ("checkpoint", "evaluation", "data_loading")
"""Kinds of events during which training stands still."""
ENDS = ("failure", "stop")


class Try:
    """Events of one attempt to run a job.

    A wait for GPUs is an attempt too, without work. If a contradictory event follows the attempt
    (`is_doubted`), the step number of the attempt's last event is not used.
    """

    def __init__(self, events: list[Event]) -> None:
        self.events = events
        self.is_doubted = False
        self.died = False

    @property
    def kinds(self) -> list[str]:
        return [event["event"] for event in self.events]

    @property
    def work(self) -> list[Event]:
        """Return the attempt's events from its first recorded step on."""
        if self.kinds[0] in (*ENDS, SUBMITTED):
            return []
        if self.kinds[0] not in STARTS:
            return self.events
        return self.events[self.kinds.index("first_step") :] if "first_step" in self.kinds else []

    def can_go_on_with(self, kind: str) -> bool:
        if kind in STARTS:
            return True
        if self.kinds[-1] == SUBMITTED:
            return kind == "stop"
        if kind == SUBMITTED:
            return True
        if self.kinds[-1] in ENDS:
            return self.kinds[-1] == "failure" and kind in ENDS
        return kind != "first_step" if self.work else kind != "step"

    def marks(self, *, is_doubted: bool) -> list[tuple[float, int]]:
        """Return (time, step) of the events of an attempt's work, up to its first failure or stop."""
        found: list[tuple[float, int]] = []
        for event in self.work:
            is_last = event is self.events[-1]
            is_mark = event.get("step") is not None and not (is_last and is_doubted)
            times = [event["at_us"] / 1e6] if is_mark else []
            if is_mark and event["event"] in STILL:
                times.append(end(event))
            for at in times:
                found.append((max(at, found[-1][0]) if found else at, event["step"]))
            if event["event"] in ENDS:
                break
        return found

    def begins_with(self) -> int | None:
        marks = self.marks(is_doubted=self.is_doubted)
        names: int | None = self.events[0].get("step") if self.kinds[0] in STARTS else None
        return marks[0][1] if marks else names

    def saved(self) -> int | None:
        steps = [event.get("step") for event in self.work if event["event"] == "checkpoint"]
        known = [step for step in steps if step is not None]
        return known[-1] if known else None

    def early(self) -> list[Span]:
        """Return the spans of data loading and evaluation before the attempt's first step."""
        if self.kinds[0] not in STARTS:
            return []
        before = [event for event in self.events if event not in self.work]
        return [(end(e) - lasts(e), end(e)) for e in before if e["event"] in ("evaluation", "data_loading")]

    def startup(self) -> list[Span]:
        if self.kinds[0] not in STARTS:
            return []
        if "first_step" in self.kinds:
            return [(end(self.events[0]), self.work[0]["at_us"] / 1e6)]
        between = [event for event in self.events[1:] if event["event"] not in ("evaluation", "data_loading")]
        has_ended = bool(between) and between[0]["event"] in ENDS
        return [(end(self.events[0]), end(between[0]))] if has_ended else []


def cut(span: Span, window: Span) -> Span:
    """Intersection of two spans [s]; an empty intersection may end before it begins."""
    return max(span[0], window[0]), min(span[1], window[1])


def end(event: Event) -> float:
    """Time at which an event ends. [s]"""
    return float(event["at_us"] / 1e6 + lasts(event))


def lasts(event: Event) -> float:
    """Return how long training stands still because of an event. [s]"""
    return float((event.get("duration_us") or 0) / 1e6) if event["event"] in STILL else 0.0


def parts(
    events: Sequence[Event],
    window: Span,
    step_s: tuple[float, float, float],
    gpus: int,
    hours: float,
    *,
    is_split: bool,
) -> dict[str, float]:
    """Return the GPU-hours of every part of the run's time, and the number of `contradictions`.

    window   : begin and end of the time in which the run was scheduled [s]
    step_s   : T_actual, T and T_ideal [s]
    is_split : whether the number of steps in the window, K, is known
    """
    tries, outages, queues, wrong = followed(events)
    actual_s, simulated_s, ideal_s = step_s
    works = [worked(tries, place, window, actual_s) for place in range(len(tries))] if is_split else []
    kept_s = sum(kept for kept, _ in works)
    found_s = {
        "productive": kept_s * ideal_s / actual_s,
        "straggling": kept_s * (simulated_s - ideal_s) / actual_s,
        "late_start": kept_s * (actual_s - simulated_s) / actual_s,
        "lost_work": sum(lost for _, lost in works),
        "startup": max(
            0.0,
            sum(
                shared(span, window) - sum(shared(load, cut(span, window)) for load in each.early())
                for each in tries
                for span in each.startup()
            ),
        ),
        **{
            kind: sum(shared(span, window) for each in tries for span in stalls(each, kind)) for kind in STILL
        },
    }
    found = {name: part_s * gpus / 3600 for name, part_s in found_s.items()}
    outage = sum(shared(span, window) for span in outages) * gpus / 3600
    found["outage"] = max(0.0, min(outage, hours - sum(found.values())))
    if sum(found.values()) > 1.01 * hours:
        found = dict.fromkeys(found, 0.0)
        wrong += 1
    waits = [max(until - since, 0.0) for since, until in queues if window[0] <= until < window[1]]
    found |= {"unknown": hours - sum(found.values()), "contradictions": wrong}
    return found | {"queued": sum(waits) * gpus / 3600}


def followed(events: Sequence[Event]) -> tuple[list[Try], list[Span], list[Span], int]:
    """Split events into attempts, outages and waits for GPUs, and count events that contradict earlier ones.

    A wait begins at minus infinity if a run starts without a recorded submission.
    """
    tries: list[Try] = []
    outages: list[Span] = []
    queues: list[Span] = []
    now: Try | None = None
    wrong, last_end = 0, -inf
    said = [tuple(event.get(name) for name in ("event", "at_us", "step", "duration_us")) for event in events]
    for place, logged in enumerate(events):
        if place and said[place] == said[place - 1]:
            wrong += 1
            continue
        is_early = logged["event"] == SUBMITTED and last_end > logged["at_us"] / 1e6
        event = {**logged, "at_us": last_end * 1e6} if is_early else logged
        is_new = event["event"] in (*STARTS, SUBMITTED)
        if is_contrary(event, now, last_end):
            wrong += 1
            if now is not None:
                now.is_doubted = True
            now = None
            continue
        last_end = max(last_end, end(event))
        if now is not None and not is_new:
            now.events.append(event)
            continue
        leave(now, event, outages, queues)
        now = Try([event])
        tries.append(now)
    return tries, outages, queues, wrong


def is_contrary(event: Event, now: Try | None, last_end: float) -> bool:
    """Return whether an event contradicts the earlier events of an attempt."""
    if event["at_us"] / 1e6 < last_end - 1:
        return True
    if now is None:
        return False
    kind, step, marks = event["event"], event.get("step"), now.marks(is_doubted=False)
    is_lower = bool(marks) and step is not None and step < marks[-1][1]
    return (is_lower and kind not in (*STARTS, SUBMITTED)) or not now.can_go_on_with(kind)


def leave(before: Try | None, event: Event, outages: list[Span], queues: list[Span]) -> None:
    """Add the outage, or the wait for GPUs, that ends when `event` begins a new attempt."""
    at = event["at_us"] / 1e6
    last = None if before is None else before.kinds[-1]
    if before is not None and last == "failure":
        first = next(each for each in before.events if each["event"] == "failure")
        outages.append((first["at_us"] / 1e6, at))
    elif before is not None and last not in ("stop", SUBMITTED):
        before.died = True
    if before is not None and last == SUBMITTED:
        queues.append((before.events[0]["at_us"] / 1e6, at))
    elif event["event"] == "start":
        queues.append((-inf, at))


def worked(tries: Sequence[Try], place: int, window: Span, actual_s: float) -> Span:
    """Return the time that an attempt worked in a window on steps that were kept, and on lost steps. [s]"""
    attempt = tries[place]
    marks = attempt.marks(is_doubted=attempt.is_doubted)
    later = [step for each in tries[place + 1 :] if (step := each.begins_with()) is not None]
    redone_from: float = min(later, default=inf)
    believed = attempt.kinds[:-1] if attempt.is_doubted else attempt.kinds
    if not later and marks and (attempt.died or "failure" in believed):
        saved = attempt.saved()
        redone_from = marks[0][1] if saved is None else saved
    steps, kept = 0.0, 0.0
    for (begin, low), (finish, high) in pairwise(marks):
        is_at_once = finish == begin
        if high <= low or (is_at_once and not window[0] <= begin <= window[1]):
            continue
        for_step = (finish - begin) / (high - low)
        first = low if is_at_once else low + (min(max(window[0], begin), finish) - begin) / for_step
        last = high if is_at_once else low + (min(max(window[1], begin), finish) - begin) / for_step
        steps += last - first
        kept += max(0.0, min(last, redone_from) - first)
    if steps <= 0:
        return 0.0, 0.0
    whole = (marks[0][0], marks[-1][0])
    inside = (max(whole[0], window[0]), min(whole[1], window[1]))
    moved = shared(whole, window) - sum(shared(span, inside) for span in stalls(attempt))
    at_work = max(0.0, min(steps * actual_s, moved))
    return at_work * kept / steps, at_work * (steps - kept) / steps


def stalls(attempt: Try, *kinds: str) -> list[Span]:
    """Return the spans in which an attempt's training stood still; early checkpoints do not count."""
    still = [each for each in attempt.events if each["event"] in (kinds or STILL)]
    counted = [each for each in still if each["event"] != "checkpoint" or each in attempt.work]
    return [(each["at_us"] / 1e6, end(each)) for each in counted]


def shared(span: Span, window: Span) -> float:
    """Length of the intersection of two spans. [s]"""
    return max(0.0, min(span[1], window[1]) - max(span[0], window[0]))
