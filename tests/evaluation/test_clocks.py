"""The evaluation of clocks: what it prints, and that a job on good clocks is the one it is compared with."""

import json

import pytest

from tests.evaluation.clocks import judge, main
from tests.evaluation.skews import SKEWS


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--jobs", "8", "--seed", "40", "--most-ops", "3000", "--list-worst", "2"]
    assert main([*arguments, "--format", "json"]) == 0
    read = json.loads(capsys.readouterr().out)
    everything, kinds, worst = (section["rows"] for section in read["sections"])
    assert read["heading"].startswith("8 generated jobs on several hosts, of seeds 40 to ")
    assert everything[0]["jobs"] == sum(row["jobs"] for row in kinds) == 8
    assert everything[0]["analysed and wrong by over 0.5 %"] == 0
    assert len(worst) == 2


@pytest.mark.parametrize("skew", SKEWS)
def test_every_skew_is_undone(skew: str) -> None:
    """A job of 24 steps, dp 6 and pp 4, on 12 hosts, whose slowdown all of these bend."""
    found = judge(8, skew, most_ops=6_000)
    assert found is not None
    assert found["ignored_error"] > 1e-3
    assert found["error"] < 1e-3
    assert found["causes_kept"]
