"""Intervals of mean step times contain the truth as often as stated; changes of level do not widen them."""

from collections.abc import Callable
from math import hypot

import numpy as np
import pytest

from udfs.kernel.arrays import Floats
from udfs.kernel.student import student_quantile
from udfs.noise import Noise, noise_of

STEPS = 60
PAIRS = 200
BLOCKS = 10
OF_STEADY = 0.38
"""Half width of the interval of two steady runs: Student's 2.10 (18 degrees) times the root of 2 / 60 is
0.383."""
Draw = Callable[[np.random.Generator], tuple[Floats, Floats]]
"""A function that draws the step times of a run, and the same without noise."""


def steady(rng: np.random.Generator) -> tuple[Floats, Floats]:
    return rng.normal(10.0, 1.0, STEPS), np.full(STEPS, 10.0)


def carried(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw step times with correlated noise: the noise of a step carries 0.6 of the previous step's."""
    noise = rng.normal(0.0, 0.8, STEPS + 50)
    for step in range(1, len(noise)):
        noise[step] += 0.6 * noise[step - 1]
    return 10.0 + noise[50:], np.full(STEPS, 10.0)


def turning(rng: np.random.Generator) -> tuple[Floats, Floats]:
    at = rng.integers(STEPS // 6, STEPS - STEPS // 6)
    course = np.where(np.arange(STEPS) >= at, 15.0, 10.0)
    return course + rng.normal(0.0, 1.0, STEPS), course


def slow_for_a_while(rng: np.random.Generator) -> tuple[Floats, Floats]:
    middle = rng.integers(20, STEPS - 20)
    course = np.where(np.abs(np.arange(STEPS) - middle) < 10, 15.0, 10.0)
    return course + rng.normal(0.0, 1.0, STEPS), course


def pausing(rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Draw step times with noise of deviation 1, of which 3 in 100 are longer by a mean of 20."""
    pauses = rng.exponential(20.0, STEPS) * (rng.random(STEPS) < 0.03)
    return 10.0 + pauses + rng.normal(0.0, 1.0, STEPS), np.full(STEPS, 10.6)


def drifting(rng: np.random.Generator) -> tuple[Floats, Floats]:
    course = np.arange(10.0, 10.0 + 0.1 * STEPS, 0.1)
    return course + rng.normal(0.0, 1.0, STEPS), course


def known(values: Floats, blocks: int = BLOCKS) -> Noise:
    found = noise_of(values, blocks)
    assert found is not None
    return found


def coverage(first: Draw, second: Draw, seed: int) -> tuple[float, float]:
    """Return the share of 95 % intervals that contain the true difference of runs, and the half width."""
    rng = np.random.default_rng(seed)
    inside, reaches = 0, []
    for _ in range(PAIRS):
        (a, true_a), (b, true_b) = first(rng), second(rng)
        noises = known(a), known(b)
        error = hypot(*(each.error for each in noises))
        freedom = error**4 / sum(each.error**4 / each.freedom for each in noises)
        reaches.append(student_quantile(0.975, freedom) * error)
        inside += abs((b - true_b).mean() - (a - true_a).mean()) <= reaches[-1]
    return inside / PAIRS, float(np.mean(reaches))


@pytest.mark.parametrize("draw", [steady, carried, pausing])
def test_an_interval_of_95_percent_has_the_true_difference(draw: Draw) -> None:
    assert coverage(draw, draw, 1)[0] >= 0.9


@pytest.mark.parametrize(
    ("first", "second"),
    [(turning, turning), (steady, turning), (slow_for_a_while, turning), (drifting, drifting)],
)
def test_a_course_does_not_widen_the_interval(first: Draw, second: Draw) -> None:
    inside, reach = coverage(first, second, 2)
    assert inside >= 0.9
    assert reach < 1.5 * OF_STEADY


def test_noise_of_independent_blocks_by_hand() -> None:
    """Block means -1, 1, 1 and -1 have variance 4 / 3, so the mean of the blocks has variance 1 / 3."""
    values = np.array([9.0, 11.0, 11.0, 9.0])
    found = known(values, 4)
    assert found.error == pytest.approx((1 / 3) ** 0.5)
    assert found.freedom == 3


def test_a_change_anywhere_in_a_long_run_is_found_to_the_step() -> None:
    """Changes are found to the exact step, even if a run is so long that not all steps are tried at first."""
    values = np.tile([0.0, 0.2], 2500)
    values[1237:3411] += 100.0
    assert known(values).error < 0.001


def test_pauses_next_to_each_other_are_noise() -> None:
    """Pauses close to each other count as noise, because most steps between them have the usual level."""
    values = np.tile([0.0, 0.2], 30)
    values[[20, 22]] += 30.0
    assert known(values).error > 0.5


def test_constant_values_have_no_noise_and_few_none_that_is_known() -> None:
    assert known(np.full(60, 10.1)).error < 1e-12
    assert noise_of(np.array([1.0, 2.0, 3.0, 4.0]), 2) is None


@pytest.mark.parametrize("days", range(3, 12))
def test_any_number_of_independent_values_has_an_answer(days: int) -> None:
    assert known(np.arange(days) % 2 + 5.0 * (np.arange(days) >= days // 2), days).error > 0.1
