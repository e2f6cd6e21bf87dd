"""Summaries of runs, as those who started them find them."""

import json
from pathlib import Path

import click
import pytest

from jobs.gates.checks import GateWork
from jobs.runtime.arguments import command
from jobs.runtime.run_log import phase_work
from jobs.runtime.run_summary import SUMMARY, leave, of_history
from tests.support.examples import DAY, NEXT_DAY


def test_the_summary_of_a_history_has_days_rows_and_phases(tmp_path: Path) -> None:
    counts = {"jobs": 3} | phase_work("simulate", [], 2.5, GateWork(0.5, 7, 0))
    leave(of_history([NEXT_DAY, DAY], counts), str(tmp_path / "summary.json"))
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["days"], summary["rows"], summary["dry_run"]) == (
        ["2026-01-05", "2026-01-06"],
        {"jobs": 3},
        False,
    )
    ((stage, seconds, gate_seconds),) = [
        (each["stage"], each["seconds"], each["gate_seconds"]) for each in summary["stages"]
    ]
    assert (stage, seconds, gate_seconds) == ("simulate", 2.5, 0.5)


def test_a_dry_run_says_so_and_has_no_rows() -> None:
    found = of_history([DAY], {}, dry_run=True)
    assert found == {
        "days": ["2026-01-05"],
        "rows": {},
        "stages": [],
        "dry_run": True,
        "is_current": False,
    }


def test_results_beside_the_current_ones_are_marked() -> None:
    assert of_history([DAY], {"jobs": 3})["is_current"]
    assert not of_history([DAY], {"jobs": 3}, is_beside=True)["is_current"]


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
    found: str | None = command("test", SUMMARY)(lambda _: 0).read(arguments).summary
    return found
