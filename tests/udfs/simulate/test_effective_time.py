"""Parts of GPU-hours by use are right on days made by hand, and equal the reference's on random days."""

import math
import random
from datetime import UTC, date, datetime
from typing import Any

import pytest

from schemas.effective_time import KNOWN_PARTS
from schemas.vocabulary import EVENTS, JOB_TIME
from tests.oracle import effective_time as reference
from tests.support.diagnoses import unit_rows
from tests.udfs.lines import manifest, rank_steps
from udfs.simulate.effective_time import StepTimes, time_rows
from udfs.simulate.run_course import course_of
from udfs.what_if import simulate_job

DAY = date(2026, 1, 5)
MIDNIGHT_S = datetime(2026, 1, 5, tzinfo=UTC).timestamp()
TIMES = StepTimes(actual_s=1.0, simulated_s=0.875, ideal_s=0.75)
HOUR_S = 3600.0
ROUNDED = 1e-8
"""Largest error in GPU-hours; a Unix time in seconds is only exact to 2e-7 s."""

Event = dict[str, Any]


def event(kind: str, at_s: float, step: int | None = None, lasts_s: float | None = None) -> Event:
    """Return an event; `at_s` counts from midnight. [s]"""
    lasts_us = None if lasts_s is None else lasts_s * 1e6
    return {"event": kind, "at_us": round((MIDNIGHT_S + at_s) * 1e6), "step": step, "duration_us": lasts_us}


def rows(
    events: list[Event],
    hours: float,
    status: str = "analysed",
    times: StepTimes = TIMES,
    **facts: object,
) -> list[dict[str, Any]]:
    """Return the rows of job_time for a run on one GPU."""
    job = {"status": status, "gpu_hours": hours, "world_size": 1}
    return time_rows({"events": events, "log_date": DAY} | facts, job, times, 0.25)


def seconds(
    events: list[Event], hours: float, *, step_s: float | None = None, **facts: date | str
) -> dict[str, float]:
    """Return the seconds of each part, and the number of contradictions; zeros are left out.

    step_s : time of a step, as recorded, replayed and ideal; None: TIMES [s]
    """
    times = TIMES if step_s is None else StepTimes(step_s, step_s, step_s)
    (row,) = rows(events, hours, "analysed", times, **facts)
    found = {name: round(row[f"{name}_gpu_hours"] * HOUR_S, 6) for name in (*KNOWN_PARTS, "unknown")}
    assert sum(found.values()) == pytest.approx(hours * HOUR_S)
    found |= {"contradictions": row["contradictions"]}
    return {name: value for name, value in found.items() if value}


RUN = [
    event("start", 100, 0),
    event("first_step", 200, 0),
    event("checkpoint", 1200, 1000, 50),
    event("failure", 1650, 1400),
    event("restart", 1950, 1000),
    event("first_step", 2050, 1000),
    event("stop", 3050, 2000),
]
"""A run of 2,000 steps of 1 s: 1,000 steps and a checkpoint, 400 steps that are lost, the other 1,000
steps."""


def test_the_last_day_of_the_calendar_has_an_end() -> None:
    (row,) = rows(RUN, 1.0, log_date=date(9999, 12, 31))
    assert row["unknown_gpu_hours"] == 1.0


def test_a_day_drawn_by_hand() -> None:
    assert seconds(RUN, 1.0) == {
        "productive": 1500,
        "straggling": 250,
        "late_start": 250,
        "lost_work": 400,
        "outage": 300,
        "startup": 200,
        "checkpoint": 50,
        "unknown": 3600 - 2950,
    }
    (row,) = rows(RUN, 1.0)
    assert (row["ettr"], row["productive_fraction"]) == pytest.approx((2000 / 3600, 1500 / 3600))
    assert (row["steps_kept"], row["steps_lost"], row["outage_s"]) == pytest.approx((2000, 400, 300))
    assert (row["starts"], row["failures"], row["checkpoints"]) == (2, 1, 1)
    assert row["lost_to_causes_gpu_hours"] == pytest.approx(0.25 * 2000 / HOUR_S)


