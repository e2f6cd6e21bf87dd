"""Intervals worked by hand, and that hold the truth as often as they say."""

import numpy as np
import pytest

from jobs.reading.before_after import compare


def test_an_interval_worked_by_hand() -> None:
    """Means 2 and 5, variances 1 and 1 of three each: 3 +- 2.776445 * sqrt(2 / 3), with 4 degrees."""
    found = compare([1.0, 2.0, 3.0], [4.0, 5.0, 6.0], 0.95)
    assert (found.before, found.after, found.effect) == (2.0, 5.0, 3.0)
    assert found.low == pytest.approx(3 - 2.776445 * (2 / 3) ** 0.5, rel=1e-6)
    assert found.high == pytest.approx(3 + 2.776445 * (2 / 3) ** 0.5, rel=1e-6)
    assert found.is_clear


def test_pairs_leave_out_what_differs_between_them() -> None:
    """Differences 1, 2 and 3: 2 +- 2.919986 / sqrt(3); as two groups they would overlap."""
    before, after = [0.0, 10.0, 20.0], [1.0, 12.0, 23.0]
    found = compare(before, after, 0.9, is_paired=True)
    assert found.effect == pytest.approx(2.0)
    assert found.high == pytest.approx(2 + 2.919986 / 3**0.5, rel=1e-6)
    assert found.is_clear
    assert not compare(before, after, 0.9).is_clear
    assert compare([1.0, 2.0], [2.0, 3.5], 0.9, is_paired=True).low is None
    assert compare([1.0, 2.0, 3.0], [2.0, 3.0, 4.0], 0.9, is_paired=True).low is None


def test_too_little_has_no_interval() -> None:
    for before, after in (([1.0, 2.0], [9.0] * 9), ([], [1.0, 2.0, 3.0]), ([1.0] * 5, [2.0] * 5)):
        found = compare(before, after, 0.95)
        assert (found.low, found.high, found.is_clear) == (None, None, False)
    assert compare([], [1.0], 0.95).effect is None
    assert compare([1.0], [3.0], 0.95).effect == 2.0


def test_an_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(1000):
        found = compare(rng.normal(0, 1, 6).tolist(), rng.normal(1, 3, 15).tolist(), 0.9)
        assert found.low is not None
        assert found.high is not None
        inside += found.low <= 1.0 <= found.high
    assert inside / 1000 == pytest.approx(0.9, abs=0.03)
