"""Generator of the events of a run: start-ups, checkpoints, failures, restarts.

Events have their own random draws, so that the rank logs of a job are the same with and without events.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from schemas.vocabulary import RUN_EVENTS_FORMAT, RunEvent

Times = NDArray[np.float64]
SPREAD: Final = 0.3
"""Start-ups, outages and checkpoints take their usual time times 1 +- this, uniformly distributed."""


@dataclass(frozen=True)
class RunHabits:
    """Parameters of how a run starts, saves and fails. Times are in seconds, counts in steps.

    save_every, mark_every : number of steps between checkpoints, and between events that state the step
    failures    : number of failures; after each the run continues from its last checkpoint
    silent      : probability that a failure leaves no event
    slow_first_s : how much longer the first step after a start takes
    evaluate_every, evaluate_s : number of steps between evaluations, 0: none; and their length
    names_evaluations : whether evaluations leave events
    queued_s    : time from submission to start; 0: no event states the submission
    """

    startup_s: float = 240.0
    save_every: int = 250
    save_s: float = 8.0
    mark_every: int = 50
    failures: int = 0
    silent: float = 0.0
    outage_s: float = 600.0
    slow_first_s: float = 20.0
    evaluate_every: int = 0
    evaluate_s: float = 0.0
    names_evaluations: bool = True
    queued_s: float = 0.0


@dataclass
class RunCourse:
    """Simulated course of a run: its events without ids, and the time spent on each activity.

    now_s      : Unix time up to which the run is simulated
    spent_s    : seconds by activity; `other` is time outside of steps that no event shows
    lost_steps : numbers of the steps that failures lost, a step once for each failure
    """

    part: "Part"
    now_s: float
    events: list[dict[str, Any]] = field(default_factory=list)
    spent_s: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(
            ("startup", "checkpoint", "evaluation", "outage", "lost_work", "other"), 0.0
        )
    )
    lost_steps: list[int] = field(default_factory=list)

    def spend(self, part: str, lasts_s: float) -> None:
        """Advance the simulated time by an activity other than a step."""
        self.spent_s[part] += lasts_s
        self.now_s += lasts_s

    def note(self, event: str, step: int, lasts_s: float | None = None) -> None:
        """Record an event at the current time; `step` counts from the first step of the part."""
        number = self.part.first_step + step
        line: dict[str, Any] = {"event": event, "at_us": round(self.now_s * 1e6), "step": number}
        self.events.append(line if lasts_s is None else {**line, "duration_us": round(lasts_s * 1e6)})


@dataclass(frozen=True)
class Part:
    """Part of a run that is simulated: the whole run, or one day of a longer run.

    begin_s, until_s : Unix times; the part ends with its last step, or with the first that ends after until_s
    first_step : number of its first step
    goes_on    : whether the run is already training when the part begins
    """

    begin_s: float
    until_s: float = math.inf
    first_step: int = 0
    goes_on: bool = False


def run_through(habits: RunHabits, step_s: Times, part: Part, rng: np.random.Generator) -> RunCourse:
    """Simulate one part of a run: its steps, repeated where failures lose them, and its events.

    step_s : time of each step, shape (step,) [s]
    """
    course = RunCourse(part, part.begin_s)
    failing = sorted(int(step) for step in rng.choice(len(step_s), habits.failures, replace=False))
    saved, begins = 0, RunEvent.STEP if part.goes_on else RunEvent.START
    if habits.queued_s and not part.goes_on:
        submitted_us = round((part.begin_s - habits.queued_s) * 1e6)
        course.events.append({"event": RunEvent.SUBMITTED, "at_us": submitted_us})
    while True:
        course.note(begins, saved)
        if begins != RunEvent.STEP:
            course.spend("startup", _about(habits.startup_s, rng))
            course.note(RunEvent.FIRST_STEP, saved)
            course.spend("other", habits.slow_first_s)
        failed_at = failing.pop(0) if failing else len(step_s)
        saved, is_over = _work(course, habits, step_s[:failed_at], saved, rng)
        if is_over:
            return course
        if failed_at == len(step_s):
            course.note(RunEvent.STOP, failed_at)
            return course
        course.spend("lost_work", float(rng.random() * step_s[failed_at]))
        course.spent_s["lost_work"] += float(step_s[saved:failed_at].sum())
        course.lost_steps += range(saved, failed_at)
        if rng.random() >= habits.silent:
            course.note(RunEvent.FAILURE, failed_at)
        course.spend("outage", _about(habits.outage_s, rng))
        begins = RunEvent.RESTART


def _work(
    course: RunCourse, habits: RunHabits, step_s: Times, first: int, rng: np.random.Generator
) -> tuple[int, bool]:
    """Run steps from `first` on; return the number of saved steps, and whether the part is over."""
    saved = first
    for done in range(first + 1, len(step_s) + 1):
        course.now_s += float(step_s[done - 1])
        is_over = course.now_s >= course.part.until_s
        if done % habits.save_every == 0 and not is_over:
            lasts_s = _about(habits.save_s, rng)
            course.note(RunEvent.CHECKPOINT, done, lasts_s)
            course.spend("checkpoint", lasts_s)
            saved = done
        elif done % habits.mark_every == 0 or is_over:
            course.note(RunEvent.STEP, done)
        if is_over:
            return saved, True
        if habits.evaluate_every and done % habits.evaluate_every == 0:
            if habits.names_evaluations:
                course.note(RunEvent.EVALUATION, done, habits.evaluate_s)
            course.spend("evaluation" if habits.names_evaluations else "other", habits.evaluate_s)
    return saved, False


def _about(usual_s: float, rng: np.random.Generator) -> float:
    return float(usual_s * rng.uniform(1 - SPREAD, 1 + SPREAD))


def write_events(folder: Path, events: Sequence[dict[str, Any]], job_id: str, run_id: str) -> None:
    """Write events.jsonl beside a run's manifest."""
    ids = {"format": RUN_EVENTS_FORMAT, "job_id": job_id, "run_id": run_id}
    (folder / "events.jsonl").write_text("".join(json.dumps({**ids, **event}) + "\n" for event in events))
