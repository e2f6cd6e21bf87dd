"""Patterns in maps of workers are recognised, and drawn; test_job_page.py tests those of published traces."""

from typing import Any

import numpy as np
import pytest

from jobs.report import job_charts as maps

STEPS, DP_RANKS, STAGES = 20, 8, 4
QUIET = 1 + 0.002 * np.random.default_rng(0).random((STEPS, DP_RANKS, STAGES))
RANDOM = np.random.default_rng(1).random(QUIET.shape)
ALL = slice(None)
ROW = (ALL, ALL, 3)


def hot(*places: tuple[Any, float]) -> maps.Floats:
    """Return slowdowns by (step, dp rank, stage) that exceed 1 clearly only at the given places."""
    slowdown = QUIET.copy()
    for place, excess in places:
        slowdown[place] += excess
    return slowdown


ALL_OVER = QUIET + 0.3 * RANDOM


@pytest.mark.parametrize(
    ("slowdown", "name", "facts"),
    [
        (QUIET, maps.EVEN, "No worker"),
        (hot((ROW, 0.2)), maps.HOT_ROW, "Stage 3 (of 0 to 3) is slow in all replicas, in every step."),
        (hot(((ALL, 5), 0.1)), maps.HOT_COLUMN, "All stages of dp rank 5 are slow, in every step."),
        (hot(((slice(None, None, 2), 5, 1), 0.2)), maps.HOT_CELL, "dp rank 5 of stage 1, in 10 of 20 steps."),
        (hot(((ALL, 5, 1), 0.2), ((ALL, 2, 3), 0.15)), maps.HOT_CELLS, "2 of 32 workers"),
        (  # six workers with about equal means: four in all steps, two in most
            hot(((ALL, slice(None, None, 2), 3), 0.065), ((slice(5, STEPS), slice(2, 4), 0), 0.08)),
            maps.HOT_CELLS,
            "6 of 32 workers make up most of the slowness; the hottest is hot in 15 of 20 steps.",
        ),
        (
            hot(((ALL, slice(4, 8)), 0.15)),
            maps.SAME_CELLS,
            "The same 16 of 32 workers are slow, in every step.",
        ),
        (QUIET + 0.3 * (RANDOM < 0.1), maps.SCATTERED, "but not all in the same"),
        (
            hot(((slice(0, STEPS, 10),), 1.1)),
            maps.TOGETHER,
            "All workers are slow in the same steps, 2 of 20.",
        ),
        (
            hot(((slice(0, STEPS, 10), slice(1, None)), 1.1)),
            maps.TOGETHER,
            "Most workers are slow in the same steps, 2 of 20.",
        ),
        (hot(((ALL,), 0.2)), maps.ALL_OVER, "All workers are slow in every step."),
        (ALL_OVER, maps.ALL_OVER, "but not all in the same"),
        (ALL_OVER.mean(axis=0, keepdims=True), maps.UNEVEN, "no single row, column or cell"),
        (hot((ROW, 0.2)).mean(axis=0, keepdims=True), maps.HOT_ROW, "in the mean over all steps"),
        (hot((ROW, 0.2))[:, :1], maps.HOT_CELL, "a slow worker and a heavy stage look the same"),
    ],
)
def test_a_drawn_map_has_its_name(slowdown: maps.Floats, name: str, facts: str) -> None:
    found = maps.name_pattern(slowdown)
    assert found.name == name
    assert facts in found.text
