"""Before and after: which jobs are compared, and when the evidence is not enough."""

from datetime import date, timedelta

import pytest

from jobs.reading.before_after import BETTER, WORSE, Comparison, comparisons

FIXED = date(2026, 3, 2)
Day = tuple[str, date, float, float, bool, bool | None]


def day(job_id: str, since: int, value: float, *, chosen: bool = True, label: bool | None = None) -> Day:
    return job_id, FIXED + timedelta(days=since), value, 10.0, chosen, label


def by_name(days: list[Day]) -> dict[str, Comparison]:
    columns = ["job_id", "log_date", "value", "gpu_hours", "is_chosen", "has_label"]
    rows = [dict(zip(columns, each, strict=True)) for each in days]
    return {each.compared: each for each in comparisons(rows, FIXED, 0.95)}


def test_a_single_job_is_judged_by_its_days() -> None:
    days = [day("a", since, 0.3 + 0.01 * (since % 3)) for since in range(-6, 0)]
    days += [day("a", since, 0.1 + 0.01 * (since % 3)) for since in range(6)]
    found = by_name(days)["chosen"]
    assert (found.trials, found.difference.count_before, found.difference.count_after) == ("days", 6, 6)
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
    others = found["all others"].difference  # days without the label, on both sides
    assert (others.count_before, others.count_after) == (3, 1)


def test_jobs_without_the_fix_show_what_else_changed() -> None:
    days = [day(job, since, 0.1, chosen=False) for job in "xyz" for since in (-1, 0)]
    days += [day(job, since, 0.1 + n / 10) for n, job in enumerate("abc") for since in (-1, 0)]
    found = by_name(days)["all others"]
    assert (found.difference.effect, found.difference.count_before) == (0.0, 3)
    assert found.verdict == "not enough evidence: nothing varies"


def test_nothing_at_all_is_not_enough() -> None:
    assert by_name([])["chosen"].verdict == "not enough evidence: 0 jobs before and 0 jobs after, wanted 3"
