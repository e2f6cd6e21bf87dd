"""Progress bars appear only on a terminal, are removed at their end, and never write to standard output."""

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


def test_a_terminal_shows_what_is_done_and_how_much(screen: io.StringIO) -> None:
    before = sys.stdout
    with progress.steps("night", ["ingest", "simulate"]) as names:
        for _ in names:
            with progress.working("reading [logs]"):
                assert sys.stdout is before, "standard output may be a file, and is not replaced"
    with progress.counting("starting", 3) as advance:
        advance("ingest 2026-01-05", 2)
    drawn = screen.getvalue()
    assert all(words in drawn for words in ("reading [logs]", "2/2", "ingest 2026-01-05", "2/3"))


def test_elsewhere_it_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = io.StringIO()
    monkeypatch.setattr(progress, "SCREEN", Console(file=drawn))
    with progress.working("reading"), progress.steps("night", ["ingest"]) as names:
        assert list(names) == ["ingest"]
    assert drawn.getvalue() == ""
