"""Parts of a difference of two runs add up; a difference that may be chance gets no verdict."""

from datetime import date
from typing import Any

import numpy as np
import pytest

from jobs.reading.difference import (
    CHANCE,
    FASTER,
    NOT_EXPOSED,
    NOTHING_LOST,
    OF_CAUSE,
    OF_EXPOSED,
    SAME,
    SEVERAL,
    SLOWER,
    TOO_FEW,
    Found,
    find,
)
from jobs.reading.side import Day, Side
from schemas.unit import Unit
from udfs.kernel.replay.other_times import Match
from udfs.two_runs import Divided

NO_JOB: dict[str, Any] = {}


def day(steps_s: list[float], lost: float = 0.0, exposed_s: float = 0.0, number: int = 5) -> Day:
    """Return a day of a run with the given step times.

    steps_s : times of the steps [s]
    lost : share of the time that a slow worker loses
    exposed_s : exposed time of sends, and of reduce-scatters, in a step [s]
    number : day of January
    """
    causes = [
        {
            "cause": "slow_worker",
            "is_cause": lost > 0,
            "attributed_fraction": lost,
            "time_saved_fraction": lost,
        },
        {"cause": "unexplained", "is_cause": False, "attributed_fraction": 0.0, "time_saved_fraction": 0.0},
    ]
    exposed = [
        {"scope": "job", "op_type": "all", "exposed_s": 1.5 * exposed_s},
        {"scope": "stage", "op_type": "all", "exposed_s": 9.0},
        {"scope": "op_type", "op_type": "forward-pp-comm", "exposed_s": exposed_s},
        {"scope": "op_type", "op_type": "grads-reduce-scatter", "exposed_s": exposed_s},
    ]
    times = np.array(steps_s)
    return Day(Unit(date(2026, 1, number), "llm", "r"), NO_JOB, times, times - 0.125, causes, exposed)


def side(*days: Day) -> Side:
    return Side("a side", days)


def wobbling(middle: float, spread: float, steps: int = 20) -> list[float]:
    return [middle + spread * (7 * step * step % 5 - 2) for step in range(steps)]


def found(a: list[float], b: list[float], confidence: float = 0.99) -> Found:
    return find(side(day(a)), side(day(b)), confidence, None)


def test_parts_of_every_kind_add_up_to_the_difference() -> None:
    by_ops = Divided(
        Match.WORKERS, 1.0, 2.0, 1.5, {"forward-compute": 0.4, "gc": 0.1}, {"stage 0": 0.5}, {"node-1": 0.5}
    )
    a, b = side(day(wobbling(10, 0.1), exposed_s=0.5)), side(day(wobbling(12, 0.1), 0.1, 1.0))
    answer = find(a, b, 0.99, by_ops)
    kinds = {part.of for part in answer.parts}
    assert kinds == {"step time", "cause", "op type", "stage", "host", "exposed communication"}
    for kind in kinds:
        parts = [part for part in answer.parts if part.of == kind]
        assert sum(part.difference_s for part in parts) == pytest.approx(answer.difference_s, abs=1e-12)
        assert sum(part.share or 0.0 for part in parts) == pytest.approx(1.0)
        assert all(part.b_s is None or part.b_s - part.a_s == part.difference_s for part in parts if part.a_s)
    at = {(part.of, part.part): part for part in answer.parts}
    assert at[OF_CAUSE, "slow_worker"].difference_s == pytest.approx(1.2)
    assert at[OF_CAUSE, NOTHING_LOST].difference_s == pytest.approx(0.8)
    assert at[OF_EXPOSED, SEVERAL].b_s == pytest.approx(-0.5)
    assert at[OF_EXPOSED, NOT_EXPOSED].b_s == pytest.approx(10.5)
    assert at[OF_EXPOSED, "forward-pp-comm"].verdict == SLOWER


@pytest.mark.parametrize(("alone", "attributed"), [(True, 0.1), (False, 0.06)])
def test_a_cause_that_holds_on_one_side_is_measured_on_both(*, alone: bool, attributed: float) -> None:
    """If only one of two runs has a cause, the cause is compared by the time attributed to it in both."""
    a = with_slow_worker(day(wobbling(10, 0.1)), attributed_fraction=0.02, time_saved_fraction=0.02)
    b = with_slow_worker(
        day(wobbling(11, 0.1)),
        is_cause=alone,
        attributed_fraction=attributed,
        time_saved_fraction=attributed if alone else 0.01,
    )
    parts = {part.part: part for part in find(side(a), side(b), 0.99, None).parts if part.of == OF_CAUSE}
    assert parts["slow_worker"].difference_s == pytest.approx(11 * attributed - 10 * 0.02, rel=1e-9)
    assert "unexplained" not in parts
    assert sum(part.difference_s for part in parts.values()) == pytest.approx(1.0)


