"""The true exposed communication equals hand-made values, and the simulator's figure is close to it."""

import json

import pytest

from jobs.synthetic.simulation import JobPlan, Simulation
from tests.evaluation.exposed import judge, main, true_exposed_s
from tests.support.random_jobs import EXACT, PAIR


def test_ops_of_no_length_are_what_is_left_out() -> None:
    """If nothing overlaps a gather of 10 ms and a scatter of 20 ms, both are exposed in full."""
    simulation = Simulation(JobPlan(PAIR, [], seed=1, workload=EXACT))
    place = simulation.place
    rows = place.rows("params-all-gather"), place.rows("params-all-gather", "grads-reduce-scatter")
    assert [true_exposed_s(simulation, each) for each in rows] == pytest.approx([0.01, 0.03], abs=1e-9)
    assert true_exposed_s(simulation, place.rows("grads-reduce-scatter", pp_rank=0)) == pytest.approx(0.02)


def test_a_row_is_near_the_run_without_its_ops() -> None:
    """The reported exposed time of a row is close to what a rerun without the row's ops saves."""
    judged = judge(7009, most_ops=3_000)
    assert not judged[0]["is_batched"]
    assert {row["of"] for row in judged} >= {"all", "each stage", "forward-pp-comm"}
    assert all(abs(row["error"]) < 0.1 for row in judged)
    assert max(row["true"] for row in judged) > 1.0


def test_the_directions_of_calls_share_the_time() -> None:
    """If a recv blocks, a send in its call blocks too, and the exposed time of each direction is right."""
    judged = judge(303014, most_ops=3_000)
    assert judged[0]["is_batched"]
    error = {row["of"]: row["error"] for row in judged if row["of"].endswith("pp-comm")}
    assert error == pytest.approx({"forward-pp-comm": 0.0, "backward-pp-comm": 0.0}, abs=0.1)


def test_tables(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--jobs", "3", "--seed", "7000", "--most-ops", "2000", "--list-worst", "2"]
    assert main([*arguments, "--format", "json"]) == 0
    read = json.loads(capsys.readouterr().out)
    everything, calls, worst = (section["rows"] for section in read["sections"])
    assert read["heading"].startswith("3 generated jobs, of seeds 7000 to 70")
    assert {row["of"]: row["rows"] for row in everything}["all"] == 3
    assert sum(row["rows"] for row in calls) == sum(row["rows"] for row in everything)
    assert len(worst) == 2
