"""Single answers that are wrong, or far off."""

import numpy as np
from pandas import DataFrame as Frame


def wrong_labels(answers: Frame) -> Frame:
    """Answers whose label is wrong, worst errors first."""
    return worst(answers[answers.is_cause != answers.is_true], len(answers))


def worst(answers: Frame, number: int) -> Frame:
    """Answers with the largest errors of the saved fraction."""
    error = answers.predicted - answers.true
    rows = answers.assign(error=error).sort_values("error", key=np.abs, ascending=False, kind="stable")
    rows = rows.head(number)
    return Frame(
        {
            "seed": rows.seed,
            "conditions": rows.variant,
            "layout": [
                f"dp {row.dp_size}, pp {row.pp_size} x {row.vpp_size}, {row.steps} steps"
                for row in rows.itertuples()
            ],
            "noise [%]": 100 * rows.noise,
            "cause": rows.cause,
            "predicted [%]": 100 * rows.predicted,
            "true [%]": 100 * rows.true,
            "error [%]": 100 * rows.error,
            "label": np.where(rows.is_cause, "yes", "no"),
            "flag": rows.flag,
            "detectable": np.where(rows.is_detectable, "yes", "no"),
        }
    )
