"""Test which jobs are compared before and after a change, and confidence intervals against known values."""

from datetime import date, timedelta

import numpy as np
import pytest

from jobs.reading.before_after import BETTER, WORSE, Comparison, compare, comparisons

FIXED = date(2026, 3, 2)
Day = tuple[str, date, float, float, bool, bool | None]


def day(job_id: str, since: int, value: float, *, chosen: bool = True, label: bool | None = None) -> Day:
    return job_id, FIXED + timedelta(days=since), value, 10.0, chosen, label


def by_name(days: list[Day]) -> dict[str, Comparison]:
    columns = ["job_id", "log_date", "value", "gpu_hours", "is_chosen", "has_label"]
    rows = [dict(zip(columns, each, strict=True)) for each in days]
    return {each.compared: each for each in comparisons(rows, FIXED, 0.95)}


def test_a_single_job_is_judged_by_its_units() -> None:
    days = [day("a", since, 0.3 + 0.01 * (since % 3)) for since in range(-6, 0)]
    days += [day("a", since, 0.1 + 0.01 * (since % 3)) for since in range(6)]
    found = by_name(days)["chosen"]
    assert (found.trials, found.difference.count_before, found.difference.count_after) == ("units", 6, 6)
    assert found.difference.effect == pytest.approx(-0.2)
    assert (found.verdict, found.gpu_hours_after) == (BETTER, 60.0)


def test_several_jobs_are_judged_by_job_however_many_days_they_have() -> None:
    days = [day(job, since, 0.2 + 0.05 * place) for place, job in enumerate("abc") for since in range(-9, 0)]
    days += [day(job, since, 0.1 + 0.05 * place) for place, job in enumerate("abd") for since in range(9)]
    found = by_name(days)
    assert (found["chosen"].trials, found["chosen"].difference.count_before) == ("jobs", 3)
    assert found["chosen"].difference.effect == pytest.approx(-0.1)
    assert found["chosen"].verdict == "not enough evidence: the interval holds 0"
    same = found["chosen, same jobs"]
    assert (same.difference.count_before, same.difference.count_after) == (2, 2)
    assert same.verdict == "not enough evidence: 2 jobs before and 2 jobs after, wanted 3"


def test_pairs_of_the_same_jobs_show_what_their_differences_hide() -> None:
    values = {"a": (0.1, 0.05), "b": (0.4, 0.34), "c": (0.7, 0.66), "d": (0.2, 0.14)}
    days = [day(job, since, value[since >= 0]) for job, value in values.items() for since in (-2, -1, 0, 1)]
    found = by_name(days)
    assert found["chosen"].verdict.startswith("not enough evidence")
    assert found["chosen, same jobs"].verdict == BETTER


def test_with_a_label_days_after_need_it_and_days_before_must_not_have_it() -> None:
    days = [day(job, -1, 0.3 + n / 100, label=False) for n, job in enumerate("abc")]
    days += [day(job, 1, 0.5 + n / 100, label=True) for n, job in enumerate("def")]
    days += [day("late", 1, 99.0, label=False), day("early", -1, 99.0, label=True)]
    found = by_name(days)
    assert found["chosen"].difference.effect == pytest.approx(0.2)
    assert found["chosen"].verdict == WORSE
    others = found["all others"].difference  # units without the label, before and after
    assert (others.count_before, others.count_after) == (3, 1)


def test_jobs_without_the_fix_show_what_else_changed() -> None:
    days = [day(job, since, 0.1, chosen=False) for job in "xyz" for since in (-1, 0)]
    days += [day(job, since, 0.1 + n / 10) for n, job in enumerate("abc") for since in (-1, 0)]
    found = by_name(days)["all others"]
    assert (found.difference.effect, found.difference.count_before) == (0.0, 3)
    assert found.verdict == "not enough evidence: nothing varies"
    single = by_name([day("a", -1, 0.1), day("a", 1, 0.1)])["chosen"]
    assert single.verdict.startswith("not enough evidence: 1 unit before and 1 unit after")


def test_nothing_at_all_is_not_enough() -> None:
    assert by_name([])["chosen"].verdict == "not enough evidence: 0 jobs before and 0 jobs after, wanted 3"


def test_an_interval_worked_by_hand() -> None:
    """Welch's 95 % interval of mean(4, 5, 6) - mean(1, 2, 3) is 3 +- 2.776445 * sqrt(2 / 3)."""
    found = compare([1.0, 2.0, 3.0], [4.0, 5.0, 6.0], 0.95)
    assert (found.before, found.after, found.effect) == (2.0, 5.0, 3.0)
    assert found.low == pytest.approx(3 - 2.776445 * (2 / 3) ** 0.5, rel=1e-6)
    assert found.high == pytest.approx(3 + 2.776445 * (2 / 3) ** 0.5, rel=1e-6)
    assert found.is_clear


def test_pairs_leave_out_what_differs_between_them() -> None:
    """The 90 % interval of the paired differences 1, 2, 3 excludes 0; without pairs it contains 0."""
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
