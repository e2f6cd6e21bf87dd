"""Scores equal values computed by hand, and tables of scores are formatted for people and programs."""

import json
import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.evaluation import score
from tests.evaluation.fakes import rows_by
from tests.evaluation.report import Section, rendered
from tests.evaluation.score import CLASSES

DEFAULTS: dict[str, Any] = {
    "variant": "as drawn",
    "dp_size": 4,
    "pp_size": 2,
    "vpp_size": 1,
    "steps": 10,
    "noise": 0.01,
    "is_detectable": True,
    "is_flagged": False,
    "is_located": None,
    "cause": "pause",
    "flag": None,
    "slowdown": 1.2,
    "slow_worker_share": 0.0,
    "last_stage_share": 0.0,
    "forward_backward_correlation": 0.0,
}


def answers(*rows: dict[str, Any]) -> pd.DataFrame:
    """Return answers about jobs 0, 1, ...; by default, causes that save 2.5 % of the step time are named."""
    made = []
    for seed, row in enumerate(rows):
        full = {"seed": seed, **DEFAULTS, **row}
        made.append({"is_cause": full["predicted"] >= 0.025, "is_true": full["true"] >= 0.025, **full})
    return pd.DataFrame(made)


FOUR = answers(
    {"predicted": 0.10, "true": 0.12},
    {"predicted": 0.03, "true": 0.02, "dp_size": 1},
    {"predicted": 0.00, "true": 0.05, "pp_size": 1, "is_flagged": True, "flag": "few_peers"},
    {"predicted": 0.00, "true": 0.00, "dp_size": 2, "is_detectable": False, "is_flagged": True},
)
"""One right name, one false name, one missed cause, and one job without a cause."""


def test_labels_by_hand() -> None:
    found = score.labels(FOUR.is_cause, FOUR.is_true)
    assert found == {"true": 2, "false": 1, "missed": 1, "precision": 0.5, "recall": 0.5, "F1": 0.5}
    nothing = score.labels(FOUR.is_cause & False, FOUR.is_true & False)
    assert math.isnan(nothing["precision"])
    assert math.isnan(nothing["F1"])


def test_classes_by_hand() -> None:
    rows = rows_by(score.by_class(FOUR), "class")
    assert [row["jobs"] for row in rows.values()] == [1, 2, 1, 1, 2, 3, 3, 4]
    assert rows["all"]["MAE [%]"] == pytest.approx(2.0)
    assert rows["all"]["p95 [%]"] == pytest.approx(2.0 + 0.85 * 3.0)
    assert rows["all"]["F1"] == 0.5
    assert rows["all"]["jobs flagged [%]"] == 50.0
    assert rows["all"]["rows flagged [%]"] == 25.0
    assert rows["all without a flag (jobs)"]["of all [%]"] == 50.0
    assert rows["all without a flag (jobs)"]["wanted, of all [%]"] == 75.0
    assert rows["dp >= 2, pp >= 2"]["MAE [%]"] == pytest.approx(1.0)
    assert rows["dp >= 2, pp >= 2"]["wanted MAE [%]"] == pytest.approx(0.35)


def test_the_targets_are_those_agreed() -> None:
    wanted = {name: (each.mae, each.p95, each.f1) for name, each in CLASSES.items() if each.mae}
    assert wanted == {
        "dp4pp2": (0.0025, 0.01, 0.99),
        "dp2pp2": (0.0035, 0.015, 0.985),
        "unflagged": (0.003, 0.01, 0.99),
        "detectable": (0.01, 0.04, 0.96),
    }
    assert CLASSES["unflagged"].jobs_share == 0.75


def test_causes_by_hand() -> None:
    both = pd.concat([FOUR, FOUR.assign(cause="slow_worker", predicted=0.0, is_cause=False)])
    found = rows_by(score.by_cause(both), "class", "cause")
    rows = {cause: row for (title, cause), row in found.items() if title == "all"}
    assert rows["pause"]["MAE [%]"] == pytest.approx(2.0)
    assert [rows["slow_worker"][name] for name in ("true", "false", "missed")] == [2, 0, 2]
    assert rows["slow_worker"]["MAE [%]"] == pytest.approx((12 + 2 + 5) / 4)


def test_a_healthy_job_with_two_labels_counts_once() -> None:
    healthy = answers(
        {"seed": 7, "predicted": 0.03, "true": 0.0},
        {"seed": 7, "predicted": 0.03, "true": 0.0, "cause": "slow_worker"},
        {"seed": 8, "predicted": 0.0, "true": 0.0},
        {"seed": 9, "predicted": 0.03, "true": 0.03},
    )
    rows = rows_by(score.healthy_labels(healthy), "cause")
    assert [rows["any"][name] for name in ("jobs", "labelled")] == [3, 1]
    assert {cause: row["labelled"] for cause, row in rows.items()} == {"any": 1, "pause": 1, "slow_worker": 1}


