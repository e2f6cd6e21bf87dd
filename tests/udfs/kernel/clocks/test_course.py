"""The course of a clock's error, such as offset, drift and jumps, is found in series made by hand."""

import numpy as np
import pytest

from udfs.kernel.clocks.course import course, levelled

TIME_S = np.arange(0.0, 300.0, 10.0)
NOISE_S = 20e-6 * np.random.default_rng(0).standard_normal((2, 30))


def test_offset_and_drift() -> None:
    found = course(np.array([0.01 + 50e-6 * TIME_S, 0.0 * TIME_S]) + NOISE_S, TIME_S)
    assert found.drift == pytest.approx([50e-6, 0.0], abs=2e-7)
    assert not found.is_leap.any()
    assert found.ahead_s[0] == pytest.approx(0.01 + 50e-6 * TIME_S, abs=2e-5)
    assert found.scatter_s == pytest.approx([20e-6, 20e-6], rel=0.4)


def test_sudden_steps() -> None:
    """Two jumps of a clock, by -50 ms and +3 ms, are found although the clock also drifts by 10 ppm."""
    true_s = 10e-6 * TIME_S - 0.05 * (np.arange(30) >= 12) + 0.003 * (np.arange(30) >= 20)
    found = course(np.array([true_s, 0.0 * TIME_S]) + NOISE_S, TIME_S)
    assert np.argwhere(found.is_leap).tolist() == [[0, 11], [0, 19]]
    assert found.drift[0] == pytest.approx(10e-6, abs=1e-6)
    assert found.ahead_s[0] == pytest.approx(true_s, abs=4e-5)


def test_one_step_that_is_off_is_no_course() -> None:
    late_s = 0.02 * (np.arange(30) == 7)
    found = course(np.array([late_s, 0.0 * TIME_S]) + NOISE_S, TIME_S)
    assert not found.is_leap.any()
    assert np.abs(found.ahead_s).max() < 3e-5


def test_steps_without_a_signal() -> None:
    ahead_s = np.array([0.01 + 0.0 * TIME_S, 0.0 * TIME_S]) + NOISE_S
    ahead_s[:, 3:6] = np.nan
    found = course(ahead_s, TIME_S)
    assert found.ahead_s[0] == pytest.approx(np.full(30, 0.01), abs=2e-5)


def test_a_clock_set_between_two_bursts_is_not_taken_for_a_drift() -> None:
    """A jump between two bursts of steps is not mistaken for a drift, which would show within the bursts."""
    time_s = np.concatenate([np.arange(5.0), 140.0 + np.arange(5.0)])
    noise_s = 5e-6 * np.random.default_rng(3).standard_normal((3, 10))
    true_s = np.array([-0.05 * (time_s > 100.0), 0.0 * time_s, 0.0 * time_s])
    found = course(true_s + noise_s, time_s)
    assert np.argwhere(found.is_leap).tolist() == [[0, 4]]
    assert found.ahead_s == pytest.approx(true_s, abs=3e-5)


def test_a_clock_set_after_the_first_step_of_a_burst_is_not_taken_for_a_drift() -> None:
    time_s = np.concatenate([0.8 * np.arange(5.0), 66.0 + 0.4 * np.arange(5.0)])
    own_s = np.array([1.2, -48.77, -48.77, -48.75, -48.75, -48.43, -48.43, -48.42, -48.42, -48.43]) * 1e-3
    found = course(np.array([own_s, 0.0 * time_s]), time_s)
    assert np.abs(found.drift).max() < 1e-4
    assert found.ahead_s[0, 5:] == pytest.approx(own_s[5:], abs=3e-5)


def test_one_clock_that_is_set_makes_no_other_drift() -> None:
    """A jump of one of six clocks does not make the other five seem to drift or jump."""
    time_s = 0.5 * np.arange(12.0)
    own_s = np.zeros((6, 12))
    own_s[2, 6:] = -0.05
    noise_s = 5e-5 * np.random.default_rng(1).standard_normal(own_s.shape)
    ahead_s = own_s - own_s.mean(axis=0) + noise_s
    found = course(levelled(ahead_s, time_s, np.zeros(6, dtype=np.int64)), time_s)
    assert np.abs(found.drift).max() < 1e-4
    assert np.argwhere(found.is_leap).tolist() == [[2, 5]]
    assert found.ahead_s - found.ahead_s[0] == pytest.approx(own_s, abs=2e-4)
