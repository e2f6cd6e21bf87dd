"""Causes of the published traces."""

from pathlib import Path

import pytest

from schemas.vocabulary import JOB_SLOWDOWN
from tests.support import published
from tests.udfs.kernel.diagnosis.generated import Rows, causes_of, flags_of
from udfs.what_if import simulate_job


def causes(traces: Path, name: str) -> Rows:
    return causes_of(published.rank_steps(traces, name), published.manifest(traces, name))


def test_the_stages_of_st_are_uneven_and_nothing_else_is_wrong(published_traces: Path) -> None:
    found = causes(published_traces, "ST")
    assert [name for name, row in found.items() if row["is_cause"]] == ["stage_imbalance"]
    saved = {name: row["time_saved_fraction"] for name, row in found.items()}
    assert saved.pop("stage_imbalance") == pytest.approx(0.13, abs=0.02)
    assert max(saved.values()) < 0.025
    (last,) = found["stage_imbalance"]["culprits"]
    assert (last["pp_rank"], last["dp_rank"]) == (3, None)
    assert flags_of(found) == {}


def test_the_data_of_se_are_uneven_and_stages_beneath(published_traces: Path) -> None:
    """A stage imbalance hides behind the data: together they are the waste."""
    rows, facts = published.rank_steps(published_traces, "SE"), published.manifest(published_traces, "SE")
    found = causes(published_traces, "SE")
    assert found["data_imbalance"]["is_cause"]
    assert found["data_imbalance"]["time_saved_fraction"] == pytest.approx(0.25, abs=0.02)
    (job,) = simulate_job(rows, facts)[JOB_SLOWDOWN].to_pylist()
    waste = 1.0 - job["ideal_step_s"] / job["simulated_step_s"]
    both = found["stage_imbalance"]["attributed_fraction"] + found["data_imbalance"]["attributed_fraction"]
    assert 0.95 * waste <= both <= 1.05 * waste
    assert flags_of(found) == {}