def test_only_the_day_and_the_scheduled_time_count() -> None:
    day_before = rows(RUN, 1.0, log_date=date(2026, 1, 4))[0]
    assert day_before["unknown_gpu_hours"] == 1.0
    ended = datetime.fromtimestamp(MIDNIGHT_S + 700, UTC)
    assert seconds(RUN, 0.25, ended_at=ended) == {
        "productive": 375, "straggling": 62.5, "late_start": 62.5, "startup": 100, "unknown": 300,
    }  # fmt: skip
    assert seconds(RUN, 0.25, ended_at=ended.isoformat()) == seconds(RUN, 0.25, ended_at=ended)
    started = datetime.fromtimestamp(MIDNIGHT_S + 2550, UTC)
    assert seconds(RUN, 1.0, started_at=started)["productive"] == 375
    split = [seconds(RUN, 1.0, ended_at=ended), seconds(RUN, 1.0, started_at=ended)]
    for name in ("productive", "lost_work", "startup", "checkpoint", "outage"):
        assert sum(each.get(name, 0) for each in split) == pytest.approx(seconds(RUN, 1.0)[name])


def test_a_day_that_events_show_whole_leaves_nothing_unknown() -> None:
    """If events cover the whole run, unknown_gpu_hours is the stated GPU-hours minus those of the events."""
    of_thirds = StepTimes(actual_s=0.7, simulated_s=0.61, ideal_s=0.53)
    job = {"status": "analysed", "world_size": 24}
    for ends_s in range(700, 7000, 70):
        events = [
            event("start", 0, 0),
            event("first_step", 70, 0),
            event("stop", ends_s, (ends_s - 70) // 7 * 10),
        ]
        facts = {"events": events, "log_date": DAY}
        for part, unknown in ((1.0, 0.0), (0.995, -0.005)):
            hours = 24 * ends_s / HOUR_S * part
            (row,) = time_rows(facts, job | {"gpu_hours": hours}, of_thirds, None)
            assert row["unknown_gpu_hours"] == pytest.approx(
                unknown * 24 * ends_s / HOUR_S, abs=0.0, rel=1e-9
            )


def test_what_follows_the_last_mark_and_slow_steps_are_unknown() -> None:
    assert seconds([event("step", 0, 0), event("step", 1500, 1000)], 0.5)["unknown"] == 800
    fast = [event("step", 0, 0), event("step", 500, 1000)]
    assert seconds(fast, 500 / HOUR_S) == {"productive": 375, "straggling": 62.5, "late_start": 62.5}
    assert seconds([event("start", 0), event("first_step", 60)], 0.5) == {"startup": 60, "unknown": 1740}


def test_work_is_lost_from_where_a_later_attempt_begins() -> None:
    thrice = [
        event("step", 0, 0), event("step", 100, 100),
        event("start", 150, 90), event("first_step", 160, 90), event("failure", 165, 95),
        event("start", 200), event("first_step", 210, 20), event("stop", 290, 100),
    ]  # fmt: skip
    assert seconds(thrice, 290 / HOUR_S)["lost_work"] == 80 + 5
    failed = [event("step", 0, 0), event("checkpoint", 60, 60, 0), event("failure", 100, 100)]
    assert seconds(failed, 100 / HOUR_S)["lost_work"] == 40
    assert seconds([failed[0], failed[2]], 100 / HOUR_S)["lost_work"] == 100
    died = [event("step", 0, 0), event("checkpoint", 60, 60, 0), event("step", 80, 80), event("restart", 99)]
    assert seconds(died, 100 / HOUR_S)["lost_work"] == 20
    assert "lost_work" not in seconds([event("step", 0, 0), event("stop", 80, 80)], 100 / HOUR_S)


@pytest.mark.parametrize(
    ("events", "known"),
    [
        ([event("step", 0, 0), event("step", 50, 50), event("step", 100, 100), event("step", 20, 120)], 50),
        ([event("step", 0, 0), event("step", 50, 50), event("step", 100, 100), event("step", 200, 99)], 50),
        ([event("step", 0, 0), event("step", 50, 50), event("failure", 90, 90), event("step", 95, 95)], 50),
        ([event("start", 0), event("step", 50, 0), event("step", 60, 0), event("step", 90, 30)], 30),
        ([event("step", 0, 0), event("stop", 50, 50), event("stop", 60, 50)], 0),
        ([event("step", 0, 0), event("first_step", 50, 5), event("step", 60, 50), event("stop", 70, 60)], 10),
        ([event("checkpoint", 0, 0, 50), event("step", 40, 50), event("step", 60, 60)], 0),
    ],
    ids=["time", "step", "no restart", "no first step", "two stops", "two first steps", "while saving"],
)  # fmt: skip
def test_of_two_events_that_contradict_each_other_neither_is_believed(
    events: list[Event], known: float
) -> None:
    found = seconds(events, 1.0)
    assert found["contradictions"] == 1
    worked = sum(found.get(name, 0) for name in ("productive", "straggling", "late_start", "lost_work"))
    assert worked == known


def test_a_failure_that_a_step_contradicts_loses_no_work_and_is_not_counted() -> None:
    events = [event("step", 0, 0), event("step", 50, 50), event("failure", 90, 90), event("step", 95, 95)]
    (row,) = rows(events, 1.0)
    assert (row["steps_kept"], row["steps_lost"], row["failures"]) == (50, 0, 0)


def test_events_that_a_log_repeats_are_counted_and_change_nothing() -> None:
    once, twice = seconds(RUN, 1.0), seconds([each for each in RUN for _ in range(2)], 1.0)
    assert twice == once | {"contradictions": len(RUN)}


def test_a_little_back_in_time_is_a_clock_that_was_set() -> None:
    events = [event("step", 0, 0), event("step", 50, 50), event("step", 49.5, 50), event("step", 100, 100)]
    assert "contradictions" not in seconds(events, 1.0)


def test_a_start_by_a_clock_that_is_behind_that_of_its_submission_has_not_waited() -> None:
    """If the start's clock is behind the submission's, the wait for GPUs is 0, not negative."""
    near = [event("submitted", 10.0), event("start", 9.5), event("first_step", 9.0, 0), event("step", 20, 11)]
    (row,) = rows(near, 1.0)
    assert (row["queued_gpu_hours"], row["startup_gpu_hours"], row["contradictions"]) == (0.0, 0.0, 0)
    spans = course_of(near)
    assert [span.length_s for span in (*spans.queues, *spans.startups)] == [0.0, 0.0]


def test_a_run_waits_from_its_submission_to_its_start_and_holds_no_gpus_then() -> None:
    again = [*RUN[:4], event("submitted", 1700), *RUN[4:]]
    queued = [event("submitted", -500), *again]
    (row,) = rows(queued, 1.0)
    assert row["queued_gpu_hours"] * HOUR_S == pytest.approx(600 + 250), (
        "a wait that began on the day before counts in full"
    )
    assert (row["outage_s"], row["contradictions"]) == (300, 0)
    assert seconds(queued, 1.0)["outage"] == 50, "a run that waits in the queue holds no GPUs"
    assert rows(again, 1.0)[0]["queued_gpu_hours"] is None, "the first start has no submission"
    assert rows(RUN[4:], 1.0)[0]["queued_gpu_hours"] == 0, "a restart needs no submission"
    started = datetime.fromtimestamp(MIDNIGHT_S + 2000, UTC)
    assert rows(again, 1.0, started_at=started)[0]["queued_gpu_hours"] == 0


def test_a_run_that_is_submitted_while_it_works_has_died() -> None:
    events = [
        event("first_step", 0, 0),
        event("step", 50, 50),
        event("submitted", 80),
        event("start", 100, 20),
    ]
    assert seconds(events, 0.1) == {"productive": 15, "straggling": 2.5, "late_start": 2.5, "lost_work": 30,
                                    "unknown": 310}  # fmt: skip
    withdrawn = [event("submitted", 0), event("stop", 50), event("start", 90)]
    assert (rows(withdrawn, 1.0)[0]["queued_gpu_hours"], seconds(withdrawn, 1.0)) == (None, {"unknown": 3600})
    assert seconds([event("submitted", 0), event("failure", 50)], 1.0)["contradictions"] == 1


def test_a_run_submitted_in_advance_waits_from_the_end_of_what_went_before() -> None:
    chained = [event("first_step", 0, 0), event("step", 50, 50), event("failure", 60)]
    (row,) = rows([*chained, event("submitted", 20), event("start", 100, 20)], 1.0)
    assert (row["contradictions"], row["failures"], row["outage_s"]) == (0, 1, 40)


def test_a_start_up_that_loads_all_the_time_is_not_less_than_none() -> None:
    loads = [event("data_loading", 0, None, 30.9), event("evaluation", 30, None, 30)]
    (row,) = rows([event("start", 0), *loads, event("first_step", 60, 0), event("step", 90, 10)], 1.0)
    assert row["startup_gpu_hours"] == 0.0


def test_evaluations_and_loads_of_data_are_parts_of_their_own() -> None:
    events = [
        event("start", 0), event("data_loading", 20, None, 5), event("first_step", 60, 0),
        event("evaluation", 160, 100, 30), event("data_loading", 290, 200, 10), event("stop", 400, 300),
    ]  # fmt: skip
    found = seconds(events, 0.5)
    assert (found["startup"], found["evaluation"], found["data_loading"], found["productive"]) == (
        55,
        30,
        15,
        225,
    )
    lost = seconds([*events[:-1], event("failure", 400, 300)], 0.5)
    assert (lost["lost_work"], lost.get("productive")) == (300, None), (
        "neither evaluation nor data loading saves progress"
    )


def test_a_checkpoint_before_the_first_step_is_part_of_the_startup() -> None:
    early = [event("start", 0), event("checkpoint", 20, 0, 5), event("first_step", 60, 0)]
    assert seconds(early, 0.5) == {"startup": 60, "unknown": 1740}
    assert seconds([*early[:2], event("failure", 90)], 0.5) == {"unknown": 1800}
    assert seconds([early[0], event("failure", 90), event("restart", 95)], 0.5) == {
        "startup": 90, "outage": 5, "unknown": 1705,
    }  # fmt: skip


def test_outages_count_as_far_as_gpus_were_allocated_and_more_than_all_is_a_contradiction() -> None:
    assert seconds(RUN, 2750 / HOUR_S)["outage"] == 100
    assert rows(RUN, 2750 / HOUR_S)[0]["outage_s"] == 300
    assert seconds(RUN, 2640 / HOUR_S)["unknown"] == -10
    assert seconds(RUN, 2600 / HOUR_S) == {"unknown": 2600, "contradictions": 1}
    assert rows(RUN, 2600 / HOUR_S)[0]["steps_kept"] == 0


@pytest.mark.parametrize("status", ["too_few_steps", "unknown_clocks", "high_discrepancy", "analysed"])
def test_step_times_that_are_not_trusted_leave_training_unknown(status: str) -> None:
    (row,) = rows(RUN, 1.0, status)
    is_split = status in {"high_discrepancy", "analysed"}  # recorded steps are longer: late starts
    assert (row["productive_gpu_hours"] > 0, row["lost_work_gpu_hours"] > 0) == (is_split, is_split)
    assert row["startup_gpu_hours"] == pytest.approx(200 / HOUR_S)
    job = {"status": status, "gpu_hours": 1.0, "world_size": 1}
    facts = {"events": RUN, "log_date": DAY}
    (shorter,) = time_rows(facts, job, StepTimes(0.75, 0.875, 0.75), 0.0)
    assert (shorter["late_start_gpu_hours"] < 0) == (status == "analysed")
    assert shorter["lost_to_causes_gpu_hours"] == 0


def random_events(draw: random.Random) -> list[Event]:
    """Draw events, mostly in the usual order of a run: start, work, save, fail and restart."""
    events: list[Event] = []
    at_s, step, kind = draw.uniform(-300, 300), draw.randrange(50), draw.choice(EVENTS)
    for _ in range(draw.randrange(1, 16)):
        named, lasts_s = step if draw.random() < 0.85 else None, draw.choice([None, 0.0, 2.5, 40.0])
        events.append(event(kind, at_s, named, lasts_s))
        likely = {
            "failure": ["restart"],
            "stop": ["start"],
            "start": ["first_step"],
            "restart": ["first_step"],
        }
        likely |= {"submitted": ["start"]}
        at_work = [
            "step",
            "step",
            "checkpoint",
            "evaluation",
            "data_loading",
            "failure",
            "restart",
            "submitted",
        ]
        kind = draw.choice(likely.get(kind, at_work) if draw.random() < 0.9 else EVENTS)
        at_s += draw.choice([0, 0.25, 200, -0.5, -5] if draw.random() < 0.1 else [50, 300])
        goes_back = kind in ("start", "restart") or draw.random() < 0.05
        step += draw.choice([0, -20, -150] if goes_back else [0, 40, 250])
    return events


def test_random_days_beside_the_reference() -> None:
    draw = random.Random(5)  # noqa: S311  # not a secret
    for _ in range(600):
        events = [each for each in random_events(draw) for _ in range(draw.choice([1, 1, 1, 1, 1, 2]))]
        ended = MIDNIGHT_S + draw.choice([310, 700, 90000])
        times = StepTimes(*draw.choice([(1.0, 0.9, 0.8), (0.5, 0.6, 0.7), (3.0, 2.0, 1.0)]))
        hours, gpus = draw.choice([0.5, 2.0, 8.0]), draw.choice([1, 8])
        status = draw.choice(["analysed", "analysed", "too_few_steps"])
        job = {"status": status, "gpu_hours": hours, "world_size": gpus}
        facts = {"events": events, "log_date": DAY, "ended_at": datetime.fromtimestamp(ended, UTC)}
        (row,) = time_rows(facts, job, times, None)
        window = (MIDNIGHT_S, min(ended, MIDNIGHT_S + 24 * HOUR_S))
        wanted = reference.parts(events, window, times, gpus, hours, is_split=status == "analysed")
        waited = wanted.pop("queued")
        assert row["queued_gpu_hours"] == (None if math.isinf(waited) else pytest.approx(waited, abs=ROUNDED))
        for name, value in wanted.items():
            column = name if name == "contradictions" else f"{name}_gpu_hours"
            assert row[column] == pytest.approx(value, abs=ROUNDED), (name, events)


def test_times_and_steps_as_large_as_a_log_can_hold_leave_finite_figures() -> None:
    most = 2**63
    far = [
        {"event": "step", "at_us": 0, "step": -most},
        {"event": "checkpoint", "at_us": 1, "step": most - 1, "duration_us": float(most)},
        {"event": "failure", "at_us": most - 1, "step": most - 1},
        {"event": "restart", "at_us": most - 1, "step": -most},
    ]
    for facts in ({"log_date": DAY}, {"log_date": None}):
        job = {"status": "analysed", "gpu_hours": 1e9, "world_size": 2**31 - 1}
        (row,) = time_rows({"events": far, **facts}, job, TIMES, 0.25)
        assert all(math.isfinite(value) for value in row.values())


@pytest.mark.parametrize(
    "facts", [{}, {"gpu_hours": 0.0}, {"events": []}], ids=["hours", "no hours", "events"]
)
def test_without_gpu_hours_or_events_there_is_no_row(facts: dict[str, Any]) -> None:
    unit = manifest(dp_size=2, pp_size=2) | {"events": RUN} | facts
    known = {"gpu_hours": 4.0} if "events" in facts else {}
    tables = simulate_job(rank_steps(*unit_rows()), unit | known)
    assert (tables[JOB_TIME].num_rows, tables["job_slowdown"].num_rows) == (0, 1)


def test_the_other_tables_of_a_unit_do_not_see_its_events() -> None:
    unit, lines = manifest(dp_size=2, pp_size=2) | {"gpu_hours": 4.0}, rank_steps(*unit_rows())
    without, with_events = simulate_job(lines, unit), simulate_job(lines, unit | {"events": RUN})
    assert with_events.pop(JOB_TIME).num_rows == 1
    assert without.pop(JOB_TIME).num_rows == 0
    assert without == with_events
