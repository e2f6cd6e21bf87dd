"""Before and after a date: job days in, differences with intervals (Welch, Student) and verdicts out."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

import numpy as np
from scipy import stats

LEAST: Final = 3
"""Numbers on each side below which nothing is said: two always lie on a line."""
ROUNDING: Final = 1e-12
"""Standard error, relative to the largest number, below which numbers are the same up to rounding."""
BETTER: Final = "better"
WORSE: Final = "worse"
UNKNOWN: Final = "not enough evidence"

_ByJob = dict[str, list["JobDay"]]


@dataclass(frozen=True)
class Difference:
    """Mean of the numbers after less mean of those before, with its interval; in the numbers' own unit.

    low, high : null where there is too little to say, or nothing varies
    """

    before: float | None
    after: float | None
    count_before: int
    count_after: int
    low: float | None = None
    high: float | None = None

    @property
    def effect(self) -> float | None:
        """After less before; null where one side is empty."""
        return None if self.before is None or self.after is None else self.after - self.before

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def compare(
    before: Sequence[float], after: Sequence[float], confidence: float, *, is_paired: bool = False
) -> Difference:
    """Welch's t-interval of the difference of two means; of pairs Student's: what they share cancels out.

    The numbers of a side are taken as independent draws; variances may differ. Where none of them varies the
    interval is empty: two constants say nothing of how far others would lie apart.
    """
    means = [float(np.mean(side)) if len(side) else None for side in (before, after)]
    bare = Difference(means[0], means[1], len(before), len(after))
    if min(len(before), len(after)) < LEAST:
        return bare
    varying = [np.subtract(after, before)] if is_paired else [np.asarray(before), np.asarray(after)]
    error = math.sqrt(sum(float(np.var(each, ddof=1)) / len(each) for each in varying))
    if error <= ROUNDING * max(map(abs, [*before, *after])):
        return bare
    test = stats.ttest_rel(after, before) if is_paired else stats.ttest_ind(after, before, equal_var=False)
    low, high = test.confidence_interval(confidence)
    return replace(bare, low=float(low), high=float(high))


@dataclass(frozen=True)
class JobDay:
    """One job on one day: a value that is the lower the better.

    is_chosen : it is one of those that the fix was meant for
    has_label : it carries the label of the fix; None where no label is asked about
    """

    job_id: str
    log_date: date
    value: float
    gpu_hours: float | None
    is_chosen: bool
    has_label: bool | None = None


@dataclass(frozen=True)
class Comparison:
    """One line of the answer.

    trials : what was taken as independent: days of a single job, else jobs, each by the mean of its days
    """

    compared: str
    trials: str
    difference: Difference
    gpu_hours_after: float | None = None

    @property
    def verdict(self) -> str:
        """Better, worse, or not enough evidence and why."""
        found = self.difference
        if found.is_clear:
            return BETTER if (found.effect or 0.0) < 0 else WORSE
        counts = {"before": found.count_before, "after": found.count_after}
        few = [f"{count} {self.trials} {side}" for side, count in counts.items() if count < LEAST]
        why = f"{' and '.join(few)}, wanted {LEAST}" if few else "the interval holds 0"
        return f"{UNKNOWN}: {'nothing varies' if not few and found.low is None else why}"


def comparisons(days: Sequence[JobDay], fixed_on: date, confidence: float) -> list[Comparison]:
    """Compare the chosen days before and after; the same within jobs of both sides; and all other days.

    With a label, days after that lack it and days before that have it say nothing of the fix. The others tell
    what changed without it.
    """
    chosen = [day for day in days if day.is_chosen]
    treated = [day for day in chosen if day.has_label is None or day.has_label == (day.log_date >= fixed_on)]
    others = [day for day in days if not day.is_chosen]
    if not others:
        others = [day for day in chosen if day.has_label is False]
    before, after = _sides(treated, fixed_on)
    hours = [day.gpu_hours for each in after.values() for day in each if day.gpu_hours is not None]
    gpu_hours = sum(hours) if hours else None
    if len({day.job_id for day in chosen}) == 1:
        by_day = compare(_values(before), _values(after), confidence)
        found = [Comparison("chosen", "days", by_day, gpu_hours)]
    else:
        both = sorted(before.keys() & after.keys())
        first, second = ([_mean(side[job]) for job in both] for side in (before, after))
        found = [
            Comparison("chosen", "jobs", compare(_means(before), _means(after), confidence), gpu_hours),
            Comparison("chosen, same jobs", "jobs", compare(first, second, confidence, is_paired=True)),
        ]
    others_before, others_after = _sides(others, fixed_on)
    control = compare(_means(others_before), _means(others_after), confidence)
    return [*found, Comparison("all others", "jobs", control)]


def _sides(days: Iterable[JobDay], fixed_on: date) -> tuple[_ByJob, _ByJob]:
    """Days of every job, before the date and from it on."""
    sides: tuple[_ByJob, _ByJob] = defaultdict(list), defaultdict(list)
    for day in days:
        sides[day.log_date >= fixed_on][day.job_id].append(day)
    return sides


def _values(side: _ByJob) -> list[float]:
    return [day.value for days in side.values() for day in days]


def _means(side: _ByJob) -> list[float]:
    return [_mean(days) for _, days in sorted(side.items())]


def _mean(days: Sequence[JobDay]) -> float:
    return sum(day.value for day in days) / len(days)
