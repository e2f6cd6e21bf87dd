"""Run events that a training job writes are valid, and errors in writing them never disturb the job."""

import json
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from jobs.emitter import Run, RunEvents
from jobs.emitter import run_events as module
from jobs.landing.formats.rows import Bounds
from jobs.landing.formats.run_events import read_events
from jobs.runtime.project import PROJECT
from schemas.vocabulary import EVENTS
from udfs.simulate.run_course import course_of

RUN = Run("j", "r", dp_size=1)
START_US = 1_767_600_000_000_000
BEFORE_MIDNIGHT_US = 1_767_657_599_000_000
SECOND_US = 1_000_000


class Clock:
    """A clock that advances by `by_s` seconds at each reading."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, now_us: int = START_US, by_s: float = 1.0) -> None:
        self.now_us, self.by_s = now_us, by_s
        monkeypatch.setattr(module, "_now_us", self)

    def __call__(self) -> int:
        self.now_us += round(self.by_s * SECOND_US)
        return self.now_us


def written(landing: Path) -> list[dict[str, Any]]:
    """Return the rows of all event files, earliest day first; fails if a line is invalid."""
    rows: list[dict[str, Any]] = []
    for path in sorted(landing.rglob("events.jsonl")):
        found = read_events([path.read_bytes().splitlines()], {"job_id": "j", "run_id": "r"}, Bounds())
        assert found.rejects == []
        rows += map(dict, found.rows)
    return rows


def shown(landing: Path) -> list[tuple[str, int | None]]:
    return [(row["event"], row["step"]) for row in written(landing)]


def test_a_run_that_fails_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)

    def train() -> None:
        with RunEvents(tmp_path, RUN, mark_every_s=5) as events:
            events.submitted(START_US / 1e6 - 100)
            events.start()
            with events.data_loading():
                pass
            for number in range(8):
                events.begin_step(number)
                if number == 3:
                    with events.checkpoint():
                        clock.now_us += 7 * SECOND_US
                    with events.evaluation():
                        clock.now_us += SECOND_US
            raise RuntimeError("lost")

    with pytest.raises(RuntimeError, match="lost"):
        train()
    with RunEvents(tmp_path, RUN) as events:
        events.restart(4)
        events.begin_step(4)
    assert shown(tmp_path) == [
        ("submitted", None), ("start", None), ("data_loading", None), ("first_step", 0),
        ("checkpoint", 4), ("evaluation", 4), ("step", 4), ("failure", 7),
        ("restart", 4), ("first_step", 4), ("stop", 5),
    ]  # fmt: skip
    rows = written(tmp_path)
    assert {row["event"] for row in rows} == set(EVENTS)
    lasted_us = [row["duration_us"] for row in rows if row["duration_us"] is not None]
    assert lasted_us == [SECOND_US, 8 * SECOND_US, 2 * SECOND_US]
    assert (rows[0]["at_us"], course_of(rows).contradictions) == (START_US - 100 * SECOND_US, 0)
    manifest = json.loads(next(tmp_path.rglob("job.json")).read_text())
    assert manifest["world_size"] == 1


def test_a_day_has_a_file_and_a_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, BEFORE_MIDNIGHT_US - 90 * SECOND_US, by_s=60)
    with RunEvents(tmp_path, RUN) as events:
        for number in range(3):
            events.begin_step(number)
    files = {path.parts[-4]: len(path.read_bytes().splitlines()) for path in tmp_path.rglob("events.jsonl")}
    assert files == {f"log_date={date(2026, 1, 5)}": 1, f"log_date={date(2026, 1, 6)}": 3}
    assert shown(tmp_path) == [("first_step", 0), ("step", 1), ("step", 2), ("stop", 3)]


def test_a_submission_lies_with_its_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, BEFORE_MIDNIGHT_US + SECOND_US)
    with RunEvents(tmp_path, RUN) as events:
        events.submitted(BEFORE_MIDNIGHT_US / 1e6 - 7200)
        events.start()
    assert [path.parts[-4] for path in tmp_path.rglob("events.jsonl")] == ["log_date=2026-01-06"]


def test_a_checkpoint_that_raises_is_none_and_one_may_name_its_step(tmp_path: Path) -> None:
    with RunEvents(tmp_path, RUN) as events:
        with pytest.raises(OSError, match="full"), events.checkpoint():
            raise OSError("full")
        with events.checkpoint(40):
            pass
    assert shown(tmp_path) == [("checkpoint", 40), ("stop", None)]


def test_half_a_line_of_a_killed_writer_costs_that_line_alone(tmp_path: Path) -> None:
    with RunEvents(tmp_path, RUN) as events:
        events.start()
    (path,) = tmp_path.rglob("events.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    with RunEvents(tmp_path, RUN) as events:
        events.restart()
    found = read_events([path.read_bytes().splitlines()], {"job_id": "j", "run_id": "r"}, Bounds())
    assert [row["event"] for row in found.rows] == ["start", "restart", "stop"]
    assert [reject.reason for reject in found.rejects] == ["not_json"]


def test_what_a_killed_process_noted_is_there(tmp_path: Path) -> None:
    program = f"""
