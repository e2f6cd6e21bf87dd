"""Test the JSON summary that a run writes for the process that started it: its contents and its file."""

import json
from pathlib import Path

import click
import pytest

from jobs.entry_points.run_log import phase_work
from jobs.entry_points.run_summary import SUMMARY, leave, of_history
from jobs.gates.checks import GateWork
from jobs.runtime.arguments import command
from tests.support.commands import arguments_of
from tests.support.examples import DAY, NEXT_DAY


def test_the_summary_of_a_history_has_days_rows_and_phases(tmp_path: Path) -> None:
    counts = {"jobs": 3} | phase_work("simulate", [], 2.5, GateWork(0.5, 7, 0))
    leave(of_history([NEXT_DAY, DAY], counts), str(tmp_path / "summary.json"))
    summary = json.loads((tmp_path / "summary.json").read_text())
    work = {"phase": "simulate", "stage": "simulate", "seconds": 2.5, "gate_seconds": 0.5}
    for name in ("phases", "stages"):  # the second is the name until version 0.3.0
        (found,) = summary.pop(name)
        assert work.items() <= found.items()
    days = ["2026-01-05", "2026-01-06"]
    assert summary == {"days": days, "rows": {"jobs": 3}, "dry_run": False, "is_current": True}
    assert not of_history([DAY], counts, is_beside=True)["is_current"]
    dry = {
        "days": ["2026-01-05"],
        "rows": {},
        "phases": [],
        "stages": [],
        "dry_run": True,
        "is_current": False,
    }
    assert of_history([DAY], {}, dry_run=True) == dry


def test_the_caller_says_where_the_summary_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WHAT_IF_SUMMARY", raising=False)
    leave({}, asked_for([]))
    monkeypatch.setenv("WHAT_IF_SUMMARY", "of the task")
    assert (asked_for([]), asked_for(["--summary", "mine"])) == ("of the task", "mine")


@pytest.mark.parametrize("wrong", [".", "nowhere/summary.json"])
def test_a_file_that_cannot_be_written_is_a_wrong_argument(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(click.UsageError, match=f"{tmp_path / wrong}: no file can be written there"):
        asked_for(["--summary", str(tmp_path / wrong)])


def asked_for(arguments: list[str]) -> str | None:
    found: str | None = arguments_of(command("test", SUMMARY)(lambda _: 0), arguments)["summary"]
    return found
