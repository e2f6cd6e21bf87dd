"""Bars: seen on a terminal, gone when they end, silent elsewhere; standard output is never touched."""

import io
import sys

import pytest
from rich.console import Console

from jobs.runtime import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    drawn = Terminal()
    monkeypatch.setattr(progress, "SCREEN", Console(file=drawn, width=100, force_terminal=True))
    return drawn


def test_a_terminal_shows_what_is_done_and_which_of_how_many(screen: io.StringIO) -> None:
    with progress.working("reading [logs]"):
        pass
    assert "reading [logs]" in screen.getvalue()
    with progress.steps("night", ["ingest", "simulate"]) as names:
        assert list(names) == ["ingest", "simulate"]
    assert "2/2" in screen.getvalue()


def test_a_terminal_shows_how_many_units_are_done(screen: io.StringIO) -> None:
    with progress.counting("starting", 3) as advance:
        advance("ingest 2026-01-05", 2)
    assert "ingest 2026-01-05" in screen.getvalue()
    assert "2/3" in screen.getvalue()


def test_one_within_another(screen: io.StringIO) -> None:
    with progress.steps("night", ["ingest"]) as names:
        for _ in names:
            with progress.working("within"):
                pass
    assert "within" in screen.getvalue()


def test_elsewhere_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = io.StringIO()
    monkeypatch.setattr(progress, "SCREEN", Console(file=drawn))
    with progress.working("reading"), progress.steps("night", ["ingest"]) as names:
        assert list(names) == ["ingest"]
    assert drawn.getvalue() == ""


@pytest.mark.usefixtures("screen")
def test_standard_output_stays_what_it_is() -> None:
    before = sys.stdout
    with progress.working("reading"):
        assert sys.stdout is before
