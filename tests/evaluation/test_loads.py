"""The diagnosis finds the slow data loads that the generator planted."""

import json

import pandas as pd
import pytest

from tests.evaluation.loads import CAUSE, WITH_LOADS, judge, main
from tests.evaluation.score import labels


def test_slow_loads_are_found_in_jobs_that_record_them() -> None:
    """Of ten jobs, the diagnosis finds exactly the two in which data loads cost over 2.5 % of the step."""
    rows = pd.DataFrame(row for seed in range(40000, 40010) for row in judge(seed, 10_000))
    loads = rows[rows.cause == CAUSE]
    assert set(loads.variant) == {WITH_LOADS}
    found = labels(loads.is_cause, loads.is_true)
    assert (found["true"], found["false"], found["missed"]) == (2, 0, 0)
    assert (loads.predicted - loads.true).abs().max() < 0.005


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--jobs", "2", "--seed", "40000", "--most-ops", "2000", "--format", "json"]) == 0
    read = json.loads(capsys.readouterr().out)
    tables = {section["title"]: section["rows"] for section in read["sections"]}
    assert [row["class"] for row in tables["Slow loads"]][-1] == "all"
    logs = [(row["cause"], row["logs"]) for row in tables["All causes"]]
    assert ("pause", "without loads") in logs
    assert ("data_loading", "with loads") in logs
    assert ("data_loading", "without loads") not in logs
