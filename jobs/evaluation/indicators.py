"""The paper's three indicators as labels, beside those of the diagnosis."""

from dataclasses import dataclass
from typing import Final

import pandas as pd

from jobs.evaluation.score import labels

STRAGGLES: Final = 1.1
"""A job straggles from this slowdown on."""


@dataclass(frozen=True)
class Indicator:
    """A figure of job_slowdown that stands for a cause: above, or from, a value on."""

    cause: str
    title: str
    column: str
    value: float
    is_above: bool = False

    def holds(self, answers: pd.DataFrame) -> "pd.Series[bool]":
        """Whether it says that the cause holds; never where the job does not straggle."""
        figure = answers[self.column].astype(float)
        reached = figure > self.value if self.is_above else figure >= self.value
        return reached & (answers.slowdown.astype(float) >= STRAGGLES)


INDICATORS: Final = (
    Indicator("slow_worker", "M_W > 0.5", "slow_worker_share", 0.5, is_above=True),
    Indicator("stage_imbalance", "M_S >= 0.5", "last_stage_share", 0.5),
    Indicator("data_imbalance", "correlation >= 0.9", "correlation", 0.9),
)


def beside(answers: pd.DataFrame) -> pd.DataFrame:
    """Precision, recall and F1 of indicators and of the diagnosis, on all jobs and on those that straggle."""
    rows = []
    straggling = answers[answers.slowdown.astype(float) >= STRAGGLES]
    for jobs, of_jobs in (("all", answers), ("straggling", straggling)):
        kept = [(each, of_jobs[of_jobs.cause == each.cause]) for each in INDICATORS]
        said = [each.holds(own) for each, own in kept]
        pairs = [(each.cause, each.title, own, by) for (each, own), by in zip(kept, said, strict=True)]
        together = pd.concat([own for _, own in kept])
        pairs.append(("all three", "any of them, for its cause", together, pd.concat(said)))
        for cause, title, own, by_indicator in pairs:
            of_paper, ours = labels(by_indicator, own.is_true), labels(own.is_cause, own.is_true)
            rows += [
                {
                    "jobs": jobs,
                    "cause": cause,
                    "labels by": name,
                    "rows": len(own),
                    "true": int(own.is_true.sum()),
                    "precision": found.precision,
                    "recall": found.recall,
                    "F1": found.f1,
                }
                for name, found in ((title, of_paper), ("diagnosis", ours))
            ]
    return pd.DataFrame(rows)