def test_located_counts_true_slow_workers_alone() -> None:
    slow = {"cause": "slow_worker", "true": 0.2}
    rows = score.located(
        answers(
            {**slow, "predicted": 0.2, "is_located": True},
            {**slow, "predicted": 0.2, "is_located": False},
            {**slow, "predicted": 0.0, "is_located": False},
            {**slow, "predicted": 0.0, "true": 0.01},
            {"predicted": 0.2, "true": 0.2, "is_located": True},
        )
    )
    row = rows_by(rows, "class")["all"]
    assert [row[name] for name in ("jobs with a slow worker", "located", "labelled")] == [3, 1, 2]
    assert row["located [%]"] == pytest.approx(100 / 3)
    assert row["located of labelled [%]"] == 50.0
    assert row["wanted [%]"] == 97.0


def test_calibration_puts_every_answer_into_one_bin() -> None:
    rows = score.calibration(
        answers(
            {"predicted": -3.0, "true": 0.1},
            {"predicted": 0.0, "true": 0.0},
            {"predicted": 0.025, "true": 0.03},
            {"predicted": 0.03, "true": 0.01},
            {"predicted": 0.034, "true": 0.05},
            {"predicted": 3.0, "true": 0.9},
        )
    )
    assert rows.rows.to_list() == [2, 0, 0, 1, 2, 0, 0, 0, 0, 1]
    assert rows["mean predicted [%]"].to_list()[4] == pytest.approx(3.2)
    assert rows["mean true [%]"].to_list()[4] == pytest.approx(3.0)
    assert rows["true [%]"].to_list()[4] == 50.0


def test_what_other_conditions_cost() -> None:
    usual = answers({"predicted": 0.1, "true": 0.1}, {"predicted": 0.1, "true": 0.1})
    noisy = answers({"predicted": 0.1, "true": 0.1}, {"predicted": 0.0, "true": 0.1})
    rows = score.sensitivity(usual, {"noisy": noisy}, ("all",))
    assert rows.conditions.to_list() == ["as drawn", "noisy"]
    assert rows["cost in F1"].to_list() == pytest.approx([0.0, 1 / 3])
    assert rows["MAE [%]"].to_list() == pytest.approx([0.0, 5.0])


def test_lists_begin_with_the_worst() -> None:
    assert score.wrong_labels(FOUR).seed.to_list() == [2, 1]
    assert score.worst(FOUR, 3).seed.to_list() == [2, 0, 1]
    assert score.worst(FOUR, 1)["error [%]"].to_list() == pytest.approx([-5.0])


def test_indicators_label_only_where_the_job_straggles() -> None:
    slow = {"cause": "slow_worker", "predicted": 0.1, "true": 0.1}
    rows = answers(
        {**slow, "slow_worker_share": 0.6},
        {**slow, "slow_worker_share": 0.5},
        {**slow, "slow_worker_share": 0.9, "slowdown": 1.09},
        {**slow, "slow_worker_share": None, "slowdown": None},
        {"cause": "stage_imbalance", "predicted": 0.0, "true": 0.0, "last_stage_share": 0.5},
        {
            "cause": "data_imbalance",
            "predicted": 0.0,
            "true": 0.1,
            "forward_backward_correlation": 0.9,
            "slowdown": 1.1,
        },
    )
    found = rows_by(score.indicators(rows), "jobs", "cause", "labels by")
    assert found["all", "slow_worker", "M_W > 0.5"]["recall"] == 0.25
    assert found["straggling", "slow_worker", "M_W > 0.5"]["recall"] == 0.5
    assert found["all", "slow_worker", "diagnosis"]["F1"] == 1.0
    assert found["all", "stage_imbalance", "M_S >= 0.5"]["precision"] == 0.0
    assert found["all", "data_imbalance", "correlation >= 0.9"]["F1"] == 1.0
    three = found["all", "all three", "any of them, for its cause"]
    assert (three["precision"], three["recall"]) == (pytest.approx(2 / 3), 0.4)


ROWS = pd.DataFrame({"name": ["one", "two"], "MAE [%]": [0.256, np.nan], "F1": [None, 0.98765]})
SECTIONS = [Section("Scores", "What they are.", ROWS), Section("No rows", "", ROWS.head(0))]


def test_markdown_rounds_and_json_is_exact() -> None:
    assert rendered("Seeds 1 to 2.", SECTIONS, "markdown") == (
        "Seeds 1 to 2.\n\n### Scores\n\nWhat they are.\n\n"
        "| name | MAE [%] | F1 |\n"
        "| --- | ---: | ---: |\n"
        "| one | 0.26 | - |\n"
        "| two | - | 0.988 |\n\n"
        "### No rows\n\nThere are none.\n"
    )
    assert "\n\nSCORES\n\n" in rendered("Seeds 1 to 2.", SECTIONS, "text")
    assert json.loads(rendered("Seeds 1 to 2.", SECTIONS, "json"))["sections"][0]["rows"] == [
        {"name": "one", "MAE [%]": 0.256, "F1": None},
        {"name": "two", "MAE [%]": None, "F1": pytest.approx(0.98765)},
    ]
