"""For each op of a step, the timeline has the times of the result tables and the facts of the log."""

import pytest

from schemas.vocabulary import OP_TYPES, STEP_SLOWDOWN
from tests.support.random_jobs import LAYOUTS, named_job
from tests.udfs.lines import Ops, line, manifest, rank_steps
from udfs.errors import NoSuchStepError, NothingToReplayError
from udfs.timeline.timelines import IDEAL, KINDS, RECORDED, REPLAYED, StepTimelines, step_timelines
from udfs.what_if import SimulationSettings, simulate_job

JOBS = {name: named_job(name) for name in (*LAYOUTS, "disagreeing")}


@pytest.mark.parametrize("ops_together", [1_000_000, 300])
@pytest.mark.parametrize("name", JOBS)
def test_step_times_are_those_of_the_results(name: str, ops_together: int) -> None:
    job = JOBS[name]
    for row in simulate_job(job.rank_steps, job.manifest)[STEP_SLOWDOWN].to_pylist():
        found = step_timelines(
            job.rank_steps, job.manifest, row["step"], SimulationSettings(ops_together=ops_together)
        )
        column_of = {RECORDED: "actual_step_s", REPLAYED: "simulated_step_s", IDEAL: "ideal_step_s"}
        for kind in KINDS:
            assert found.step_s(kind) == pytest.approx(row[column_of[kind]], rel=1e-12)


def test_the_slowest_step_is_taken_where_none_is_named() -> None:
    job = JOBS["disagreeing"]
    rows = simulate_job(job.rank_steps, job.manifest)[STEP_SLOWDOWN].to_pylist()
    slowest = max(rows, key=lambda row: row["simulated_step_s"])
    assert step_timelines(job.rank_steps, job.manifest).step == slowest["step"]


def two_stages(step: int, **more: object) -> list[dict[str, object]]:
    """Return two microbatches through two stages, with forwards and transfers of 1 s.

    The first recv begins with the step and waits for its send. The second send waits for its recv, which
    is called last.
    """
    first: Ops = [
        ("forward-compute", 0, 1, 7, 0),
        ("forward-compute", 1, 1, 9, 0),
        ("forward-send", 1, 1),
        ("forward-send", 2, 2),
    ]
    last: Ops = [
        ("forward-recv", 0, 2),
        ("forward-recv", 3, 1),
        ("forward-compute", 2, 1, 7, 0),
        ("forward-compute", 4, 1, 9, 0),
    ]
    return [line(step, 0, 0, first, host="a", **more), line(step, 0, 1, last, **more)]


def drawn() -> StepTimelines:
    return step_timelines(rank_steps(*two_stages(3), *two_stages(5)), manifest(pp_size=2), 5)


def test_facts_of_ops() -> None:
    found = drawn()
    column_of = {
        (
            OP_TYPES[found.op_type[op]],
            int(found.facts["pp_rank"][op, 0]),
            int(found.facts["microbatch"][op, 0]),
        )
        for op in range(found.ops)
    }
    assert column_of == {
        ("forward-compute", 0, 7),
        ("forward-compute", 0, 9),
        ("forward-send", 0, 7),
        ("forward-send", 0, 9),
        ("forward-recv", 1, 7),
        ("forward-recv", 1, 9),
        ("forward-compute", 1, 7),
        ("forward-compute", 1, 9),
    }
    assert {found.hosts[host] for host in found.facts["host"][found.facts["pp_rank"] == 0]} == {"a"}
    assert set(found.facts["host"][found.facts["pp_rank"] == 1].tolist()) == {-1}


def test_a_drawn_step() -> None:
    """The critical path of a drawn step of 5 s is forward, transfer, forward, transfer, forward."""
    found = drawn()
    assert [found.step_s(kind) for kind in KINDS] == [5.0, 5.0, 5.0]
    path = [
        (OP_TYPES[found.op_type[op]], int(found.facts["microbatch"][op, lane]), each.from_s)
        for each in found.critical[RECORDED]
        for op, lane in [each.place]
    ]
    assert path == [
        ("forward-compute", 7, 0.0),
        ("forward-recv", 7, 1.0),
        ("forward-compute", 7, 2.0),
        ("forward-recv", 9, 3.0),
        ("forward-compute", 9, 4.0),
    ]
    pairs = {(OP_TYPES[found.op_type[s]], OP_TYPES[found.op_type[r]]) for (s, _), (r, _) in found.peers}
    assert (pairs, len(found.peers)) == ({("forward-send", "forward-recv")}, 2)


def test_a_recorded_path_follows_the_compute_behind_which_a_transfer_was_called() -> None:
    """The path through recorded times follows the compute after which the host called a transfer."""
    first: Ops = [
        ("forward-compute", 0, 1, 7, 0),
        ("forward-compute", 1, 1, 9, 0),
        ("forward-send", 1, 1),
        ("forward-send", 2, 5),
    ]
    last: Ops = [
        ("forward-recv", 0, 2),
        ("forward-compute", 2, 1, 7, 0),
        ("backward-compute", 3, 3, 7, 0),
        ("forward-recv", 6, 1),
        ("forward-compute", 7, 1, 9, 0),
    ]
    found = step_timelines(rank_steps(line(0, 0, 0, first), line(0, 0, 1, last)), manifest(pp_size=2))
    names = [OP_TYPES[found.op_type[each.place[0]]] for each in found.critical[RECORDED]]
    assert names == [
        "forward-compute",
        "forward-recv",
        "forward-compute",
        "backward-compute",
        "forward-recv",
        "forward-compute",
    ]


def test_a_step_that_is_not_there() -> None:
    with pytest.raises(
        NoSuchStepError, match="no step 4 among the 2 complete ones, 3 to 5: next to it are 3, 5"
    ):
        step_timelines(rank_steps(*two_stages(3), *two_stages(5)), manifest(pp_size=2), 4)
    lonely = two_stages(4)[:1]
    with pytest.raises(NoSuchStepError, match="; 1 recorded ones lack a worker"):
        step_timelines(rank_steps(*two_stages(3), *lonely), manifest(pp_size=2), 4)
    with pytest.raises(NothingToReplayError, match="missing_workers: none of 1 steps"):
        step_timelines(rank_steps(*lonely), manifest(pp_size=2))
