"""Failed health checks explain slow hosts of a few generated fleets with enough recall and precision."""

import pytest

from tests.evaluation.health import judged_fleets, main


def test_what_explains_is_named_and_what_only_stands_beside_is_not() -> None:
    recall, totals = judged_fleets(7, 2)
    (row,) = totals.to_dict("records")
    assert row["knowable"] >= 8
    assert row["recall [%]"] >= 95
    assert row["precision [%]"] >= 95
    assert row["unrelated named [%]"] <= 2
    missing = recall[recall.health == "missing"]
    assert missing.culprits.sum() > 0
    assert missing.explained.sum() == 0


def test_the_command_prints_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--fleets", "1", "--seed", "7"]) == 0
    assert "1 fleets of seeds 7 to 7." in capsys.readouterr().out
