"""Before and after a date: job days in, differences with intervals (Welch, Student) and verdicts out."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Final

import numpy as np
import pandas as pd
from scipy.special import stdtrit

LEAST: Final = 3
"""Fewest numbers on each side for an answer: two always lie on a line."""
ROUNDING: Final = 1e-12
"""Standard error, relative to the largest number, below which numbers are the same up to rounding."""
BETTER: Final = "better"
WORSE: Final = "worse"
UNKNOWN: Final = "not enough evidence"


@dataclass(frozen=True)
class Difference:
    """Mean of the numbers after less mean of those before, with its interval; in the numbers' own unit.

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
    variances = [float(np.var(each, ddof=1)) / len(each) for each in varying]
    error = math.sqrt(sum(variances))
    if error <= ROUNDING * max(map(abs, [*before, *after])):
        return bare
    # Degrees of freedom after Welch and Satterthwaite, or Student's. scipy.stats takes a second to import.
    freedom = error**4 / sum(
        variance**2 / (len(each) - 1) for variance, each in zip(variances, varying, strict=True)
    )
    effect, reach = (
        float(np.mean(after) - np.mean(before)),
        float(stdtrit(freedom, (1 + confidence) / 2)) * error,
    )
    return replace(bare, low=effect - reach, high=effect + reach)


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


def comparisons(days: pd.DataFrame, fixed_on: date, confidence: float) -> list[Comparison]:
    """Compare the chosen days before and after; the same within jobs of both sides; and all other days.

    With a label, days after without it and days before with it are left out. The others show
    what changed without it.

    days : job_id, log_date, value (the lower the better), gpu_hours, is_chosen (one of those that the fix was
           meant for), has_label (carries the label of the fix; null where no label is asked about)
    """
    is_after, is_chosen = days.log_date >= fixed_on, days.is_chosen.astype(bool)
    is_treated = is_chosen & (days.has_label.isna() | (days.has_label == is_after))
    is_other = days.has_label.eq(other=False) if is_chosen.all() else ~is_chosen
    before, after = days[is_treated & ~is_after], days[is_treated & is_after]
    hours = after.gpu_hours.dropna().tolist()
    gpu_hours = sum(hours) if hours else None
    if days[is_chosen].job_id.nunique() == 1:
        by_day = compare(before.value.tolist(), after.value.tolist(), confidence)
        found = [Comparison("chosen", "days", by_day, gpu_hours)]
    else:
        first, second = _means(before), _means(after)
        both = sorted(first.keys() & second.keys())
        pairs = [first[job] for job in both], [second[job] for job in both]
        by_job = compare(list(first.values()), list(second.values()), confidence)
        found = [
            Comparison("chosen", "jobs", by_job, gpu_hours),
            Comparison("chosen, same jobs", "jobs", compare(*pairs, confidence, is_paired=True)),
        ]
    first, second = (_means(days[is_other & side]) for side in (~is_after, is_after))
    control = compare(list(first.values()), list(second.values()), confidence)
    return [*found, Comparison("all others", "jobs", control)]


def _means(days: pd.DataFrame) -> dict[str, float]:
    """Mean value of each job, by its name."""
    return {str(job): float(of_job.value.mean()) for job, of_job in days.groupby("job_id")}
