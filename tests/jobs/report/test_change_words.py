"""Test the words for a job's latest change, and for an interval in GPU-hours or per cent."""

from collections.abc import Mapping

from jobs.report.cause_words import latest_change
from jobs.report.loss import interval
from schemas.vocabulary import JOB_CHANGES
from tests.support.examples import DAY, NEXT_DAY, table_rows


def said(*changes: Mapping[str, object]) -> str:
    return latest_change(table_rows(JOB_CHANGES, list(changes)).to_pylist())


def test_the_latest_change_of_the_step_is_said() -> None:
    assert said({}, {"since": NEXT_DAY, "change": -0.1, "after": 4.59, "cause": "no cause recorded"}) == (
        "Since 2026-01-06 a step takes 10.0 % less (5.1 s before, 4.59 s since): no cause recorded; "
        "what else changed then: run r2 -> r3"
    )
    assert said({"also": []}) == (
        "Since 2026-01-05 a step takes 20.0 % longer (5.1 s before, 6.12 s since): slow worker"
    )


def test_else_what_is_lost() -> None:
    lost: dict[str, object] = {
        "of": "lost",
        "cause": None,
        "before": 0.05,
        "after": 0.2,
        "change": 0.15,
        "also": [],
    }
    cause: dict[str, object] = lost | {"of": "pause", "since": DAY}
    assert said(cause, lost) == "Since 2026-01-05 more of the step is lost (5.0 % before, 20.0 % since)"
    assert said(cause) == said() == ""


def test_an_interval_is_in_gpu_hours_where_they_are_known() -> None:
    shares = {"lost_fraction_low": 0.195, "lost_fraction_high": 0.226}
    hours = {"lost_gpu_hours_low": 1950.4, "lost_gpu_hours_high": 2260.0}
    assert interval(shares | hours, "lost_fraction") == "1,950 to 2,260"
    assert interval(shares | dict.fromkeys(hours), "lost_fraction") == "19.5 % to 22.6 %"
    assert interval(dict.fromkeys(shares), "lost_fraction") == interval({}, "lost_fraction") == ""
