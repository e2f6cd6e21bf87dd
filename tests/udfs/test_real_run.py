"""Among real processes that wait for each other, the slowed one is found, even with wrong clocks."""

from datetime import date
from pathlib import Path

import pytest

from tests.support.skewed import began_us, simulated, skewed, skews
from tests.support.training_run import STEPS, real_run
from udfs.what_if import simulate_job

SAME = 1e-2
"""Largest relative difference: the two ends of a real transfer are recorded 0.2 ms apart, or more, if
processes share two cores."""

FACTOR_ERROR = 0.25
"""Largest relative error of a factor: on a busy machine, sleeps of any process may end late."""


def test_shifted_zeros_of_a_real_run_change_nothing(tmp_path: Path) -> None:
    rank_steps, manifest = real_run(tmp_path, date(2026, 1, 5))
    true = simulated(rank_steps, manifest)
    assert true["steps"] == STEPS == len(began_us(rank_steps))
    assert true["slowdown"] > 1.05, "the heavy stage makes the job slower"
    for skew, courses in skews(rank_steps, seed=1).items():
        found = simulated(skewed(rank_steps, courses), manifest)
        assert found["is_clock_corrected"] or skew == "drift to 200 ppm", skew
        assert found["slowdown"] == pytest.approx(true["slowdown"], rel=SAME), skew
        assert found["status"] == true["status"]


def test_a_slowed_process_is_found_and_by_how_much(tmp_path: Path) -> None:
    stage, dp_rank, factor = 1, 2, 1.6
    rank_steps, manifest = real_run(tmp_path, date(2026, 1, 5), {(stage, dp_rank): factor})
    results = simulate_job(rank_steps, manifest)
    (slow_worker,) = (row for row in results["job_causes"].to_pylist() if row["cause"] == "slow_worker")
    assert slow_worker["is_cause"]
    worst = slow_worker["culprits"][0]
    assert (worst["pp_rank"], worst["dp_rank"]) == (stage, dp_rank)
    assert 1 + dict(slow_worker["evidence"])["effect"] == pytest.approx(factor, rel=FACTOR_ERROR)
