"""The difference of two runs' step times is divided into parts as by hand, and the parts add up to it."""

from dataclasses import replace

import pyarrow as pa
import pytest

from jobs.synthetic.job import recorded_job
from jobs.synthetic.simulation import JobPlan, Simulation
from tests.support.random_jobs import LAYOUTS
from tests.udfs.lines import Ops, line, manifest, rank_steps
from udfs.kernel.replay.other_times import Match
from udfs.two_runs import OTHERS, Divided, ReadRun, divided, read_run


def replicas(*forward_s: float, scatter_s: float = 1.0, hosts: str = "ab") -> ReadRun:
    """Return replicas with the given forwards, which start their reduce-scatter when the last is done."""
    lines = []
    for step in (3, 4):
        for dp_rank, each_s in enumerate(forward_s):
            ops: Ops = [
                ("forward-compute", 0, each_s),
                ("grads-reduce-scatter", each_s, max(forward_s) - each_s + scatter_s),
            ]
            lines.append(line(step, dp_rank, 0, ops, host=f"node-{hosts[dp_rank % 2]}"))
    return read_run(rank_steps(*lines), manifest(dp_size=len(forward_s)))


def generated(shape: str, seed: int) -> ReadRun:
    job = recorded_job(Simulation(JobPlan(LAYOUTS[shape], seed=seed)))
    return read_run(job.rank_steps, job.manifest)


def test_what_is_slower_is_named_by_type_and_host() -> None:
    """The comparison states by how many seconds each op type and each host is slower in the second run."""
    found = divided([replicas(1, 1)], [replicas(1, 3, scatter_s=1.5)])
    assert (found.match, found.first_s, found.second_s, found.matched_s) == (Match.WORKERS, 2.0, 4.5, 2.0)
    assert found.by_op_type == pytest.approx({"forward-compute": 2.0, "grads-reduce-scatter": 0.5})
    # The scatter runs on both hosts and ends when both are done, so both share its additional 0.5 s.
    assert sum(found.by_host.values()) == pytest.approx(2.5)
    assert found.by_host["node-b"] == pytest.approx(2.25)
    assert found.by_stage == {}


def test_a_host_in_another_ones_place_says_so() -> None:
    found = divided([replicas(1, 1)], [replicas(1, 3, hosts="ax")])
    assert found.by_host == pytest.approx({"node-x (was node-b)": 2.0})


def test_a_run_is_not_slower_than_itself() -> None:
    run = generated("usual", 5)
    found = divided([run], [run])
    assert (found.second_s, found.matched_s) == (found.first_s, found.first_s)
    assert found.by_op_type == {OTHERS: 0.0}


@pytest.mark.parametrize("shape", ["usual", "virtual_pipeline", "data_loads", "no_pipeline"])
def test_parts_add_up(shape: str) -> None:
    found = divided([generated(shape, 1)], [generated(shape, 2)])
    for parts in (found.by_op_type, found.by_stage, found.by_host):
        if parts:
            assert sum(parts.values()) == pytest.approx(found.second_s - found.matched_s, abs=1e-12)
    # All ops take as long as in the first run on average; only which worker is slowest may differ.
    assert found.matched_s == pytest.approx(found.first_s, rel=0.01)


def test_several_days_are_pooled() -> None:
    """The ops of all days of a run are pooled before the two runs are compared."""
    found = divided([replicas(1, 1), replicas(2, 2)], [replicas(3, 3), replicas(3, 3)])
    assert found.first_s == 2.5
    assert found.second_s == 4.0
    assert found.by_op_type["forward-compute"] == pytest.approx(4.0 - found.matched_s)


def test_other_layouts_are_compared_as_far_as_their_ops_are_the_same() -> None:
    more = divided([replicas(1, 1)], [replicas(1, 1, 3)])
    assert (more.match, more.by_host) == (Match.STAGES, {})
    assert more.by_op_type["forward-compute"] == pytest.approx(2.0)
    other = divided([generated("two_stages", 1)], [generated("usual", 1)])
    assert (other.match, other.by_stage) == (Match.OP_TYPES, {})


def test_ops_that_only_one_run_has_keep_their_time() -> None:
    lines = [line(3, dp, 0, [("forward-compute", 0, 1), ("optimizer", 1, 2)], host="h") for dp in (0, 1)]
    longer = read_run(rank_steps(*lines), manifest(dp_size=2))
    found: Divided = divided([replicas(2, 2)], [longer])
    assert found.second_s == 3.0
    assert found.matched_s == 4.0
    assert found.by_op_type == pytest.approx({"forward-compute": -1.0})


def test_most_places_have_no_part_of_their_own() -> None:
    shape = replace(LAYOUTS["usual"], pp_size=20, microbatches=2)
    runs = [recorded_job(Simulation(JobPlan(shape, seed=seed))) for seed in (1, 2)]
    tables: list[pa.Table] = [each.rank_steps for each in runs]
    first, second = (read_run(rows, runs[0].manifest) for rows in tables)
    found = divided([first], [second])
    assert len(found.by_stage) == 17
    assert list(found.by_stage)[-1] == OTHERS
