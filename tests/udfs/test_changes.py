"""Change points equal those of an exhaustive search and of the package ruptures, and are described right."""

from datetime import date, timedelta
from itertools import combinations
from math import log

import numpy as np
import pytest
from ruptures import Pelt

from schemas.job_changes import NO_CAUSE, OF_LOST, OF_STEP
from schemas.unit import Unit
from udfs.changes import (
    PENALTY,
    Change,
    Point,
    also_changed,
    change_points,
    changes_of,
)
from udfs.kernel.arrays import Floats


def points(step_s: list[float], lost: list[dict[str, float]] | None = None, runs: str = "") -> list[Point]:
    """Return one point per day; each letter of `runs` is the run of one day."""
    return [
        Point(
            Unit(date(2026, 1, 1) + timedelta(day), "llm", f"r{(runs or 'a' * len(step_s))[day]}"),
            each_s,
            0.002,
            {} if lost is None else lost[day],
            {"dp_size": 4},
            frozenset({"node-1"}),
        )
        for day, each_s in enumerate(step_s)
    ]


def of_steps(step_s: list[float]) -> list[tuple[str, float]]:
    found = [change for change in changes_of(points(step_s)) if change.of == OF_STEP]
    return [(change.since.isoformat(), round(change.change, 1)) for change in found]


def wobbling(levels: list[float], spread: float = 0.002) -> list[float]:
    return [level * (1 + spread * ((5 * day * day) % 7 - 3)) for day, level in enumerate(levels)]


def test_a_new_level_is_dated() -> None:
    assert of_steps(wobbling([10.0] * 6 + [11.0] * 5)) == [("2026-01-07", 0.1)]


def test_there_and_back_are_two_changes_the_latest_first() -> None:
    found = of_steps(wobbling([10.0] * 5 + [12.0] * 3 + [10.0] * 4))
    assert [since for since, _ in found] == ["2026-01-09", "2026-01-06"]
    assert [change > 0 for _, change in found] == [False, True]


def test_the_last_day_alone_is_a_change() -> None:
    assert of_steps(wobbling([10.0] * 8 + [12.0])) == [("2026-01-09", 0.2)]


@pytest.mark.parametrize(
    "step_s",
    [
        [10.0] * 9,
        wobbling([10.0] * 12, 0.03),
        wobbling([10.0] * 30 + [10.12] * 30),  # 1.2 % is certain, but too small to count
        [10.0, 12.0],
        [10.0, 11.0, 10.0, 11.0, 10.0, 11.0, 10.0],  # days usually differ by that much
    ],
)
def test_small_changes_and_usual_differences_are_none(step_s: list[float]) -> None:
    assert of_steps(step_s) == []


def test_days_that_are_known_badly_count_less() -> None:
    values = np.array([0.0] * 6 + [0.1] + [0.0] * 3)
    assert change_points(values, np.zeros(10), 0.005, 0.02) == [6, 7]
    errors = np.where(values > 0, 0.08, 0.0)
    assert change_points(values, errors, 0.005, 0.02) == []


def test_no_other_split_leaves_less() -> None:
    """No other split into at most four stretches has a lower cost than the one found."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        levels = np.repeat(rng.normal(0, 0.05, 3), [4, 3, 5])
        values = levels + rng.normal(0, 0.005, 12)
        spread = 0.02  # larger than differences between days suggest
        found = change_points(values, np.zeros(12), spread, 0.0)
        splits = [list(split) for size in range(4) for split in combinations(range(1, 12), size)]
        assert found == min(splits, key=lambda split: cost(values, split, spread))


def test_ruptures_finds_the_same_changes() -> None:
    """PELT of the package ruptures finds the same changes in long series of up to six levels.

    Both searches get the same penalty for a change.
    """
    rng, error, spread = np.random.default_rng(36), 0.004, 0.02
    with_changes = 0
    for days in range(20, 140, 3):
        begins = np.sort(rng.choice(np.arange(1, days), int(rng.integers(6)), replace=False))
        lengths = np.diff([0, *begins, days])
        values = np.repeat(rng.normal(1.0, 0.1, len(lengths)), lengths) + rng.normal(0, 0.01, days)
        price = (error**2 + spread**2) * (PENALTY + 2 * log(days))
        *oracle, _ = Pelt(model="l2", min_size=1, jump=1).fit_predict(values, price)
        assert change_points(values, np.full(days, error), spread, 0.0) == oracle, days
        with_changes += bool(oracle)
    assert with_changes >= 25


def cost(values: Floats, split: list[int], spread: float) -> float:
    """Return the cost of a split: squared errors within its stretches, plus a penalty for each change."""
    steps = np.sort(np.abs(np.diff(values)))
    spread = max(spread, 1.4826 * float(steps[(len(steps) - 1) // 2]) / 2**0.5)
    left = sum(float(((each - each.mean()) ** 2).sum()) for each in np.split(values, split))
    return left / spread**2 + len(split) * (PENALTY + 2 * log(len(values)))


def of(found: list[Change], kind: str) -> Change:
    (one,) = [change for change in found if change.of == kind]
    return one


def test_the_cause_whose_part_changed_is_named() -> None:
    lost = [{"slow_worker": 0.0, "pause": 0.05}] * 6 + [{"slow_worker": 0.16, "pause": 0.04}] * 4
    found = changes_of(points(wobbling([10.0] * 6 + [11.9] * 4), lost))
    step = of(found, OF_STEP)
    assert (step.cause, step.days_before, step.days, step.until) == ("slow_worker", 6, 4, date(2026, 1, 10))
    assert [step.before, step.after] == pytest.approx([10.0, 11.9], rel=0.01)
    assert of(found, OF_LOST).change == pytest.approx(0.15)
    assert of(found, "slow_worker").change == pytest.approx(0.16)
    assert {change.of for change in found} == {OF_STEP, OF_LOST, "slow_worker"}


def test_more_work_has_no_cause() -> None:
    assert of(changes_of(points(wobbling([10.0] * 6 + [12.0] * 4))), OF_STEP).cause == NO_CAUSE
    unknown = [point._replace(lost=None) for point in points(wobbling([10.0] * 6 + [12.0] * 4))]
    assert of(changes_of(unknown), OF_STEP).cause == NO_CAUSE


def test_what_changed_too_is_said() -> None:
    found = changes_of(points(wobbling([10.0] * 5 + [12.0] * 4), runs="aaaaabbbb"))
    assert of(found, OF_STEP).also == ["run ra -> rb"]
    before, after = points([1.0, 1.0])
    hosts = frozenset({f"node-{number}" for number in range(2, 8)})
    after = after._replace(facts={"dp_size": 8, "label nccl": "2.20"}, hosts=hosts)
    assert list(also_changed(before, after)) == [
        "dp_size 4 -> 8",
        "label nccl None -> 2.20",
        "hosts gone: node-1",
        "hosts new: node-2, node-3, node-4 and 3 more",
    ]


def test_what_comes_and_goes_is_uncertain_from_day_to_day() -> None:
    """A loss on three of ten days counts as changes only if each day's loss has a small error."""
    lost = [{"pause": 0.1 if day in (3, 4, 8) else 0.0} for day in range(10)]
    steady = points(wobbling([10.0] * 10), lost)
    assert {change.of for change in changes_of(steady)} == {OF_LOST, "pause"}
    assert changes_of([point._replace(error=0.05) for point in steady]) == []
