"""Wrong clocks change only a generated job's recorded times, and the simulator corrects these times."""

import json

import numpy as np
import pytest

from jobs.synthetic.shape import JobShape
from jobs.synthetic.simulation import JobPlan, Simulation, true_savings
from tests.evaluation.clocks import judge, main
from tests.evaluation.skews import SKEWS, HostClock, HostClocks
from tests.support.random_jobs import generate_job

SHAPE = JobShape(dp_size=2, steps=12, tp_size=8, absent=frozenset({"gc"}))
BAD = HostClock("node-0001", offset_s=0.02, drift_ppm=100.0, jump_s=-0.005, jump_step=7)


def last_ends_us(*mechanisms: HostClocks) -> np.ndarray:
    """Unix time of the end of each worker's last op in each step, shape (step, dp_rank). [us]"""
    rows = generate_job(SHAPE, mechanisms, seed=1).rank_steps.sort_by(
        [("step", "ascending"), ("dp_rank", "ascending")]
    )
    ends = [
        row["t0_us"] + max(s + d for s, d in zip(row["start_us"], row["duration_us"], strict=True))
        for row in rows.to_pylist()
    ]
    return np.array(ends).reshape(-1, 2)


def test_offset_drift_and_jump() -> None:
    true_us, found_us = last_ends_us(), last_ends_us(HostClocks((BAD,)))
    since_s = (true_us[:, 1] - true_us[0, 1]) * 1e-6
    ahead_s = 0.02 + 100e-6 * since_s - 0.005 * (np.arange(12) >= 7)
    assert np.abs(found_us[:, 0] - true_us[:, 0]).max() < 2.0
    assert np.abs((found_us[:, 1] - true_us[:, 1]) * 1e-6 - ahead_s).max() < 1e-4


def test_the_truth_names_the_clocks_and_costs_nothing() -> None:
    (found,) = true_savings(Simulation(JobPlan(SHAPE, [HostClocks((BAD,))], seed=1))).mechanisms
    assert (found["culprits"], found["time_saved_fraction"]) == ({"hosts": ["node-0001"]}, 0.0)


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
    """On 12 hosts, the simulator corrects each kind of clock error that would change the slowdown."""
    found = judge(8, skew, most_ops=6_000)
    assert found is not None
    assert found["ignored_error"] > 1e-3
    assert found["error"] < 1e-3
    assert found["causes_kept"]
