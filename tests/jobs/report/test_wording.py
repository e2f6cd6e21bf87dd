"""Test how pages word numbers and values: units, digits, and words for each value of the vocabulary."""

import math
from collections.abc import Callable
from decimal import Decimal

import pytest

from jobs.report import wording
from schemas.causes import OF_CAUSE
from schemas.vocabulary import Status


@pytest.mark.parametrize(
    ("as_text", "shown"),
    [
        (
            wording.hours,
            {None: "\N{EN DASH}", 0.0: "0", 2109.4: "2,109", 99.96: "100", 86.64: "86.6", 0.01234: "0.0123"},
        ),
        (wording.hours, {-0.0: "0", -5.5: "-5.5", 1_407_769.0: "1.41 million"}),
        (
            wording.percent,
            {None: "\N{EN DASH}", 0.174: "17.4 %", 0.0: "0 %", 0.0004: "< 0.1 %", -0.0004: "> -0.1 %"},
        ),
        (wording.percent, {1.22: "122 %"}),
        (
            wording.seconds,
            {None: "\N{EN DASH}", 9.11: "9.11 s", 0.0123: "12.3 ms", 4.2e-5: "42 µs", 0.0: "0 s"},
        ),
        (wording.seconds, {-0.5: "-500 ms"}),
    ],
)
def test_numbers_have_the_digits_and_units_that_fit(
    as_text: Callable[[float | None], str], shown: dict[float | None, str]
) -> None:
    assert {value: as_text(value) for value in shown} == shown


@pytest.mark.parametrize(
    ("parts", "decimals", "shown"),
    [
        ([1 / 3, 1 / 3, 1 / 3], 1, ["0.4", "0.3", "0.3", "1.0"]),
        ([28.04, 5.93, 0.45], 1, ["28.0", "5.9", "0.5", "34.4"]),
        ([1499.5, 1499.5, 0.4], None, ["1,500", "1,499", "0", "2,999"]),
        ([0.0123, 0.0], None, ["0.0123", "0.0000", "0.0123"]),
        ([0.0, 0.0], None, ["0", "0", "0"]),
        ([], 1, ["0.0"]),
    ],
)
def test_parts_add_up_as_they_are_printed(parts: list[float], decimals: int | None, shown: list[str]) -> None:
    assert wording.adding_up(parts, math.fsum(parts), decimals) == shown
    numbers = [Decimal(each.replace(",", "")) for each in shown]
    assert sum(numbers[:-1]) == numbers[-1]


def test_a_small_part_is_not_doubled_by_what_rounding_must_add() -> None:
    """A decimal is added if, without it, 0.445 hours would be printed as 1 to make the printed sum right."""
    parts = [300.4, 20.4, 0.445]
    assert wording.adding_up(parts, math.fsum(parts)) == ["300.4", "20.4", "0.4", "321.2"]


def test_every_status_has_words_and_all_but_one_something_to_do() -> None:
    assert {each for each in Status if not each.words} == set()
    assert {each for each in Status if not each.advice} == {Status.ANALYSED}


def test_a_title_in_other_words_than_the_columns_has_those_in_brackets() -> None:
    assert OF_CAUSE["slow_worker"].title == "slow worker"
    assert OF_CAUSE["pause"].title == "pauses (pause)"


@pytest.mark.parametrize(
    ("verdict", "jobs_slow", "p_value", "said"),
    [
        ("measured", 1, 0.5, "slow: measured in 2 jobs"),
        ("measured", 3, 0.001, "slow: measured in 2 jobs; their number alone could be chance (14.5 %)"),
        (
            "measured_and_recurs",
            3,
            1e-4,
            "slow: measured in 2 jobs, and slow in more jobs than chance explains (1.5 %)",
        ),
        (
            "recurs",
            9,
            1e-9,
            "slow in more jobs than chance explains (less than 0.1 %), though no job's cause names it",
        ),
        ("not_proven", 1, 0.5, "not proven: no job's cause names it"),
        (
            "not_proven",
            3,
            0.001,
            "not proven: no job's cause names it, and the number of jobs alone could be chance (14.5 %)",
        ),
        (
            "not_proven",
            3,
            0.9,
            "not proven: no job's cause names it, and the number of jobs alone is no evidence",
        ),
        ("measured", 2, 0.037, "slow: measured in 2 jobs; their number alone is no evidence"),
    ],
)
def test_one_verdict_has_what_was_measured_and_what_recurs(
    verdict: str, jobs_slow: int, p_value: float, said: str
) -> None:
    row = {"jobs_slow": jobs_slow, "p_value": p_value, "hosts_asked_about": 145}
    assert wording.recurrence({**row, "jobs_measured": 2, "verdict": verdict}) == said
