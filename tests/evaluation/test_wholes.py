"""Predicted savings by faster roles agree with the truth, on generated jobs of several roles."""

import json

import pytest

from tests.evaluation.wholes import judge, main


@pytest.mark.parametrize("seed", [0, 22])
def test_a_whole_is_near_its_truth(seed: int) -> None:
    for row in judge(seed):
        for name, most in (("if_twice_as_fast", 1e-3), ("if_fixed", 5e-3), ("if_ideal", 0.05)):
            if row[f"said_{name}"] is not None:
                assert row[f"said_{name}"] == pytest.approx(row[f"true_{name}"], abs=most)


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--jobs", "2", "--seed", "5", "--list-worst", "2", "--format", "json"]) == 0
    read = json.loads(capsys.readouterr().out)
    summary, worst = (section["rows"] for section in read["sections"])
    assert read["heading"].startswith("2 generated wholes of ")
    assert {row["scenario"] for row in summary} == {"if_fixed", "if_ideal", "if_twice_as_fast"}
    halves = [row for row in summary if row["scenario"] == "if_twice_as_fast"]
    assert max(row["MAE [%]"] for row in halves) < 0.1
    assert len(worst) == 2
