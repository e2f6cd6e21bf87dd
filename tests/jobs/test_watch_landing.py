"""Test the command watch: how often its rounds run, what follows a failed round, and how it ends."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobs import watch_landing
from jobs.entry_points import cli
from jobs.runtime.errors import PlainError
from tests.jobs.conftest import Ask


@pytest.mark.parametrize(("text", "seconds"), [("30s", 30.0), ("10m", 600.0), ("1h", 3600.0)])
def test_a_time_between_rounds(text: str, seconds: float) -> None:
    assert watch_landing.interval_s(text) == seconds


@pytest.mark.parametrize("text", ["10", "m", "0m", "1.5h", "-1s", "1d"])
def test_what_is_no_time(text: str, call: Ask, tmp_path: Path) -> None:
    said = call(watch_landing.main, "--landing", tmp_path, "--every", text)
    assert said.status == 2
    assert f"{text!r} is not a time such as 30s, 10m or 1h" in said.err


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Sleep times between rounds of watching: rounds 1 and 2 fail, round 3 raises KeyboardInterrupt."""
    slept: list[float] = []

    @contextmanager
    def nothing(*_: object) -> Iterator[None]:
        yield

    def fails(*_: object) -> None:
        if len(slept) == 2:
            raise KeyboardInterrupt
        raise PlainError("the store does not answer")

    monkeypatch.setattr(cli, "session", nothing)
    monkeypatch.setattr("jobs.night.live.run", fails)
    # Replaces the module's `time`, because other threads call time.sleep too.
    monkeypatch.setattr(watch_landing, "time", SimpleNamespace(sleep=slept.append, monotonic=time.monotonic))
    return slept


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    (tmp_path / "landing").mkdir()
    return ["--landing", str(tmp_path / "landing"), "--warehouse", str(tmp_path / "warehouse")]


def test_a_round_that_fails_is_followed_by_the_next(
    rounds: list[float], folders: list[str], call: Ask, caplog: pytest.LogCaptureFixture
) -> None:
    assert call(watch_landing.main, *folders, "--every", "1h").status == 130
    assert caplog.text.count("the next one catches up: the store does not answer") == len(rounds) == 2
    assert all(0 < seconds <= 3600 for seconds in rounds)


def test_one_round_that_fails_is_an_error(rounds: list[float], folders: list[str], call: Ask) -> None:
    said = call(watch_landing.main, *folders, "--once")
    assert (said.status, rounds) == (1, [])
    assert "the store does not answer" in said.err.splitlines()[-1]


def test_a_round_that_ctrl_c_made_fail_is_followed_by_none(
    rounds: list[float], folders: list[str], call: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cancelled(*_: object) -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise PlainError("[SPARK_JOB_CANCELLED]")

    monkeypatch.setattr("jobs.night.live.run", cancelled)
    call(watch_landing.main, *folders, "--every", "1h")
    assert rounds == []