import os, pathlib, time
from jobs.emitter import Run, RunEvents
events = RunEvents({str(tmp_path)!r}, Run("j", "r", dp_size=1))
events.start()
events.begin_step(7)
until = time.monotonic() + 60
while time.monotonic() < until:
    logs = pathlib.Path({str(tmp_path)!r}).rglob("events.jsonl")
    if sum(each.read_bytes().count(b"\\n") for each in logs) == 2:
        break
    time.sleep(0.001)
os._exit(9)
"""
    done = subprocess.run([sys.executable, "-c", program], check=False, cwd=PROJECT)
    assert done.returncode == 9
    assert shown(tmp_path) == [("start", None), ("first_step", 7)]


@pytest.mark.parametrize("broken", ["full disk", "unwritable landing", "interrupt"])
def test_what_breaks_costs_no_training_and_is_one_warning(
    tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    events = RunEvents(tmp_path, RUN, mark_every_s=0)
    if broken == "unwritable landing":
        (tmp_path / "file").touch()
        events.landing = tmp_path / "file"
    else:
        error = OSError(28, "No space left") if broken == "full disk" else KeyboardInterrupt()
        monkeypatch.setattr(module, "write_whole", raises(error))
    with caplog.at_level(logging.WARNING, "straggler_emitter"), events:
        for number in range(50):
            events.begin_step(number)
            wait_until(lambda: bool(caplog.records))
    first, *last = (record.getMessage() for record in caplog.records)
    assert "training continues" in first
    assert last == ["events of r: the last 51 events were not written"] * (broken != "interrupt")


def test_a_submission_at_no_time_costs_no_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "straggler_emitter"), RunEvents(tmp_path, RUN) as events:
        events.submitted(float("nan"))
    (said,) = (record.getMessage() for record in caplog.records)
    assert "training continues" in said


def test_a_dead_store_slows_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    released = threading.Event()
    monkeypatch.setattr(os, "open", lambda *_: released.wait(30) and 0)
    events = RunEvents(tmp_path, RUN, mark_every_s=0)
    with caplog.at_level(logging.WARNING, "straggler_emitter"):
        for number in range(50):
            events.begin_step(number)
        events.close(timeout_s=0.01)
    released.set()
    behind, lost = (record.getMessage() for record in caplog.records)
    assert behind.endswith("16 events behind")
    assert lost == "events of r: the last 49 events were not written"


def raises(error: BaseException) -> Callable[..., None]:
    def failing(*_: object) -> None:
        raise error

    return failing


def wait_until(is_done: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_done() and time.monotonic() < until:
        time.sleep(0.001)
