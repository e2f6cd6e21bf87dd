"""Processes that really wait for each other: whatever their clocks say, the answer is the same."""

from datetime import date
from pathlib import Path

import pytest

from tests.skewed import began_us, simulated, skewed, skews
from tests.training_run import STEPS, real_run

SAME = 2e-3
"""Relative: two ends of a real transfer are up to 0.2 ms apart where processes share two cores."""


def test_shifted_zeros_of_a_real_run_change_nothing(tmp_path: Path) -> None:
    rank_steps, manifest = real_run(tmp_path, date(2026, 1, 5))
    true = simulated(rank_steps, manifest)
    assert true["steps"] == STEPS == len(began_us(rank_steps))
    assert true["slowdown"] > 1.05, "the heavy stage shows"
    for skew, courses in skews(rank_steps, seed=1).items():
        found = simulated(skewed(rank_steps, courses), manifest)
        assert found["is_clock_corrected"] or skew == "drift to 200 ppm", skew
        assert found["slowdown"] == pytest.approx(true["slowdown"], rel=SAME), skew
        assert found["status"] == true["status"]
