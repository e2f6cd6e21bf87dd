"""Score results of the diagnosis by class of job: errors of savings, named causes, and calibration."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd

from tests.evaluation.judge import NO_ANSWER

Frame = pd.DataFrame


@dataclass(frozen=True)
class JobClass:
    """A class of jobs that are scored together, with target values; None where no target is set.

    mae, p95   : mean and 95th percentile of absolute errors of savings [fraction of the actual step time]
    jobs_share : smallest share of all jobs that should be in the class
    """

    title: str
    holds: Callable[[Frame], "pd.Series[bool]"]
    mae: float | None = None
    p95: float | None = None
    f1: float | None = None
    jobs_share: float | None = None


CLASSES: Final[dict[str, JobClass]] = {
    "dp4pp2": JobClass(
        "dp >= 4, pp >= 2, >= 4 steps",
        lambda rows: (rows.dp_size >= 4) & (rows.pp_size >= 2) & (rows.steps >= 4),
        0.0025,
        0.01,
        0.99,
    ),
    "dp2pp2": JobClass(
        "dp >= 2, pp >= 2", lambda rows: (rows.dp_size >= 2) & (rows.pp_size >= 2), 0.0035, 0.015, 0.985
    ),
    "dp1": JobClass("dp = 1", lambda rows: rows.dp_size == 1),
    "pp1": JobClass("pp = 1", lambda rows: rows.pp_size == 1),
    "unflagged": JobClass(
        "all without a flag (jobs)", lambda rows: ~rows.is_flagged, 0.003, 0.01, 0.99, 0.75
    ),
    "unflagged_rows": JobClass("all without a flag (rows)", lambda rows: rows.flag.isna()),
    "detectable": JobClass("all detectable", lambda rows: rows.is_detectable, 0.01, 0.04, 0.96),
    "all": JobClass("all", lambda rows: rows.dp_size >= 1),
}

STRAGGLES: Final = 1.1
"""A job whose slowdown is at least this straggles."""
INDICATORS: Final = (
    ("slow_worker", "M_W > 0.5", "slow_worker_share", operator.gt, 0.5),
    ("stage_imbalance", "M_S >= 0.5", "last_stage_share", operator.ge, 0.5),
    ("data_imbalance", "correlation >= 0.9", "forward_backward_correlation", operator.ge, 0.9),
)
"""The paper's indicators: the cause, the rule in words, and the column, comparison and bound of the rule."""

