"""Test the output and the errors of the command that evaluates the diagnosis."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.diagnosis import main
from tests.evaluation.fakes import zero

SMALL = ["--jobs", "12", "--seed", "40", "--healthy", "3", "--sensitivity", "4", "--most-ops", "2000"]
FEW = ["--jobs", "2", "--healthy", "0", "--sensitivity", "0", "--most-ops", "1000"]


def printed(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[str, dict[str, Any]]:
    """Return the heading, and the rows of each table by title."""
    assert main([*more, "--format", "json"], zero) == 0
    read = json.loads(capsys.readouterr().out)
    return read["heading"], {section["title"]: section["rows"] for section in read["sections"]}


def test_all_tables_from_one_process_and_from_two(capsys: pytest.CaptureFixture[str]) -> None:
    heading, sections = printed(capsys, *SMALL)
    assert heading.startswith("12 generated jobs of seeds 40 to 51; 3 healthy jobs of seeds 52 to ")
    assert heading.endswith(" These seeds are for tuning.")
    assert {row["class"]: row for row in sections["Classes"]}["all"]["jobs"] == 12
    assert {row["jobs"] for row in sections["Sensitivity"]} <= {0, 1, 2, 3, 4}
    assert sections["Labels on healthy jobs"][0]["jobs"] == 3
    assert printed(capsys, *SMALL, "--workers", "2") == (heading, sections)


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    _, sections = printed(capsys, *SMALL, "--list-wrong", "--list-worst", "3")
    assert len(sections["Largest errors"]) == 3
    assert {row["label"] for row in sections["Wrong labels"]} <= {"no"}


@pytest.mark.parametrize(
    ("seed", "purpose"), [("1000000", "kept for"), ("99999", "neither for tuning alone")]
)
def test_what_seeds_are_for(capsys: pytest.CaptureFixture[str], seed: str, purpose: str) -> None:
    assert f"These seeds are {purpose}" in printed(capsys, *FEW, "--seed", seed)[0]


def test_published_traces_and_injected_faults(
    capsys: pytest.CaptureFixture[str], published_traces: Path
) -> None:
    of_traces = ["--seed", "0", "--published", str(published_traces), "--list-wrong"]
    _, sections = printed(capsys, *FEW, *of_traces)
    assert sections["Faults injected into published traces"][-1]["injections"] == 160
    assert {row["trace"] for row in sections["The published traces"]} == {"SE", "ST"}
    assert {row["missed"] for row in sections["Wrong labels on injected faults"]} == {"yes"}


def test_a_folder_without_traces_is_a_wrong_argument(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main([*SMALL, "--published", str(tmp_path)], zero) == 2
    assert "no trace-NAME.parquet" in capsys.readouterr().err
