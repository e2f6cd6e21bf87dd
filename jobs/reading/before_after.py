"""Comparison of job days before and after a date: differences with confidence intervals, and verdicts."""

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
"""Fewest numbers on each side for an answer: two always lie on a line."""
UNITS: Final = "units"
"""Trials that are each one run on one day: a day with two runs of the job counts twice."""
BETTER: Final = "better"
WORSE: Final = "worse"
UNKNOWN: Final = "not enough evidence"


@dataclass(frozen=True)
class Difference:
    """Mean after minus mean before, with its confidence interval, in the unit of the values.

    low, high : null with too little evidence, or if nothing varies
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

    The numbers of a side are taken as independent draws; variances may differ. Where none of them varies the
    interval is empty: two constants say nothing of how far others would lie apart.
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
    # Degrees of freedom after Welch and Satterthwaite, or Student's.
    freedom = error**4 / sum(
        variance**2 / (len(each) - 1) for variance, each in zip(variances, varying, strict=True)
    )
    effect, reach = (
        float(np.mean(after) - np.mean(before)),
        student_quantile((1 + confidence) / 2, freedom) * error,
    )
    return replace(bare, low=effect - reach, high=effect + reach)


@dataclass(frozen=True)
class Comparison:
    """One row of the answer: what is compared, the difference, and the GPU-hours after the date.

    trials : what was taken as independent: UNITS of a single job, else jobs, each by the mean of its units
    """

    compared: str
    trials: str
    difference: Difference
    gpu_hours_after: float | None = None

    @property
    def verdict(self) -> str:
        """Return the verdict: better, worse, or not enough evidence, with the reason."""
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
    """Compare waste before and after a date: chosen days, jobs with days on both sides, all other days.

    With a label, days after without it and days before with it are left out. The others show
    what changed without it.

    days : job_id, log_date, value (the lower the better), gpu_hours, is_chosen (one of those that the fix was
           meant for), has_label (carries the label of the fix; None where no label is asked about)
    are_hosts : days of one host are chosen, the others are of the other hosts of its jobs. Jobs differ in
                level, and it may serve others after than before: each has a row of its own
    """
    before, after, other_before, other_after = _sides(days, fixed_on)
    hours = [day["gpu_hours"] for day in after if day["gpu_hours"] is not None]
    gpu_hours = sum(hours) if hours else None
    if len({day["job_id"] for day in days if day["is_chosen"]}) == 1:
        by_unit = compare(_values(before), _values(after), confidence)
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
        return [*found, *_by_job(other_before, other_after, confidence)]
    first, second = _means(other_before), _means(other_after)
    control = compare(list(first.values()), list(second.values()), confidence)
    return [*found, Comparison("all others", "jobs", control)]


def _by_job(before: Sequence[Row], after: Sequence[Row], confidence: float) -> list[Comparison]:
    """Compare, for each job, the waste of its other hosts before and after the date."""
    first, second = _values_of_jobs(before), _values_of_jobs(after)
    return [
        Comparison(
            f"other hosts of {job}", UNITS, compare(first.get(job, []), second.get(job, []), confidence)
        )
        for job in sorted({*first, *second})
    ]


def _sides(days: Sequence[Row], fixed_on: date) -> tuple[list[Row], list[Row], list[Row], list[Row]]:
    """Return the chosen days before and after, then all other days before and after.

    Where all days are chosen the others are those without the label.
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


def _values(days: Sequence[Row]) -> list[float]:
    return [day["value"] for day in days]


def _values_of_jobs(days: Sequence[Row]) -> dict[str, list[float]]:
    values: dict[str, list[float]] = defaultdict(list)
    for day in days:
        values[str(day["job_id"])].append(day["value"])
    return values


def _means(days: Sequence[Row]) -> dict[str, float]:
    return {job: float(np.mean(of_job)) for job, of_job in _values_of_jobs(days).items()}
