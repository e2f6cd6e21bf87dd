"""The course of a slowdown over the steps is recognised in series that are written by hand."""

from typing import Final

import numpy as np
import pytest

from udfs.kernel.arrays import Floats
from udfs.kernel.cause import ALWAYS, COMES_AND_GOES, FROM, GROWS, UNTIL
from udfs.kernel.diagnosis.course import course_of

ERROR: Final = 0.01
STEPS: Final = 20
SLOW: Final = 0.3


def slow_in(*steps: int) -> Floats:
    series = np.zeros(STEPS)
    series[list(steps)] = SLOW
    return series


HELD: Final = {
    "always": (slow_in(*range(20)), ALWAYS, range(20)),
    "from": (slow_in(*range(7, 20)), FROM, range(7, 20)),
    "from, the last two": (slow_in(18, 19), FROM, range(18, 20)),
    "until": (slow_in(*range(5)), UNTIL, range(5)),
    "two stretches": (slow_in(*range(4), *range(12, 20)), COMES_AND_GOES, [*range(4), *range(12, 20)]),
    "a stretch in the middle": (slow_in(*range(6, 13)), COMES_AND_GOES, range(6, 13)),
    "every third": (slow_in(*range(0, 20, 3)), COMES_AND_GOES, range(0, 20, 3)),
    "one": (slow_in(11), COMES_AND_GOES, [11]),
    "the last alone": (slow_in(19), COMES_AND_GOES, [19]),
    "from, one step like usual": (slow_in(*range(5, 12), *range(13, 20)), FROM, range(5, 20)),
}


@pytest.mark.parametrize(("series", "kind", "steps"), HELD.values(), ids=HELD)
def test_courses_of_one_level(series: Floats, kind: int, steps: list[int]) -> None:
    found = course_of(series, ERROR)
    assert (found.kind, np.flatnonzero(found.is_slow).tolist()) == (kind, list(steps))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("name", [name for name in HELD if name not in ("one", "the last alone")])
def test_noise_changes_no_course(name: str, seed: int) -> None:
    series, kind, steps = HELD[name]
    found = course_of(series + ERROR * np.random.default_rng(seed).standard_normal(STEPS), ERROR)
    assert (found.kind, np.flatnonzero(found.is_slow).tolist()) == (kind, list(steps))


@pytest.mark.parametrize("first", [0, 4, 9])
def test_what_rises_to_the_end_grows_from_where_it_leaves_the_usual(first: int) -> None:
    series = np.clip((np.arange(STEPS) - first) / (STEPS - 1 - first), 0.0, 1.0) * SLOW
    found = course_of(series, ERROR)
    assert found.kind == GROWS
    begins = int(np.flatnonzero(found.is_slow)[0])
    assert abs(begins - (first + 1)) <= 1
    assert found.is_slow[begins:].all(), "slowness that grows does not end"


def test_what_falls_from_the_start_does_not_grow() -> None:
    assert course_of(np.linspace(SLOW, 0.0, STEPS), ERROR).kind == UNTIL


def test_a_level_with_a_trend_within_its_error_is_a_level() -> None:
    """A series whose trend is smaller than the trend's standard error counts as constant, not as growing."""
    assert course_of(np.linspace(SLOW, 1.1 * SLOW, STEPS), ERROR).kind == ALWAYS


def test_over_few_steps_nothing_grows() -> None:
    assert course_of(np.array([0.0, 0.1, 0.2, 0.3, 0.4]), ERROR).kind != GROWS
    assert course_of(np.array([0.0, 0.1, 0.2, 0.3, 0.4, 0.5]), ERROR).kind == GROWS


def test_the_level_is_that_of_slow_steps_not_of_the_worst() -> None:
    """All 12 slow steps are recognised, even if one of them is five times as slow as the others."""
    series = slow_in(*range(8, 20))
    series[15] = 0.8
    found = course_of(series, ERROR)
    assert (found.kind, int(found.is_slow.sum())) == (FROM, 12)
