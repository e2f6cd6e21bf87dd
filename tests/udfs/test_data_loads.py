"""Data-loads overlap computes, and only the forward of the same microbatch waits for a data-load."""

from typing import Any

import pyarrow as pa
import pytest

from jobs.synthetic.shape import Workload
from schemas.vocabulary import OP_CODES
from tests.support.random_jobs import LAYOUTS, generate_job
from tests.udfs.lines import Ops, line, manifest, rank_steps
from tests.udfs.reference import STREAMS, assert_equal_results, oracle_of
from udfs.what_if import SimulationSettings, simulate_job

LOAD = OP_CODES["data-load"]


def simulated(*ops: Ops) -> dict[str, Any]:
    """Simulate a job of one worker; `ops` has a list of ops for each step."""
    found = simulate_job(rank_steps(*(line(step, 0, 0, each) for step, each in enumerate(ops))), manifest())
    (job,) = found["job_slowdown"].to_pylist()
    types = {row["op_type"]: row["slowdown"] for row in found["op_type_slowdown"].to_pylist()}
    return {**job, "op_types": types}


def test_a_forward_waits_for_the_load_of_its_microbatch_and_for_no_other() -> None:
    computes: Ops = [
        ("forward-compute", 1, 1, 1),
        ("forward-compute", 5, 1, 0),
        ("backward-compute", 6, 1, 1),
        ("backward-compute", 7, 1, 0),
    ]
    loads: Ops = [("data-load", 0, 1, 1), ("data-load", 1, 4, 0), ("data-load", 5, 1, 9)]
    assert simulated([*computes, *loads])["simulated_step_s"] == 8.0


def test_of_several_chunks_the_first_waits_for_the_load() -> None:
    """With several chunks, the forward of the first chunk waits for the load of its microbatch."""
    chunks: Ops = [("forward-compute", 0, 1, 0, 0), ("forward-compute", 1, 1, 0, 1)]
    found = simulated([*chunks, ("data-load", 0, 3, 0)])
    assert (found["simulated_step_s"], found["clamped_launch_delays"]) == (5.0, 1)


def test_a_load_is_of_its_chunk_where_that_has_the_microbatch() -> None:
    """If a load states a chunk, the forward of that chunk waits for it."""
    chunks: Ops = [("forward-compute", 0, 1, 0, 0), ("forward-compute", 3, 1, 0, 1)]
    assert simulated([*chunks, ("data-load", 0, 3, 0, 1)])["simulated_step_s"] == 4.0


def test_loads_run_one_after_the_other_and_wait_for_no_compute() -> None:
    """Loads that run ahead of the computes wait for the previous load, and for no compute."""
    found = simulated(
        [("forward-compute", 0, 1, 7), ("data-load", 1, 2, 8), ("data-load", 3, 3, 9)],
    )
    assert (found["actual_step_s"], found["simulated_step_s"]) == (6.0, 5.0)


def test_loads_in_turn_with_computes_stay_between_them() -> None:
    """Loads that take turns with computes stay between them: 2 + 1 + 2 + 1 s in all."""
    computes: Ops = [("forward-compute", 2, 1, 0), ("forward-compute", 5, 1, 1)]
    in_turn: Ops = [("data-load", 0, 2, 0), ("data-load", 3, 2, 1)]
    ahead: Ops = [("data-load", 0, 2, 0), ("data-load", 2.9, 2.1, 1)]
    assert simulated([*computes, *in_turn])["simulated_step_s"] == 6.0
    assert simulated([*computes, *ahead])["simulated_step_s"] == pytest.approx(5.1)


def test_a_load_that_waited_for_the_load_before_it_runs_ahead() -> None:
    """A load that starts right after the previous load counts as running ahead, however late it is."""
    computes: Ops = [("forward-compute", 0, 1, 0), ("forward-compute", 5, 1, 1), ("forward-compute", 6, 1, 2)]
    loads: Ops = [("data-load", 0, 4, 1), ("data-load", 4, 1, 2)]
    assert simulated([*computes, *loads])["simulated_step_s"] == 6.0


def test_loads_alone_are_replayed() -> None:
    assert simulated([("data-load", 0, 2, 0), ("data-load", 2, 1, 0)])["simulated_step_s"] == 3.0


def test_their_ideal_is_the_mean_and_their_slowdown_separate() -> None:
    loads: Ops = [
        ("data-load", 0, 4, 0),
        ("data-load", 4, 0, 1),
        ("data-load", 4, 2, 2),
        ("data-load", 6, 0, 3),
    ]
    forwards: Ops = [("forward-compute", 4 + place, 1, place) for place in range(4)]
    found = simulated([*loads, *forwards])
    assert (found["simulated_step_s"], found["ideal_step_s"]) == (8.0, 7.0)
    assert found["op_types"] == {"forward-compute": 1.0, "data-load": 8 / 7}


def rows_with_other_microbatches(rank_steps_: pa.Table) -> pa.Table:
    """Return the job with other microbatch numbers in some rows, and loads with another chunk or none."""
    rows = rank_steps_.to_pylist()
    for number, row in enumerate(rows):
        row["microbatch"] = [each + 100 * (number % 2) for each in row["microbatch"]]
        if number % 3 == 0:
            loads = [place for place, code in enumerate(row["op"]) if code == LOAD]
            row["microbatch"][loads[0]] = -5
        if number % 4 == 0:
            row["model_chunk"] = [
                1 if code == LOAD else chunk
                for code, chunk in zip(row["op"], row["model_chunk"], strict=True)
            ]
    return pa.Table.from_pylist(rows, schema=rank_steps_.schema)


@pytest.mark.parametrize("ops_together", [1, 10**12])
@pytest.mark.parametrize("name", [name for name in LAYOUTS if name.startswith("data_loads")])
def test_against_the_reference_where_rows_name_microbatches_otherwise(name: str, ops_together: int) -> None:
    slow = Workload(usual_s={"data-load": 0.08, "forward-send": 0.01}, noise=0.3)
    job = generate_job(LAYOUTS[name], [], seed=11, workload=slow)
    rows = rows_with_other_microbatches(job.rank_steps)
    found = simulate_job(rows, job.manifest | STREAMS, SimulationSettings(ops_together=ops_together))
    assert_equal_results(found, oracle_of(rows, job.manifest))
    types = {row["op_type"]: row["slowdown"] for row in found["op_type_slowdown"].to_pylist()}
    assert types["data-load"] > 1.01
