"""Causes fixed on request: the answers are the rows that a night stores."""

import pytest

from schemas.vocabulary import ALL_CAUSES
from tests.jobs.report.units import recorded_job
from tests.udfs.lines import manifest, rank_steps
from udfs.custom_scenario import replay_causes
from udfs.errors import NothingToReplayError
from udfs.what_if import SimulationSettings, simulate_job

SETTINGS = SimulationSettings()


def test_the_answers_are_those_of_job_causes_and_all_causes_save_what_is_lost() -> None:
    job = recorded_job()
    found = replay_causes(job.rank_steps, job.manifest, ["pause", "slow_worker"], SETTINGS)
    tables = simulate_job(job.rank_steps, job.manifest)
    rows = {row["cause"]: row for row in tables["job_causes"].to_pylist()}
    (unit,) = tables["job_slowdown"].to_pylist()
    pause, slow, everything = found.answers
    assert (pause.scenario, slow.scenario, everything.scenario) == ("pause", "slow_worker", ALL_CAUSES)
    assert slow.time_saved_fraction == rows["slow_worker"]["time_saved_fraction"] > 0.1
    assert slow.gpu_hours_saved == rows["slow_worker"]["recoverable_gpu_hours"]
    assert slow.step_s == pytest.approx(unit["actual_step_s"] - slow.time_saved_s, rel=1e-12)
    assert everything.time_saved_fraction == pytest.approx(sum(row["lost_fraction"] for row in rows.values()))
    assert everything.gpu_hours_saved == pytest.approx(sum(row["lost_gpu_hours"] for row in rows.values()))
    assert (found.steps, found.slowdown) == (unit["steps"], unit["slowdown"])


def test_a_unit_that_is_not_replayed_is_refused_with_its_status() -> None:
    with pytest.raises(NothingToReplayError, match="no_ops"):
        replay_causes(rank_steps(), manifest(dp_size=2), ["pause"], SETTINGS)