CALIBRATION_EDGES: Final = (-1.0, 0.0, 0.005, 0.015, 0.025, 0.035, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Edges of the bins of predicted savings."""


def labels(predicted: "pd.Series[bool]", true: "pd.Series[bool]") -> dict[str, float]:
    """Count hits, false and missed causes, with precision, recall and F1; nan if a ratio has no cases."""
    flagged, holds = np.asarray(predicted, bool), np.asarray(true, bool)
    both = (flagged & holds, flagged & ~holds, ~flagged & holds)
    hits, false, missed = (int(each.sum()) for each in both)
    return {
        "true": hits + missed,
        "false": false,
        "missed": missed,
        "precision": _ratio(hits, hits + false),
        "recall": _ratio(hits, hits + missed),
        "F1": _ratio(2 * hits, 2 * hits + false + missed),
    }


def by_class(answers: Frame) -> Frame:
    """Return one row per class of jobs: scores over all causes, and the target values."""
    every_job = answers.seed.nunique()
    rows = []
    for each in CLASSES.values():
        inside = answers[each.holds(answers)]
        scores = _scores(inside)
        rows.append(
            {
                "class": each.title,
                "jobs": scores["jobs"],
                "no answer": inside[inside.flag == NO_ANSWER].seed.nunique(),
                "of all [%]": 100 * _ratio(inside.seed.nunique(), every_job),
                "wanted, of all [%]": percent(each.jobs_share),
                "MAE [%]": scores["MAE [%]"],
                "wanted MAE [%]": percent(each.mae),
                "p95 [%]": scores["p95 [%]"],
                "wanted p95 [%]": percent(each.p95),
                **{name: scores[name] for name in ("precision", "recall", "F1")},
                "wanted F1": each.f1,
                **{name: scores[name] for name in ("jobs flagged [%]", "rows flagged [%]")},
            }
        )
    return Frame(rows)


def by_cause(answers: Frame) -> Frame:
    """Return one row of scores for each class of jobs and each cause."""
    return Frame(
        [
            {"class": each.title, "cause": cause, **_scores(rows)}
            for each in CLASSES.values()
            for cause, rows in answers[each.holds(answers)].groupby("cause", sort=False)
        ]
    )


def healthy_labels(answers: Frame) -> Frame:
    """Count the causes named on jobs without a fault; each of them is wrong."""
    wrong, jobs = answers[answers.is_cause & ~answers.is_true], answers.seed.nunique()
    labelled = {"any": wrong.seed.nunique()}
    labelled |= {cause: int((wrong.cause == cause).sum()) for cause in answers.cause.unique()}
    found = Frame({"cause": list(labelled), "jobs": jobs, "labelled": list(labelled.values())})
    found["labelled [%]"] = 100 * found.labelled / found.jobs
    found["wanted at most [%]"] = [1.0, *[None] * (len(found) - 1)]
    return found


def located(answers: Frame) -> Frame:
    """Count the jobs with a true slow worker, and how many of their worst culprits are truly slow."""
    rows = []
    for each in CLASSES.values():
        inside = answers[each.holds(answers) & (answers.cause == "slow_worker") & answers.is_true]
        labelled = inside[inside.is_cause]
        hits, hits_labelled = int(inside.is_located.sum()), int(labelled.is_located.sum())
        rows.append(
            {
                "class": each.title,
                "jobs with a slow worker": len(inside),
                "located": hits,
                "located [%]": 100 * _ratio(hits, len(inside)),
                "wanted [%]": 97.0 if each is CLASSES["all"] else None,
                "labelled": len(labelled),
                "located of labelled [%]": 100 * _ratio(hits_labelled, len(labelled)),
            }
        )
    return Frame(rows)


def calibration(answers: Frame) -> Frame:
    """Return the mean true saving by bins of the predicted saving; the first and the last bin are open."""
    edges = np.array(CALIBRATION_EDGES)
    place = np.clip(np.searchsorted(edges, answers.predicted, side="left") - 1, 0, len(edges) - 2)
    bins = [answers[place == number] for number in range(len(edges) - 1)]
    means = {"mean predicted": "predicted", "mean true": "true", "labelled": "is_cause", "true": "is_true"}
    return Frame(
        {
            "predicted from [%]": 100 * edges[:-1],
            "to [%]": 100 * edges[1:],
            "rows": [len(inside) for inside in bins],
            **{f"{name} [%]": [100 * inside[of].mean() for inside in bins] for name, of in means.items()},
        }
    )


def sensitivity(usual: Frame, variants: Mapping[str, Frame], names: tuple[str, ...]) -> Frame:
    """Score the same jobs under each changed condition, with the loss of F1 against usual conditions."""
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


def indicators(answers: Frame) -> Frame:
    """Scores of the paper's indicators and of the diagnosis, on all jobs and on straggling jobs.

    An indicator names a cause only in jobs that straggle.
    """
    is_slow = answers.slowdown.astype(float) >= STRAGGLES
    rows = []
    for jobs, of_jobs in (("all", answers), ("straggling", answers[is_slow])):
        parts, flagged = [], []
        for cause, _, column, reaches, value in INDICATORS:
            own = of_jobs[of_jobs.cause == cause]
            parts.append(own)
            flagged.append(reaches(own[column].astype(float), value) & is_slow[own.index])
        named = [*(each[:2] for each in INDICATORS), ("all three", "any of them, for its cause")]
        pairs = zip(named, [*parts, pd.concat(parts)], [*flagged, pd.concat(flagged)], strict=True)
        for (cause, title), own, by_indicator in pairs:
            about = {"jobs": jobs, "cause": cause}
            for name, found in ((title, by_indicator), ("diagnosis", own.is_cause)):
                rows.append({**about, "labels by": name, "rows": len(own), **labels(found, own.is_true)})
    return Frame(rows).drop(columns=["false", "missed"])


def wrong_labels(answers: Frame) -> Frame:
    """List answers that name a wrong cause or miss one, largest errors first."""
    return worst(answers[answers.is_cause != answers.is_true], len(answers))


def worst(answers: Frame, number: int) -> Frame:
    """List the answers with the largest errors of the saved fraction."""
    error = answers.predicted - answers.true
    rows = answers.assign(error=error).sort_values("error", key=np.abs, ascending=False, kind="stable")
    rows = rows.head(number)
    layout = [
        f"dp {row.dp_size}, pp {row.pp_size} x {row.vpp_size}, {row.steps} steps" for row in rows.itertuples()
    ]
    return Frame(
        {
            "seed": rows.seed,
            "conditions": rows.variant,
            "layout": layout,
            "noise [%]": 100 * rows.noise,
            "cause": rows.cause,
            **{f"{name} [%]": 100 * rows[name] for name in ("predicted", "true", "error")},
            "label": np.where(rows.is_cause, "yes", "no"),
            "flag": rows.flag,
            "detectable": np.where(rows.is_detectable, "yes", "no"),
        }
    )


def _scores(answers: Frame) -> dict[str, float]:
    error = (answers.predicted - answers.true).abs()
    jobs = answers.drop_duplicates("seed")
    return {
        "jobs": len(jobs),
        "MAE [%]": 100 * float(error.mean()),
        "p95 [%]": 100 * float(error.quantile(0.95)),
        **labels(answers.is_cause, answers.is_true),
        "jobs flagged [%]": 100 * float(jobs.is_flagged.mean()),
        "rows flagged [%]": 100 * float(answers.flag.notna().mean()),
    }


def _ratio(part: int, whole: int) -> float:
    return part / whole if whole else float("nan")


def percent(fraction: float | None) -> float | None:
    """Convert a fraction to percent; None stays None."""
    return None if fraction is None else 100 * fraction
