"""The search for units in phase finds the same pairs as a double loop, and obvious pairs."""

import tracemalloc

import numpy as np
import pytest

from tests.oracle import power as reference
from udfs.power import days as searched
from udfs.power.days import Swings, in_phase


def units(seed: int, count: int) -> list[tuple[float, float, float, float]]:
    """Draw (period, peak, first, last) of units, some of which have nearly equal periods. [s]"""
    rng = np.random.default_rng(seed)
    drawn = []
    for _ in range(count):
        period = float(rng.choice([2.0, 5.0, 5.0])) * (
            1 + rng.choice([0.0, 1e-4, 1e-2]) * rng.standard_normal()
        )
        first = rng.uniform(0, 400)
        drawn.append((period, first + rng.uniform(0, 200), first, first + rng.uniform(5, 1200)))
    return drawn


@pytest.mark.parametrize("together", [1, 50, 10**6])
@pytest.mark.parametrize("count", [1, 2, 120])
def test_random_units(together: int, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searched, "PAIRS_TOGETHER", together)
    drawn = units(together % 7, count)
    pairs, found = in_phase(Swings(*np.array(drawn).T), np.zeros(count), count**2)
    wanted = reference.in_phase(drawn)
    assert pairs == len(wanted)
    assert list(zip(found.one.tolist(), found.other.tolist(), strict=True)) == list(wanted)
    wanted_figures = np.array([*wanted.values()]).reshape(-1, 2).T
    assert np.allclose([found.drift, found.phase_difference], wanted_figures, atol=1e-9)
    assert count < 100 or len(wanted) > 20


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ((5.0, 0.5, 0.0, 1000.0), 0.1),
        ((5.0, -0.5, 0.0, 1000.0), -0.1),
        ((5.0, 1005.0 + 4.5, 0.0, 1000.0), -0.1),
        ((5.0, 1.0, 0.0, 1000.0), None),
        ((5.005, 500.0, 0.0, 1000.0), 0.0),
        ((5.0075, 500.0, 0.0, 1000.0), None),
        ((5.0, 0.0, 960.0, 2000.0), None),
        ((5.0, 0.0, 940.0, 2000.0), 0.0),
    ],
    ids=["later", "earlier", "a period on", "apart", "drifts", "drifts away", "hardly met", "met"],
)
def test_a_pair(other: tuple[float, float, float, float], difference: float | None) -> None:
    """Two units are in phase only if their phases drift apart slowly and they run together long enough."""
    _, found = in_phase(Swings(*np.array([(5.0, 0.0, 0.0, 1000.0), other]).T), np.zeros(2), 1)
    assert found.phase_difference.tolist() == (
        [] if difference is None else [pytest.approx(difference, abs=1e-9)]
    )


@pytest.mark.parametrize("together", [10, 10**6])
def test_the_heaviest_are_those_of_all(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, weight = units(1, 120), np.random.default_rng(1).integers(1, 5, 120).astype(np.float64)
    swings = Swings(*np.array(drawn).T)
    count, all_of_them = in_phase(swings, weight, 120**2)
    of_pairs = weight[all_of_them.one] + weight[all_of_them.other]
    assert of_pairs.tolist() == sorted(of_pairs.tolist(), reverse=True)
    monkeypatch.setattr(searched, "PAIRS_TOGETHER", together)
    some, heaviest = in_phase(swings, weight, 7)
    assert (some, len(heaviest.one)) == (count, 7)
    for values, every in zip(heaviest, all_of_them, strict=True):
        assert values.tolist() == every[:7].tolist()


def test_a_thousand_units_in_phase_are_compared_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand units are compared in parts, so that memory stays below 5 MB."""
    monkeypatch.setattr(searched, "PAIRS_TOGETHER", 10_000)
    alike = Swings(*np.tile([[5.0], [0.0], [0.0], [1000.0]], 1000))
    tracemalloc.start()
    try:
        count, kept = in_phase(alike, np.ones(1000), 10)
        assert tracemalloc.get_traced_memory()[1] < 5e6
    finally:
        tracemalloc.stop()
    assert (count, kept.other.tolist()) == (499_500, [*range(1, 11)])
