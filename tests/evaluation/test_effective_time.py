"""The evaluation of effective time reports small errors for a few generated runs."""

import pandas as pd
import pytest

from tests.evaluation.effective_time import PARTS, by_part, judge, main


def test_parts_add_up_and_what_is_recorded_whole_is_exact() -> None:
    rows = pd.DataFrame([judge(seed, most_ops=2000) for seed in (3, 9)])
    assert set(rows.status) == {"analysed"}
    assert rows.failures.sum() == 3
    for kind in ("true", "error"):
        total = rows[[f"{kind}_{name}" for name in PARTS]].sum(axis=1)
        assert total.tolist() == pytest.approx([1.0 if kind == "true" else 0.0] * 2, abs=1e-6)
    found = {row["part"]: row for row in by_part(rows).to_dict("records")}
    assert found["startup"]["MAE [%]"] + found["checkpoint"]["MAE [%]"] < 1e-4
    assert found["ettr"]["MAE [%]"] < 2
    assert found["outage"]["highest [%]"] < 1e-4, "an outage that no event shows is unknown"


def test_the_command_prints_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--jobs", "2", "--seed", "3", "--most-ops", "1000"]) == 0
    printed = capsys.readouterr().out
    assert "2 generated runs of seeds 3 to 4." in printed
    assert "ettr" in printed
