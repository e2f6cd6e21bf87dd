"""Intervals contain the true saving of a day as often as stated, and their half widths add up as computed."""

from typing import Final

import numpy as np
import pytest

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.diagnosis.intervals import half_widths, number_of_steps

DAYS: Final = 1500
STEPS: Final = 300


def held(logged: Ints, saved: Floats, actual_s: Floats) -> float:
    """Return the share of days whose interval contains the truth; saved, actual_s have shape (day, step)."""
    inside = []
    for of_day, took_s in zip(saved, actual_s, strict=True):
        own_s = took_s[logged]
        own = of_day[logged] / own_s.mean()
        half = half_widths(own[None], own_s, logged, STEPS).widths[0]
        inside.append(abs(own.mean() - of_day.sum() / took_s.sum()) <= half)
    return float(np.mean(inside))


def drawn(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw steps of 10 s, of which a fix saves 1 s in a random third; return (saved, actual). [s]"""
    saved = np.where(rng.random((DAYS, STEPS)) < 1 / 3, 1.0, 0.0) * rng.lognormal(0, 0.3, (DAYS, STEPS))
    return saved, 10.0 + saved + rng.normal(0, 0.2, (DAYS, STEPS))


@pytest.mark.parametrize(
    "logged",
    [
        np.arange(4, STEPS, 10),
        np.sort(np.random.default_rng(3).choice(STEPS, 30, replace=False)),
        np.concatenate([np.arange(first, first + 5) for first in range(10, STEPS, 50)]),
        np.arange(100, 130),
    ],
    ids=["every tenth", "at random", "bursts", "one stretch"],
)
def test_nine_of_ten_intervals_hold_what_the_day_saves(logged: Ints) -> None:
    assert held(logged, *drawn(np.random.default_rng(1))) == pytest.approx(0.9, abs=0.04)


@pytest.mark.parametrize("logged", [[1, 76, 151, 226], [5, 9, 160], [7, 8]], ids=["even", "uneven", "two"])
def test_few_steps_are_enough_where_all_lose_about_as_much(logged: list[int]) -> None:
    rng = np.random.default_rng(4)
    saved = rng.normal(1.0, 0.1, (DAYS, STEPS))
    assert held(np.array(logged), saved, 10.0 + saved) == pytest.approx(0.9, abs=0.04)


def test_what_begins_within_a_day_is_known_better_from_even_steps() -> None:
    """If a loss begins within a day, evenly spaced logged steps give narrower intervals than random ones."""
    rng = np.random.default_rng(2)
    saved = np.where(np.arange(STEPS) >= 150, 2.0, 0.0) * np.ones((1, 1)) + rng.normal(0, 0.05, (1, STEPS))
    actual_s = 10.0 + saved
    even, by_chance = np.arange(3, STEPS, 10), np.sort(rng.choice(STEPS, 30, replace=False))
    halves = [
        half_widths(saved[:, logged] / 11.0, actual_s[0, logged], logged, STEPS).widths[0]
        for logged in (even, by_chance)
    ]
    assert halves[0] < halves[1] / 3


def test_a_dropped_step_divides_no_stretch() -> None:
    rng = np.random.default_rng(6)
    saved, actual_s = rng.normal(0.1, 0.02, (1, 100)), np.full(100, 10.0)
    one = half_widths(saved, actual_s, np.arange(100), 1000).widths
    lacking = np.delete(np.arange(100), 50)
    two = half_widths(saved[:, lacking], actual_s[lacking], lacking, 1000).widths
    assert two == pytest.approx(one, rel=0.5)


def test_what_was_recorded_whole_has_no_error_of_sampling() -> None:
    saved = np.array([[0.0, 0.2, 0.4], [0.1, 0.1, 0.1]])
    actual_s, numbers = np.array([1.0, 1.2, 1.4]), np.array([7, 8, 9])
    assert half_widths(saved, actual_s, numbers, 3.0).widths.tolist() == [0.0, 0.0]
    assert (
        half_widths(saved, actual_s, numbers, np.inf).widths[0]
        > half_widths(saved, actual_s, numbers, 4.0).widths[0]
        > 0
    )
    assert np.isnan(half_widths(saved[:, :1], actual_s[:1], numbers[:1], 30.0).widths).all()


def test_a_saving_that_is_the_same_part_of_every_step_is_certain() -> None:
    actual_s = np.array([1.0, 3.0, 2.0, 5.0])
    half = half_widths(
        (0.25 * actual_s / actual_s.mean())[None], actual_s, np.array([1, 4, 6, 11]), 100.0
    ).widths
    assert half == pytest.approx(0.0, abs=1e-15)


def test_a_day_has_as_many_steps_as_its_hours_and_its_numbers_say() -> None:
    ten_s = np.full(3, 10.0)
    assert number_of_steps(np.array([1, 2, 3]), ten_s, 16.0, 8) == 720.0
    assert number_of_steps(np.array([1, 500, 1000]), ten_s, 16.0, 8) == 1000.0
    assert number_of_steps(np.array([1, 500, 1000]), ten_s, None, 8) == 1000.0
    assert number_of_steps(np.array([1, 2, 3]), ten_s, None, None) == np.inf
