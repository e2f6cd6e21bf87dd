"""Replay a job of several runs, from section "Jobs of several roles" of udfs/README.md alone."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Span = tuple[str, int]
"""(role, iteration)."""
Run = tuple[str, str]
"""(job_id, run_id)."""

Step = Mapping[str, Any]
"""A row of role_step."""


@dataclass
class Answer:
    """Results for a job of several runs; times are in seconds and count from the first start."""

    whole_s: float = 0.0
    waits_for: dict[str, set[str]] = field(default_factory=dict)
    waits_for_before: dict[str, set[str]] = field(default_factory=dict)
    gap_s: dict[Span, float] = field(default_factory=dict)
    waited_for_s: dict[Span, float] = field(default_factory=dict)
    busy_s: dict[Span, float] = field(default_factory=dict)
    saved: dict[tuple[str, str], float] = field(default_factory=dict)
    """Saved share of the whole's time, by (role, scenario)."""


class OracleWhole:
    """Spans of a job of several runs; a span is the time of one role in one iteration."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps: dict[Span, dict[Run, list[Step]]] = defaultdict(lambda: defaultdict(list))
        zero_us = min(step["start_us"] for step in steps)
        for step in steps:
            times = {
                "s": (step["start_us"] - zero_us) / 1e6,
                "e": (step["end_us"] - zero_us) / 1e6,
            }
            run = (step["job_id"], step["run_id"])
            self.steps[step["role"], step["iteration"]][run].append({**step, **times})
        every = {span: [step for some in runs.values() for step in some] for span, runs in self.steps.items()}
        self.start: dict[Span, float] = {
            span: min(step["s"] for step in some) for span, some in every.items()
        }
        self.end: dict[Span, float] = {span: max(step["e"] for step in some) for span, some in every.items()}
        self.roles = sorted({role for role, _ in self.steps})
        self.iterations = sorted({iteration for _, iteration in self.steps})

    def waits(self, later: str, earlier: str, *, before: bool) -> bool:
        """Return whether a role waits for another role of the same iteration, or of the one before."""
        seen = False
        for iteration in self.iterations:
            one, other = (later, iteration), (earlier, iteration - before)
            if one not in self.steps or other not in self.steps or (one == other):
                continue
            seen = True
            shorter = min(self.end[one] - self.start[one], self.end[other] - self.start[other])
            if self.start[one] < self.end[other] - min(0.05, 0.1 * shorter):
                return False
        return seen

    def waited_for(self, span: Span) -> list[Span]:
        """Return the spans that the given span waits for."""
        role, iteration = span
        found = [(other, iteration) for other in self.roles if self.waits(role, other, before=False)]
        found += [(other, iteration - 1) for other in self.roles if self.waits(role, other, before=True)]
        return [each for each in found if each in self.steps]

    def gap(self, span: Span) -> float | None:
        """Return the pause before a span after all spans that it waits for; None if it waits for none. [s]"""
        some = self.waited_for(span)
        return self.start[span] - max(self.end[each] for each in some) if some else None

    def stretches(self) -> list[list[Span]]:
        """Return the spans of each stretch of consecutive iterations."""
        found: list[list[Span]] = []
        for iteration in self.iterations:
            if iteration - 1 not in self.iterations:
                found.append([])
            found[-1] += [span for span in self.steps if span[1] == iteration]
        return found

    def time(self, factor: Callable[[str, Sequence[Step], Run], float]) -> float:
        """Time of all iterations if the steps of each run take `factor` of their recorded time. [s]"""
        ends: dict[Span, float] = {}

        def end(span: Span) -> float:
            if span not in ends:
                some, gap = self.waited_for(span), self.gap(span)
                start = self.start[span] if gap is None else max(end(each) for each in some) + gap
                of_runs = []
                for run, steps in self.steps[span].items():
                    first, last = min(s["s"] for s in steps), max(s["e"] for s in steps)
                    left = (last - first) - (1 - factor(span[0], steps, run)) * busy(steps)
                    of_runs.append(start + (first - self.start[span]) + left)
                ends[span] = max(of_runs)
            return ends[span]

        stretches = self.stretches()
        return sum(max(map(end, spans)) - min(self.start[span] for span in spans) for spans in stretches)


def busy(steps: Sequence[Step]) -> float:
    """Time in which at least one of a role's steps runs. [s]"""
    marks: list[float] = sorted({step[side] for step in steps for side in "se"})
    middles = [(left, right, (left + right) / 2) for left, right in pairwise(marks)]
    return sum(
        right - left for left, right, middle in middles if any(s["s"] <= middle <= s["e"] for s in steps)
    )


def ideal(steps: Sequence[Step]) -> float:
    """Ratio of the ideal to the recorded time of some steps; 1 if no time was recorded."""
    recorded_s: float = sum(step["actual_step_s"] for step in steps)
    ideal_s: float = sum(step["ideal_step_s"] for step in steps)
    return ideal_s / recorded_s if recorded_s else 1.0


SCENARIOS: Mapping[str, Callable[[Sequence[Step], float], float]] = {
    "if_fixed": lambda _, lost: 1 - lost,
    "if_ideal": lambda steps, _: ideal(steps),
    "if_twice_as_fast": lambda *_: 0.5,
}
"""By scenario, a function of a run's steps and lost share that gives the factor on the steps' time."""


def scaled(
    role: str, factor: Callable[[Sequence[Step], float], float], lost: Mapping[Run, float]
) -> Callable[[str, Sequence[Step], Run], float]:
    """Return a function for `OracleWhole.time` that scales the steps of one role and leaves all others."""
    return lambda each, steps, run: factor(steps, lost[run]) if each == role else 1.0


def answer(rows: Sequence[Step], lost: Mapping[Run, float]) -> Answer:
    """Compute all results for a job of several runs.

    rows : rows of role_step
    lost : lost fraction of each run's time
    """
    whole, found = OracleWhole(rows), Answer()
    found.whole_s = whole.time(lambda *_: 1.0)
    for role in whole.roles:
        found.waits_for[role] = {other for other in whole.roles if whole.waits(role, other, before=False)}
        found.waits_for_before[role] = {
            other for other in whole.roles if whole.waits(role, other, before=True)
        }
        for name, factor in SCENARIOS.items():
            time_s = whole.time(scaled(role, factor, lost))
            found.saved[role, name] = 1 - time_s / found.whole_s
    for span, runs in whole.steps.items():
        found.busy_s[span] = busy([step for some in runs.values() for step in some])
        gap = whole.gap(span)
        if gap is not None:
            found.gap_s[span] = gap
    for spans in whole.stretches():
        span = max(spans, key=lambda each: whole.end[each])
        while True:
            found.waited_for_s[span] = whole.end[span] - whole.start[span]
            some = whole.waited_for(span)
            if not some:
                break
            span = max(some, key=lambda each: whole.end[each])
    return found
