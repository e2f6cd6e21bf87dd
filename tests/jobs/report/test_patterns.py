"""Patterns of worker maps: drawn ones, and the published traces as the paper describes them."""

from pathlib import Path

import numpy as np
import pytest

from jobs.report import job_charts as patterns
from jobs.report.job_charts import Floats, name_pattern
from tests.support import published
from udfs.what_if import simulate_job

STEPS, DP_RANKS, STAGES = 20, 8, 4


def quiet() -> Floats:
    return 1 + 0.002 * np.random.default_rng(0).random((STEPS, DP_RANKS, STAGES))


def hot_row() -> Floats:
    slowdown = quiet()
    slowdown[:, :, 3] += 0.2
    return slowdown


def hot_column() -> Floats:
    slowdown = quiet()
    slowdown[:, 5, :] += 0.1
    return slowdown


def hot_cell() -> Floats:
    slowdown = quiet()
    slowdown[::2, 5, 1] += 0.2
    return slowdown


def few_cells() -> Floats:
    slowdown = quiet()
    slowdown[:, 5, 1] += 0.2
    slowdown[:, 2, 3] += 0.15
    return slowdown


def scattered() -> Floats:
    slowdown = quiet()
    slowdown += 0.3 * (np.random.default_rng(1).random(slowdown.shape) < 0.1)
    return slowdown


def all_over() -> Floats:
    return quiet() + 0.3 * np.random.default_rng(1).random((STEPS, DP_RANKS, STAGES))


@pytest.mark.parametrize(
    ("slowdown", "name", "facts"),
    [
        (quiet(), patterns.EVEN, "No worker"),
        (hot_row(), patterns.HOT_ROW, "Stage 3 (of 0 to 3) is slow in all replicas, in every step."),
        (hot_column(), patterns.HOT_COLUMN, "All stages of dp rank 5 are slow, in every step."),
        (hot_cell(), patterns.HOT_CELL, "One worker is slow, dp rank 5 of stage 1, in 10 of 20 steps."),
        (few_cells(), patterns.HOT_CELLS, "2 of 32 workers"),
        (scattered(), patterns.SCATTERED, "not the same ones each time"),
        (all_over(), patterns.ALL_OVER, "not the same ones each time"),
        (all_over().mean(axis=0, keepdims=True), patterns.UNEVEN, "no row, column or cell alone"),
        (hot_row().mean(axis=0, keepdims=True), patterns.HOT_ROW, "in the mean over all steps"),
    ],
)
def test_a_drawn_map_has_its_name(slowdown: Floats, name: str, facts: str) -> None:
    found = name_pattern(slowdown)
    assert found.name == name
    assert facts in found.text


def test_with_one_replica_a_row_is_a_cell_and_the_text_says_so() -> None:
    slowdown = hot_row()[:, :1]
    found = name_pattern(slowdown)
    assert found.name == patterns.HOT_CELL
    assert "a slow worker and a heavy stage look the same" in found.text


@pytest.mark.parametrize(
    ("trace", "name", "facts"),
    [
        ("SE", patterns.ALL_OVER, "not the same ones each time"),
        ("ST", patterns.HOT_ROW, "Stage 3 (of 0 to 3) is slow in all replicas, in every step."),
    ],
)
def test_published_traces_look_as_the_paper_says(
    published_traces: Path, trace: str, name: str, facts: str
) -> None:
    """SE is hot all over, by sequences of uneven length; ST in its last row, by the loss layer."""
    facts_of_trace = published.manifest(published_traces, trace)
    tables = simulate_job(published.rank_steps(published_traces, trace), facts_of_trace)
    slowdown = np.array(tables["worker_slowdown"]["step_slowdowns"].to_pylist())
    found = name_pattern(slowdown.T.reshape(-1, facts_of_trace["dp_size"], facts_of_trace["pp_size"]))
    assert found.name == name
    assert facts in found.text
