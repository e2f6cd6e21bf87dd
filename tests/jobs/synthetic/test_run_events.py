"""Parts of a generated run's time follow each other without a gap, and its run events show these parts."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jobs.landing.formats.rows import Bounds
from jobs.landing.formats.run_events import read_events
from jobs.synthetic.run_events import Part, RunHabits, run_through, write_events
from udfs.simulate.run_course import course_of

STEP_S = np.linspace(1.0, 2.0, 400)
HABITS = RunHabits(
    startup_s=30, save_every=50, mark_every=20, failures=3, outage_s=40, evaluate_every=100, evaluate_s=7
)


@pytest.mark.parametrize("habits", [HABITS, RunHabits()], ids=["failures", "none"])
def test_every_second_is_spent_once(habits: RunHabits) -> None:
    course = run_through(habits, STEP_S, Part(1000.0, first_step=500), np.random.default_rng(1))
    assert course.now_s - course.part.begin_s == pytest.approx(STEP_S.sum() + sum(course.spent_s.values()))
    lost_s = STEP_S[course.lost_steps].sum()
    assert lost_s <= course.spent_s["lost_work"] <= lost_s + habits.failures * STEP_S.max()
    kinds = [event["event"] for event in course.events]
    assert (kinds[0], kinds[-1], kinds.count("failure")) == ("start", "stop", habits.failures)
    assert course.events[-1]["step"] == 900
    assert kinds.count("restart") == kinds.count("first_step") - 1 == habits.failures
    assert [event["at_us"] for event in course.events] == sorted(event["at_us"] for event in course.events)


def test_its_events_contradict_nothing_and_show_its_start_ups_and_outages() -> None:
    course = run_through(HABITS, STEP_S, Part(0.0), np.random.default_rng(2))
    found = course_of(course.events)
    assert found.contradictions == 0
    assert sum(span.length_s for span in found.startups) == pytest.approx(course.spent_s["startup"])
    assert sum(span.length_s for span in found.outages) == pytest.approx(course.spent_s["outage"])
    silent = run_through(RunHabits(failures=2, silent=1.0), STEP_S, Part(0.0), np.random.default_rng(2))
    assert "failure" not in {event["event"] for event in silent.events}


def test_a_run_that_is_queued_says_since_when() -> None:
    waits = replace(HABITS, queued_s=60.0)
    course = run_through(waits, STEP_S, Part(100.0), np.random.default_rng(2))
    (wait,) = course_of(course.events).queues
    assert (wait.begin_s, wait.end_s) == (40.0, 100.0)
    later = run_through(waits, STEP_S, Part(100.0, goes_on=True), np.random.default_rng(2))
    assert course_of(later.events).queues == []


def test_a_day_of_a_run_that_goes_on_begins_and_ends_at_work() -> None:
    course = run_through(HABITS, STEP_S, Part(0.0, 300.0, 100, goes_on=True), np.random.default_rng(4))
    first, *_, last = course.events
    assert (first["event"], first["step"], last["event"]) == ("step", 100, "step")
    assert 300 <= course.now_s < 302
    assert last["at_us"] == pytest.approx(course.now_s * 1e6)
    assert course_of(course.events).contradictions == 0


def test_its_file_is_read_line_by_line(tmp_path: Path) -> None:
    events = run_through(HABITS, STEP_S, Part(5.0), np.random.default_rng(3)).events
    write_events(tmp_path, events, "j", "r")
    lines = (tmp_path / "events.jsonl").read_bytes().splitlines()
    found = read_events([lines], {"job_id": "j", "run_id": "r"}, Bounds())
    assert found.rejects == []
    assert [row["at_us"] for row in found.rows] == [event["at_us"] for event in events]
    assert json.loads(lines[0])["format"] == "run-events/1"