def with_slow_worker(of: Day, **changes: object) -> Day:
    return of._replace(causes=[{**of.causes[0], **changes}, *of.causes[1:]])


def test_a_difference_beyond_chance_is_slower_or_faster() -> None:
    answer = found(wobbling(10, 0.1), wobbling(11, 0.1))
    assert answer.verdict == SLOWER
    assert answer.relative == pytest.approx(0.1)
    assert 0 < (answer.reach_s or 0) < 0.3
    assert found(wobbling(11, 0.1), wobbling(10, 0.1)).verdict == FASTER
    assert answer.exceeds(0.03)
    assert not answer.exceeds(0.2)


@pytest.mark.parametrize("at", [20, 30, 33, 50])
def test_an_interval_is_no_wider_where_both_runs_turn_slow(at: int) -> None:
    """If both runs become slow at the same step, the interval is less than twice that of two steady runs."""
    a, b = wobbling(10, 0.1, 60), wobbling(10.5, 0.1, 60)
    turned = [[time + 5.0 * (step >= at) for step, time in enumerate(each)] for each in (a, b)]
    steady, both = found(a, b), found(turned[0], turned[1])
    assert both.verdict == SLOWER
    assert both.difference_s == pytest.approx(0.5)
    assert 0 < (both.reach_s or 0) < 2 * (steady.reach_s or 0)


@pytest.mark.parametrize(("first", "is_slower"), [(6, True), (12, True), (20, False)])
def test_a_run_that_turns_slow_on_its_way_is_slower(first: int, *, is_slower: bool) -> None:
    """A run that becomes slow after 6 or 12 of 20 steps counts as slower than a run that stays fast."""
    turned = [time + 3.0 * (step >= first) for step, time in enumerate(wobbling(10, 0.1))]
    answer = found(wobbling(10, 0.1), turned)
    assert answer.verdict == (SLOWER if is_slower else SAME)
    assert answer.exceeds(0.03) is is_slower


def test_what_comes_and_goes_is_chance() -> None:
    flapping = [10.0 + 3.0 * (step // 4 % 2) for step in range(20)]
    assert found(wobbling(11, 0.1), flapping).verdict == CHANCE


def test_steps_that_follow_each_other_count_together() -> None:
    """Twenty pairs of equal consecutive steps give a wider interval than forty independent steps."""
    alone = found(wobbling(10, 1.0, 40), wobbling(11, 1.0, 40))
    in_a_row = [[time for time in wobbling(each, 1.0, 20) for _ in range(2)] for each in (10, 11)]
    assert (found(in_a_row[0], in_a_row[1]).reach_s or 0) > 1.3 * (alone.reach_s or 0)


def test_a_small_difference_is_none_however_sure() -> None:
    answer = found([10.0] * 20, [10.09] * 20)
    assert (answer.verdict, answer.reach_s) == (SAME, 0.0)
    assert {part.share for part in answer.parts} == {None}
    assert answer.exceeds(0.005)


def test_too_few_steps_are_judged_by_their_means() -> None:
    answer = found([10.0, 10.1, 10.0], [11.0, 11.1, 11.0])
    assert (answer.verdict, answer.reach_s) == (TOO_FEW, None)
    assert {part.low_s for part in answer.parts} == {None}
    assert answer.exceeds(0.03)


def test_too_few_steps_of_one_length_have_no_shares_of_a_difference() -> None:
    answer = found([10.0, 10.5], [10.0, 10.5])
    assert (answer.verdict, answer.difference_s) == (TOO_FEW, 0.0)
    assert {part.share for part in answer.parts} == {None}


def test_days_count_by_their_steps_and_many_of_them_one_by_one() -> None:
    uneven = side(day([10.0] * 30), day([14.0] * 10, number=6))
    assert uneven.step_s == 11.0
    noise = uneven.noise()
    assert noise is not None
    assert noise.freedom == 8, "ten blocks of steps, less two fitted levels"
    many = side(*(day(wobbling(10, 1.0, 7 + number), number=number) for number in range(1, 7))).noise()
    assert many is not None
    assert many.freedom == 5, "six days, less one for their mean"


def test_a_log_of_step_times_alone_has_no_parts() -> None:
    times = Day(Unit(date(2026, 1, 5), "llm", "r"), NO_JOB, np.array(wobbling(11, 0.1)))
    answer = find(side(day(wobbling(10, 0.1))), side(times), 0.99, None)
    assert [part.of for part in answer.parts] == ["step time"]
    assert answer.verdict == SLOWER
