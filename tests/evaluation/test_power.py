"""Test the evaluation of power swings on a few jobs, and the truth that it uses."""

import json

import numpy as np
import pytest

from jobs.synthetic.shape import JobIdentity
from jobs.synthetic.simulation import JobPlan, Simulation
from tests.evaluation.power import BINS, RELATIONS, judge_pair, main, truth
from tests.support.random_jobs import EXACT, PAIR, PAIR_STEP_S, generate_job


def test_the_truth_of_a_step_without_noise() -> None:
    """Without noise, the true share of computing workers follows from the lengths of ops in a step."""
    found = truth(Simulation(JobPlan(PAIR, workload=EXACT)))
    at = (np.arange(BINS) + 0.5) / BINS * PAIR_STEP_S
    computes = ((at > 0.01) & (at < 0.31)) | (at > PAIR_STEP_S - 0.005)
    is_edge = np.abs(found.share - computes) > 1e-3
    assert np.count_nonzero(is_edge) <= 3
    assert found.harmonic == 1
    assert found.step_s == pytest.approx(PAIR_STEP_S)
    assert found.peak_s == pytest.approx(0.16, abs=0.01)


def test_a_beat_sets_when_steps_begin_and_nothing_else() -> None:
    usual, beating = (generate_job(PAIR, [], 1, JobIdentity(beat_s=beat_s)) for beat_s in (None, 2.5))
    step_us = [job.rank_steps["t0_us"].to_numpy() for job in (usual, beating)]
    assert usual.rank_steps.drop("t0_us").equals(beating.rank_steps.drop("t0_us"))
    since_us = step_us[1].reshape(1, PAIR.steps, 2)[0] - step_us[0].reshape(1, PAIR.steps, 2)[0]
    assert (since_us[0] == 0).all()
    assert np.ptp(since_us, axis=1).max() == 0


@pytest.mark.parametrize("relation", RELATIONS)
def test_pairs_are_in_phase_where_they_were_made_to_be(relation: str) -> None:
    found = next(
        row for row in map(judge_pair, range(500, 600)) if row is not None and row["relation"] == relation
    )
    assert found["found"] == found["is_in_phase"] == (relation in RELATIONS[:2])


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--jobs", "6", "--seed", "700", "--most-ops", "3000", "--format", "json"]) == 0
    read = json.loads(capsys.readouterr().out)
    shares, pairs, _ = (section["rows"] for section in read["sections"])
    assert read["heading"] == "6 generated jobs and 6 pairs, of seeds 700 to 705."
    assert shares[0]["jobs"] == sum(row["pairs"] for row in pairs) == 6
    assert shares[0]["share, mean error [%]"] < 0.5
    assert shares[0]["swing, mean error [%]"] < 1.0
