"""Comparison of a daily value of jobs, such as waste, before and after a date, with interval and verdict."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final

import numpy as np

from udfs.kernel.student import ROUNDING, student_quantile

Row = Mapping[str, Any]

LEAST: Final = 3
"""Fewest numbers on each side for an interval: two numbers say too little about how much they vary."""
UNITS: Final = "units"
"""Name of trials that are units: a day on which a job had two runs counts as two trials."""
BETTER: Final = "better"
WORSE: Final = "worse"
UNKNOWN: Final = "not enough evidence"


@dataclass(frozen=True)
class Difference:
    """Mean after minus mean before, with its confidence interval, in the unit of the values.

    low, high : ends of the interval; None with fewer than LEAST numbers on a side, or if no number varies
    """

    before: float | None
    after: float | None
    count_before: int
    count_after: int
    low: float | None = None
    high: float | None = None

    @property
    def effect(self) -> float | None:
        """Return the mean after minus the mean before; None if one side is empty."""
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def is_clear(self) -> bool:
        """Return whether the interval excludes zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def compare(
    before: Sequence[float], after: Sequence[float], confidence: float, *, is_paired: bool = False
) -> Difference:
    """Return a confidence interval for the difference of two means: Welch's t, or Student's t for pairs.

    The numbers of a side are taken as independent draws; the variances of the sides may differ. If the
    numbers of neither side vary, there is no interval: from constants one cannot estimate a variance.
    """
    means = [float(np.mean(side)) if len(side) else None for side in (before, after)]
    bare = Difference(means[0], means[1], len(before), len(after))
    if min(len(before), len(after)) < LEAST:
        return bare
    varying = [np.subtract(after, before)] if is_paired else [np.asarray(before), np.asarray(after)]
    variances = [float(np.var(each, ddof=1)) / len(each) for each in varying]
    error = math.sqrt(sum(variances))
    if error <= ROUNDING * max(map(abs, [*before, *after])):
        return bare
    # Degrees of freedom by Welch and Satterthwaite; for pairs, the formula gives Student's, n - 1.
    freedom = error**4 / sum(
        variance**2 / (len(each) - 1) for variance, each in zip(variances, varying, strict=True)
    )
    effect = float(np.mean(after) - np.mean(before))
    reach = student_quantile((1 + confidence) / 2, freedom) * error
    return replace(bare, low=effect - reach, high=effect + reach)


@dataclass(frozen=True)
class Comparison:
    """One row of the answer: what is compared, the difference, and the GPU-hours after the date.

    trials : what counts as one independent number: UNITS if there is a single job, else "jobs", where the
             number of a job is the mean of its units
    """

    compared: str
    trials: str
    difference: Difference
    gpu_hours_after: float | None = None

    @property
    def verdict(self) -> str:
        """Return BETTER if values are clearly lower after the date, WORSE if higher; else UNKNOWN and why."""
        found = self.difference
        if found.is_clear:
            return BETTER if (found.effect or 0.0) < 0 else WORSE
        counts = {"before": found.count_before, "after": found.count_after}
        few = [
            f"{count} {self.trials.removesuffix('s') if count == 1 else self.trials} {side}"
            for side, count in counts.items()
            if count < LEAST
        ]
        why = f"{' and '.join(few)}, wanted {LEAST}" if few else "the interval holds 0"
        return f"{UNKNOWN}: {'nothing varies' if not few and found.low is None else why}"


def comparisons(
    days: Sequence[Row], fixed_on: date, confidence: float, *, are_hosts: bool = False
) -> list[Comparison]:
    """Compare values before and after a fix for the days that the fix was meant for, and for all others.

    If the chosen days are of several jobs, a second row compares jobs with days on both sides. The row of the
    others shows what changed without the fix. If the fix has a label, chosen days before the date with the
    label, and chosen days after it without the label, are left out.

    days : job_id, log_date, value (the lower the better), gpu_hours, is_chosen (the fix was meant for this
           day), has_label (the day carries the label of the fix; None if the fix has no label)
    are_hosts : chosen days are those of one host, other days those of the other hosts in its jobs. Then each
                job has its own row of other hosts, as jobs differ and the host may change jobs at the date
    """
    before, after, other_before, other_after = _sides(days, fixed_on)
    hours = [day["gpu_hours"] for day in after if day["gpu_hours"] is not None]
    gpu_hours = sum(hours) if hours else None
    if len({day["job_id"] for day in days if day["is_chosen"]}) == 1:
        values_before, values_after = ([day["value"] for day in side] for side in (before, after))
        by_unit = compare(values_before, values_after, confidence)
        found = [Comparison("chosen", UNITS, by_unit, gpu_hours)]
    else:
        first, second = _means(before), _means(after)
        both = sorted(first.keys() & second.keys())
        pairs = [first[job] for job in both], [second[job] for job in both]
        by_job = compare(list(first.values()), list(second.values()), confidence)
        found = [
            Comparison("chosen", "jobs", by_job, gpu_hours),
            Comparison("chosen, same jobs", "jobs", compare(*pairs, confidence, is_paired=True)),
        ]
    if are_hosts:
        were, are = _values_of_jobs(other_before), _values_of_jobs(other_after)
        for job in sorted({*were, *are}):
            of_job = compare(were.get(job, []), are.get(job, []), confidence)
            found.append(Comparison(f"other hosts of {job}", UNITS, of_job))
        return found
    first, second = _means(other_before), _means(other_after)
    control = compare(list(first.values()), list(second.values()), confidence)
    return [*found, Comparison("all others", "jobs", control)]


def _sides(days: Sequence[Row], fixed_on: date) -> tuple[list[Row], list[Row], list[Row], list[Row]]:
    """Return the days where the fix applies, before the date and from it on; then the other days likewise.

    If all days are chosen, the other days are those without the label.
    """
    sides: tuple[list[Row], list[Row], list[Row], list[Row]] = [], [], [], []
    are_all_chosen = all(day["is_chosen"] for day in days)
    for day in days:
        is_after, has_label = day["log_date"] >= fixed_on, day["has_label"]
        if day["is_chosen"] and has_label in (None, is_after):
            sides[is_after].append(day)
        if has_label is False if are_all_chosen else not day["is_chosen"]:
            sides[2 + is_after].append(day)
    return sides


def _values_of_jobs(days: Sequence[Row]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = defaultdict(list)
    for day in days:
        values[str(day["job_id"])].append(day["value"])
    return values


def _means(days: Sequence[Row]) -> dict[str, float]:
    return {job: float(np.mean(of_job)) for job, of_job in _values_of_jobs(days).items()}
