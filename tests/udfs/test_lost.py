"""The loss of a unit is divided among its causes without a remainder, and no part is negative."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.vocabulary import CAUSES
from udfs.lost import lost_columns, lost_fractions

FRACTION = st.floats(-0.5, 0.9)
FIXABLE = len(CAUSES) - 1
"""Number of causes with a fix, which are all except "unexplained"."""


def rows(
    *attributed: float, are_causes: tuple[bool, ...] = (True,) * FIXABLE, beyond: float = 0.0
) -> list[dict[str, object]]:
    """Return rows of job_causes in the order of CAUSES; `attributed` has each cause's part of the loss.

    beyond : time saved of the row "unexplained", which no fix saves.
    """
    whole = [*attributed, *[0.0] * (len(CAUSES) - len(attributed))]
    holding = [*are_causes, *[False] * (len(CAUSES) - len(are_causes))]
    return [
        {
            "cause": cause,
            "is_cause": holds,
            "attributed_fraction": each,
            "time_saved_fraction": beyond if cause == "unexplained" else each,
        }
        for cause, holds, each in zip(CAUSES, holding, whole, strict=True)
    ]


def test_flagged_causes_lose_what_is_attributed_to_them_and_the_rest_is_unexplained() -> None:
    found = lost_fractions(rows(0.25, 0.125, 0.0625, are_causes=(True, True)))
    assert found == [0.25, 0.125, *[0.0] * (FIXABLE - 2), 0.0625]


def test_what_holds_is_scaled_down_together_where_other_causes_save_less_than_nothing() -> None:
    found = lost_fractions(rows(0.3, 0.1, -0.2))
    assert found == pytest.approx([0.15, 0.05, *[0.0] * (FIXABLE - 1)], abs=1e-15)


def test_a_unit_that_all_fixes_together_make_no_faster_loses_nothing() -> None:
    assert lost_fractions(rows(0.1, -0.3)) == [0.0] * len(CAUSES)


def test_what_no_cause_has_is_lost_beside_what_fixes_save_and_only_there() -> None:
    """Loss that no fix saves counts as "unexplained", in addition to the loss that fixes save."""
    found = lost_fractions(rows(0.3, 0.1, -0.2, beyond=0.0625))
    assert found == pytest.approx([0.15, 0.05, *[0.0] * (FIXABLE - 2), 0.0625], abs=1e-15)
    assert lost_fractions(rows(0.1, -0.3, beyond=0.25)) == [*[0.0] * FIXABLE, 0.25]
    found = lost_fractions(rows(0.25, 0.125, are_causes=(True,), beyond=0.5))
    assert found == [0.25, *[0.0] * (FIXABLE - 1), 0.625]


@given(
    st.lists(FRACTION, min_size=FIXABLE, max_size=FIXABLE),
    st.lists(st.booleans(), min_size=FIXABLE, max_size=FIXABLE),
    FRACTION,
)
def test_rows_sum_to_what_is_lost_and_are_never_negative(
    attributed: list[float], are_causes: list[bool], beyond: float
) -> None:
    given_rows = rows(*attributed, are_causes=tuple(are_causes), beyond=beyond)
    found = lost_fractions(given_rows)
    assert min(found) >= 0.0
    assert lost_fractions(given_rows[::-1]) == found[::-1], "to the last bit"
    assert sum(found) == pytest.approx(max(0.0, sum(attributed)) + max(0.0, beyond), abs=1e-12)
    assert all(each == 0.0 for each, holds in zip(found[:-1], are_causes, strict=True) if not holds)


def test_gpu_hours_follow_and_a_unit_that_is_not_analysed_has_neither() -> None:
    causes = rows(0.25, are_causes=(True,))
    hours = [each["lost_gpu_hours"] for each in lost_columns(causes, 64.0, is_analysed=True)]
    assert hours == [16.0, *[0.0] * FIXABLE]
    without = lost_columns(causes, None, is_analysed=True)
    assert [each["lost_gpu_hours"] for each in without] == [None] * len(CAUSES)
    assert sum(each["lost_fraction"] or 0.0 for each in without) == 0.25
    refused = lost_columns(causes, 64.0, is_analysed=False)
    assert [each["lost_fraction"] for each in refused] == [None] * len(CAUSES)


def test_what_does_not_hold_leaves_its_error_to_what_is_unexplained() -> None:
    causes = rows(0.25, 0.0625, are_causes=(True, False), beyond=0.03125)
    halves, attributed = [0.125, 0.0625, *[0.0] * (FIXABLE - 1)], [0.25, 0.0625, *[0.0] * (FIXABLE - 1)]
    for row, half, each in zip(causes, halves, attributed, strict=True):
        row |= {"attributed_fraction_low": each - half, "attributed_fraction_high": each + half}
    causes[-1] |= {"time_saved_fraction_low": 0.0, "time_saved_fraction_high": 0.0625}
    first, second, *_, last = lost_columns(causes, 64.0, is_analysed=True)
    assert (first["lost_fraction_low"], first["lost_fraction_high"]) == (0.125, 0.375)
    assert (first["lost_gpu_hours_low"], first["lost_gpu_hours_high"]) == (8.0, 24.0)
    assert (second["lost_fraction"], second["lost_fraction_low"], second["lost_fraction_high"]) == (0, 0, 0)
    assert last["lost_fraction"] == 0.0625 + 0.03125
    assert (last["lost_fraction_low"], last["lost_fraction_high"]) == (0.0, 2 * 0.09375), "no loss below 0"
    without = lost_columns(rows(0.25), 64.0, is_analysed=True)
    assert {each["lost_gpu_hours_low"] for each in without} == {None}, (
        "rows of earlier versions have no intervals"
    )
