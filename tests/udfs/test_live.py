"""Causes in a run in progress begin, continue and end according to the run's windows of steps."""

from datetime import UTC, datetime

import pytest

from jobs.synthetic.shape import JobIdentity, JobShape
from schemas.vocabulary import CAUSE_UNEXPLAINED, NEWS_FRACTION, Status
from tests.support.examples import ROWS, culprit
from tests.support.random_jobs import generate_job
from udfs.live import Row, causes_after, window_row
from udfs.what_if import simulate_job


def window(first: int = 1200, status: str = Status.ANALYSED) -> Row:
    """Return a window of ten steps of one second each."""
    at = {
        f"{name}_time": datetime.fromtimestamp(first + later, UTC)
        for name, later in (("first", 0), ("last", 9))
    }
    return {"status": status, "first_step": first, "last_step": first + 9, **at}


def cause(
    lost: float = 0.125, *, is_cause: bool = True, name: str = "slow_worker", **steps: int | None
) -> Row:
    where = culprit(0.5) | {"first_step": None, "last_step": None, **steps}
    return {
        **ROWS["job_causes"], "cause": name, "is_cause": is_cause, "lost_fraction": lost if is_cause else 0.0,
        "culprits": [where],
    }  # fmt: skip


def warned(rows: list[Row]) -> list[Row]:
    return [row | {"is_warned": True} for row in rows]


def test_a_cause_begins_at_its_culprit_s_first_step_and_is_to_be_warned_of() -> None:
    (row,) = causes_after(window(), [cause(first_step=1204, last_step=1209)], [])
    assert (row["first_step"], row["last_step"]) == (1204, 1209)
    assert (row["is_now"], row["is_warned"]) == (True, False)
    (unknown,) = causes_after(window(), [cause()], [])
    assert (unknown["first_step"], unknown["last_step"]) == (1200, 1209)
    assert unknown["first_time"] == window()["first_time"]


def test_a_cause_that_goes_on_is_warned_of_once() -> None:
    before = warned(causes_after(window(), [cause(0.1, first_step=1204)], []))
    (row,) = causes_after(window(1205), [cause(0.2, first_step=1205, last_step=1213)], before)
    assert (row["first_step"], row["last_step"], row["lost_fraction"]) == (1204, 1213, 0.2)
    assert row["is_warned"]


def test_an_end_is_to_be_warned_of_once_and_a_second_begin_is_another_row() -> None:
    before = warned(causes_after(window(), [cause(first_step=1204, last_step=1209)], []))
    ended = causes_after(window(1220), [cause(is_cause=False)], before)
    assert [(row["is_now"], row["is_warned"], row["last_step"]) for row in ended] == [(False, False, 1209)]
    later = causes_after(window(1230), [], warned(ended))
    assert later == warned(ended)
    again = causes_after(window(1240), [cause(first_step=1243)], later)
    assert [(row["first_step"], row["is_now"], row["is_warned"]) for row in again] == [
        (1204, False, True),
        (1243, True, False),
    ]


def test_what_loses_little_does_not_begin_but_goes_on() -> None:
    little = cause(NEWS_FRACTION / 2)
    assert causes_after(window(), [little], []) == []
    before = warned(causes_after(window(), [cause()], []))
    assert causes_after(window(1210), [little], before)[0]["is_now"]


def test_what_no_cause_explains_is_none() -> None:
    assert causes_after(window(), [cause(name=CAUSE_UNEXPLAINED)], []) == []


@pytest.mark.parametrize("status", [Status.TOO_FEW_STEPS, Status.UNKNOWN_CLOCKS, Status.FAILED])
def test_a_window_that_cannot_be_analysed_changes_nothing(status: str) -> None:
    before = causes_after(window(), [cause()], [])
    assert causes_after(window(1210, status), [], before) == before
    assert causes_after(window(1210, status), [cause(name="pause")], before) == before


def test_a_window_says_which_steps_it_replayed_and_when_they_began() -> None:
    shape = JobShape(dp_size=2, steps=12)
    job = generate_job(shape, [], 7, JobIdentity(first_step=100, first_t0_us=1_767_600_000_000_000))
    row = window_row(simulate_job(job.rank_steps, job.manifest), job.rank_steps)
    assert (row["status"], row["steps"], row["first_step"]) == (Status.ANALYSED, 12, 100)
    assert row["last_step"] == max(job.rank_steps["step"].to_pylist())
    assert row["first_time"].timestamp() == pytest.approx(1_767_600_000, abs=1)
    assert row["lost_fraction"] == pytest.approx(0.0, abs=0.01)


def test_a_window_without_lines_has_no_steps() -> None:
    job = generate_job(JobShape(dp_size=2, steps=12), [], 7)
    rows = job.rank_steps.slice(0, 0)
    row = window_row(simulate_job(rows, job.manifest), rows)
    assert row["status"] == Status.NO_OPS
    assert [row[name] for name in ("steps", "first_step", "last_time", "lost_fraction")] == [
        0,
        None,
        None,
        None,
    ]
