"""The command: what it prints, and what it says where it cannot."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.evaluation.classes import CLASSES
from tests.evaluation.diagnosis import main
from tests.evaluation.fakes import zero
from udfs.what_if import simulate_job

SMALL = ["--jobs", "12", "--seed", "40", "--healthy", "3", "--sensitivity", "4", "--most-ops", "2000"]
TITLES = [
    "Classes",
    "Causes",
    "Labels on healthy jobs",
    "Slow workers located",
    "Calibration",
    "The paper's indicators as labels",
    "Sensitivity",
]


def printed(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    assert main([*SMALL, *more, "--format", "json"], zero) == 0
    read: dict[str, Any] = json.loads(capsys.readouterr().out)
    return read


def test_all_tables_and_the_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    read = printed(capsys)
    assert [section["title"] for section in read["sections"]] == TITLES
    assert read["heading"].startswith("12 generated jobs of seeds 40 to 51; 3 healthy jobs of seeds 52 to ")
    assert read["heading"].endswith(" These seeds are for tuning.")
    classes = {row["class"]: row for row in read["sections"][0]["rows"]}
    assert classes["all"]["jobs"] == 12
    assert {row["jobs"] for row in read["sections"][6]["rows"]} <= {0, 1, 2, 3, 4}
    assert read["sections"][2]["rows"][0]["jobs"] == 3


def test_the_same_from_two_processes(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys) == printed(capsys, "--workers", "2")


def test_lists_and_filters(capsys: pytest.CaptureFixture[str]) -> None:
    read = printed(
        capsys,
        "--list-wrong",
        "--list-worst",
        "3",
        "--only-cause",
        "pause",
        "--class",
        "dp2pp2",
        "--class",
        "pp1",
    )
    sections = {section["title"]: section["rows"] for section in read["sections"]}
    assert [row["class"] for row in sections["Classes"]] == [
        CLASSES[name].title for name in ("dp2pp2", "pp1")
    ]
    assert {row["cause"] for row in sections["Causes"]} == {"pause"}
    assert len(sections["Largest errors"]) == 3
    assert {row["cause"] for row in sections["Largest errors"]} == {"pause"}
    assert {row["label"] for row in sections["Wrong labels"]} <= {"no"}


def test_seeds_kept_for_evaluation_are_said_to_be(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--jobs", "2", "--healthy", "0", "--sensitivity", "0", "--most-ops", "1000"]
    assert main([*few, "--seed", "1000000"], zero) == 0
    assert "These seeds are kept for evaluation." in capsys.readouterr().out
    assert main([*few, "--seed", "99999"], zero) == 0
    assert "neither for tuning alone nor" in capsys.readouterr().out


def test_published_traces_and_injected_faults(
    capsys: pytest.CaptureFixture[str], published_traces: Path
) -> None:
    def of_any(rank_steps: pa.Table, manifest: Mapping[str, object] | None) -> Mapping[str, pa.Table]:
        return zero(rank_steps, manifest)

    few = ["--jobs", "2", "--seed", "0", "--healthy", "0", "--sensitivity", "0", "--most-ops", "1000"]
    assert main([*few, "--published", str(published_traces), "--list-wrong", "--format", "json"], of_any) == 0
    sections = {each["title"]: each["rows"] for each in json.loads(capsys.readouterr().out)["sections"]}
    assert sections["Faults injected into published traces"][-1]["injections"] == 160
    assert {row["trace"] for row in sections["The published traces"]} == {"SE", "ST"}
    assert {row["missed"] for row in sections["Wrong labels on injected faults"]} == {"yes"}


def test_without_causes_it_ends_with_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def causeless(rank_steps: pa.Table, manifest: Mapping[str, object] | None) -> Mapping[str, pa.Table]:
        return {"job_slowdown": simulate_job(rank_steps, manifest)["job_slowdown"]}

    assert main(SMALL, causeless) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.endswith("gives no table job_causes: there is nothing to evaluate\n")
    assert said.err.count("\n") == 1


def test_a_folder_without_traces_is_a_wrong_argument(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as end:
        main([*SMALL, "--published", str(tmp_path)], zero)
    assert end.value.code == 2
    assert "no trace-NAME.parquet" in capsys.readouterr().err
