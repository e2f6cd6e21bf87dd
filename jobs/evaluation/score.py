"""Scores of answers, rows as of `sample.tables`: errors of the saved fraction, labels, calibration."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from jobs.evaluation.classes import CLASSES, JobClass
from jobs.evaluation.diagnosis import NO_ANSWER

Frame = pd.DataFrame


CALIBRATION_EDGES: Final = (-1.0, 0.0, 0.005, 0.015, 0.025, 0.035, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Bins of the predicted saving, each with its upper edge."""


@dataclass(frozen=True)
class Labels:
    """Labels against the truth; nan where nothing can be said."""

    precision: float
    recall: float
    f1: float
    false: int
    missed: int


def labels(predicted: "pd.Series[bool]", true: "pd.Series[bool]") -> Labels:
    """Precision, recall and F1, their harmonic mean, over all rows."""
    said, holds = np.asarray(predicted, bool), np.asarray(true, bool)
    hits, false, missed = int((said & holds).sum()), int((said & ~holds).sum()), int((~said & holds).sum())
    return Labels(
        _ratio(hits, hits + false),
        _ratio(hits, hits + missed),
        _ratio(2 * hits, 2 * hits + false + missed),
        false,
        missed,
    )


def by_class(answers: Frame, classes: Mapping[str, JobClass] = CLASSES) -> Frame:
    """One row per class: all causes together, with the targets beside."""
    every_job = answers.seed.nunique()
    rows = []
    for each in classes.values():
        inside = answers[each.holds(answers)]
        scores, target = _scores(inside), each.target
        rows.append(
            {
                "class": each.title,
                "jobs": inside.seed.nunique(),
                "no answer": inside[inside.flag == NO_ANSWER].seed.nunique(),
                "of all [%]": 100 * _ratio(inside.seed.nunique(), every_job),
                "wanted, of all [%]": _percent(target.jobs_share),
                "MAE [%]": scores["MAE [%]"],
                "wanted MAE [%]": _percent(target.mae),
                "p95 [%]": scores["p95 [%]"],
                "wanted p95 [%]": _percent(target.p95),
                "precision": scores["precision"],
                "recall": scores["recall"],
                "F1": scores["F1"],
                "wanted F1": target.f1,
                "jobs flagged [%]": scores["jobs flagged [%]"],
                "rows flagged [%]": scores["rows flagged [%]"],
            }
        )
    return Frame(rows)


def by_cause(answers: Frame, classes: Mapping[str, JobClass] = CLASSES) -> Frame:
    """One row per class and cause."""
    return Frame(
        [
            {"class": each.title, "cause": cause, **_scores(rows)}
            for each in classes.values()
            for cause, rows in answers[each.holds(answers)].groupby("cause", sort=False)
        ]
    )


def healthy_labels(answers: Frame) -> Frame:
    """Labels that jobs without a fault got although the truth has none, and of which cause."""
    wrong = answers[answers.is_cause & ~answers.is_true]
    jobs = answers.seed.nunique()
    rows = [{"cause": "any", "jobs": jobs, "labelled": wrong.seed.nunique()}]
    rows += [
        {"cause": cause, "jobs": jobs, "labelled": int((wrong.cause == cause).sum())}
        for cause in answers.cause.unique()
    ]
    found = Frame(rows)
    found["labelled [%]"] = 100 * found.labelled / found.jobs
    found["wanted at most [%]"] = [1.0, *[None] * (len(found) - 1)]
    return found


def located(answers: Frame, classes: Mapping[str, JobClass] = CLASSES) -> Frame:
    """Of jobs with a true slow worker, in how many the cell named worst is one that is truly slow."""
    rows = []
    for each in classes.values():
        inside = answers[each.holds(answers) & (answers.cause == "slow_worker") & answers.is_true]
        labelled = inside[inside.is_cause]
        rows.append(
            {
                "class": each.title,
                "jobs with a slow worker": len(inside),
                "located": int(inside.is_located.sum()),
                "located [%]": 100 * _ratio(int(inside.is_located.sum()), len(inside)),
                "wanted [%]": 97.0 if each is CLASSES["all"] else None,
                "labelled": len(labelled),
                "located of labelled [%]": 100 * _ratio(int(labelled.is_located.sum()), len(labelled)),
            }
        )
    return Frame(rows)


def calibration(answers: Frame) -> Frame:
    """Mean true saving in bins of the predicted one; the first and the last bin take what lies beyond."""
    edges = np.array(CALIBRATION_EDGES)
    place = np.clip(np.searchsorted(edges, answers.predicted, side="left") - 1, 0, len(edges) - 2)
    rows = []
    for number in range(len(edges) - 1):
        inside = answers[place == number]
        rows.append(
            {
                "predicted from [%]": 100 * edges[number],
                "to [%]": 100 * edges[number + 1],
                "rows": len(inside),
                "mean predicted [%]": 100 * inside.predicted.mean(),
                "mean true [%]": 100 * inside.true.mean(),
                "labelled [%]": 100 * inside.is_cause.mean(),
                "true [%]": 100 * inside.is_true.mean(),
            }
        )
    return Frame(rows)


def sensitivity(usual: Frame, variants: Mapping[str, Frame], names: tuple[str, ...]) -> Frame:
    """Scores of the same jobs under other conditions, and what these cost in F1."""
    rows = []
    for name in names:
        each = CLASSES[name]
        before = _scores(usual[each.holds(usual)])
        for variant, answers in {"as drawn": usual, **variants}.items():
            inside = answers[each.holds(answers)]
            scores = _scores(inside)
            rows.append(
                {
                    "class": each.title,
                    "conditions": variant,
                    **{key: scores[key] for key in ("jobs", "MAE [%]", "p95 [%]", "F1")},
                    "cost in F1": before["F1"] - scores["F1"],
                    "wanted at most": None if answers is usual else 0.01,
                }
            )
    return Frame(rows)


def _scores(answers: Frame) -> dict[str, float]:
    error = (answers.predicted - answers.true).abs()
    found = labels(answers.is_cause, answers.is_true)
    jobs = answers.drop_duplicates("seed")
    return {
        "jobs": len(jobs),
        "MAE [%]": 100 * float(error.mean()),
        "p95 [%]": 100 * float(error.quantile(0.95)),
        "true": int(answers.is_true.sum()),
        "false": found.false,
        "missed": found.missed,
        "precision": found.precision,
        "recall": found.recall,
        "F1": found.f1,
        "jobs flagged [%]": 100 * float(jobs.is_flagged.mean()),
        "rows flagged [%]": 100 * float(answers.flag.notna().mean()),
    }


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def _percent(fraction: float | None) -> float | None:
    return None if fraction is None else 100 * fraction
