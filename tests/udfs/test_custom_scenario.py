"""Custom scenarios equal the simulator's own scenarios, and fixes of causes equal those of a night."""

import tracemalloc
from typing import Any

import pytest

from jobs.synthetic.job import GeneratedJob
from schemas.vocabulary import ALL_CAUSES, OP_TYPE_GROUPS, OP_TYPES
from tests.jobs.report.units import recorded_job
from tests.support.random_jobs import LAYOUTS, LONG, generate_job, named_job
from tests.udfs.lines import Ops, crossed_stages, line, manifest, rank_steps
from udfs.custom_scenario import (
    ALL_TOGETHER,
    Answer,
    Answers,
    cause_answers,
    replay_causes,
    replay_scenarios,
)
from udfs.errors import NothingToReplayError, PredicateError, TraceError
from udfs.what_if import SimulationSettings, simulate_job

SEEDS = range(12)
"""Seeds of random layouts, some of which have steps or dp ranks that disagree."""


def replica(step: int, dp_rank: int, second_s: float, slowest_s: float, **more: object) -> dict[str, Any]:
    """Return a replica with two forwards, of 1 s and `second_s`, two backwards of 2 s, and a reduce-scatter.

    The reduce-scatter takes 1 s after the slowest replica, whose second forward takes `slowest_s`, is
    ready.
    """
    ready_s, end_s = 1 + second_s + 4, 1 + slowest_s + 4 + 1
    ops: Ops = [
        ("forward-compute", 0, 1, 0),
        ("forward-compute", 1, second_s, 1),
        ("backward-compute", 1 + second_s, 2, 0),
        ("backward-compute", 3 + second_s, 2, 1),
        ("grads-reduce-scatter", ready_s, end_s - ready_s, -1),
    ]
    return line(step, dp_rank, 0, ops, **more)


SLOW_REPLICA = rank_steps(replica(7, 0, 1, 5, host="a"), replica(7, 1, 5, 5, host="b"))


@pytest.mark.parametrize(
    ("predicate", "factor", "ops", "step_s"),
    [
        ("FALSE", None, 0, 11.0),
        ("TRUE", None, 10, 9.0),
        ("op_type = 'forward-compute' AND microbatch = 1", None, 2, 1 + 2 + 4 + 1.0),
        ("dp_rank = 1", None, 5, 2 + 2 + 4 + 1.0),
        ("dp_rank = 0", None, 5, 11.0),
        ("host = 'b'", None, 5, 9.0),
        ("rank = 100", None, 5, 9.0),
        ("op_type = 'forward-compute'", 0.5, 4, 0.5 + 2.5 + 4 + 1),
        ("op_type = 'grads-reduce-scatter'", 0.5, 2, 10 + 0.5),
        ("op_type = 'grads-reduce-scatter' AND dp_rank = 0", 0.5, 1, 11.0),
        ("microbatch IS NULL", 2.0, 2, 10 + 2.0),
        ("NOT microbatch = 0", 0.0, 4, 1 + 2 + 1.0),
        ("TRUE", 2.0, 10, 22.0),
    ],
)
def test_a_slow_microbatch_on_one_of_two_replicas(
    predicate: str, factor: float | None, ops: int, step_s: float
) -> None:
    """Predicates choose the right ops of a slow replica, and their scenarios have the right step times.

    A factor scales the 1 s that the reduce-scatter takes, and never the wait for the later replica.
    """
    found = replay_scenarios(SLOW_REPLICA, manifest(dp_size=2, gpu_hours=110), [predicate], factor)
    assert (found.actual_step_s, found.simulated_step_s, found.ideal_step_s) == (11.0, 11.0, 9.0)
    assert (found.steps, found.ops, found.slowdown, found.ideal) == (1, 10, 11 / 9, "pooled-mean-median")
    saved = 11 - step_s
    assert found.answers == (
        Answer(predicate, ops, ops / 10, step_s, step_s / 9, saved, saved / 11, 110 * (saved / 11)),
    )


@pytest.mark.parametrize("ops_together", [20, 7])
def test_a_step_alone_and_a_worker_that_moves_to_another_host_and_rank(ops_together: int) -> None:
    """A predicate may choose one step alone, or a worker by a host or rank that it has only in some steps."""
    rows = rank_steps(
        replica(7, 0, 1, 5, host="a"),
        replica(7, 1, 5, 5, host="b"),
        replica(9, 0, 1, 1, host="b"),
        replica(9, 1, 1, 1, rank=101),
    )
    predicates = ["step = 7", "host = 'b'", "NOT host = 'b'", "rank = 101"]
    found = replay_scenarios(
        rows, manifest(dp_size=2), predicates, settings=SimulationSettings(ops_together=ops_together)
    )
    assert (found.simulated_step_s, found.ideal_step_s) == (9.0, 8.0)
    answers = {each.scenario: (each.ops, each.step_s) for each in found.answers}
    assert answers == {
        "step = 7": (10, (8 + 7) / 2),
        "host = 'b'": (10, (8 + 8) / 2),
        "NOT host = 'b'": (5, (11 + 7) / 2),
        "rank = 101": (5, (11 + 8) / 2),
        ALL_TOGETHER: (20, 8.0),
    }
    assert found.answers[0].gpu_hours_saved is None
    warm = replay_scenarios(rows, manifest(dp_size=2, warm_up_steps=1), ["rank = 101"])
    assert (warm.steps, warm.answers[0].ops) == (1, 5), "only step 9 is replayed"


def test_ops_that_two_predicates_choose_count_once_in_all_together() -> None:
    predicates = ["microbatch = 1", "dp_rank = 1", "microbatch = 1"]
    found = replay_scenarios(SLOW_REPLICA, manifest(dp_size=2), predicates, 0.5)
    assert [(each.scenario, each.ops) for each in found.answers] == [
        ("microbatch = 1", 4),
        ("dp_rank = 1", 5),
        (ALL_TOGETHER, 7),
    ]
    assert found.answers[-1].step_s == 0.5 + 2.5 + 1 + 1 + 1, (
        "ops of two predicates are halved once; replica 0 still transfers for 1 s"
    )


def all_but(job: GeneratedJob, recorded: dict[Any, str]) -> dict[Any, float]:
    """Return, by predicate, the slowdown if only the ops that it chooses keep their recorded times."""
    found = replay_scenarios(job.rank_steps, job.manifest, [f"NOT ({text})" for text in recorded.values()])
    slowdown = {each.scenario: each.slowdown for each in found.answers}
    return {key: slowdown[f"NOT ({text})"] for key, text in recorded.items()}


@pytest.mark.parametrize("job", [*LAYOUTS, *SEEDS])
def test_all_but_one_part_ideal_is_the_slowdown_of_that_part(job: str | int) -> None:
    made = named_job(job)
    tables = simulate_job(made.rank_steps, made.manifest)
    stages = {row["pp_rank"]: row["slowdown"] for row in tables["stage_slowdown"].to_pylist()}
    dp_ranks = {row["dp_rank"]: row["slowdown"] for row in tables["dp_rank_slowdown"].to_pylist()}
    op_types = {row["op_type"]: row["slowdown"] for row in tables["op_type_slowdown"].to_pylist()}
    members = {
        group: ", ".join(f"'{name}'" for name in OP_TYPES if OP_TYPE_GROUPS.get(name, name) == group)
        for group in op_types
    }
    workers = {
        (row["dp_rank"], row["pp_rank"]): row["slowdown"] for row in tables["worker_slowdown"].to_pylist()
    }
    assert all_but(made, {stage: f"pp_rank = {stage}" for stage in stages}) == pytest.approx(
        stages, rel=1e-12
    )
    assert all_but(made, {rank: f"dp_rank = {rank}" for rank in dp_ranks}) == pytest.approx(
        dp_ranks, rel=1e-12
    )
    assert all_but(made, {group: f"op_type IN ({names})" for group, names in members.items()}) == (
        pytest.approx(op_types, rel=1e-12)
    )
    assert all_but(
        made, {(dp, pp): f"dp_rank = {dp} AND pp_rank = {pp}" for dp, pp in workers}
    ) == pytest.approx(workers, rel=1e-12)


@pytest.mark.parametrize("ops_together", [10**9, 7])
@pytest.mark.parametrize("job", [*LAYOUTS, "disagreeing", *SEEDS])
def test_answers_are_measured_against_the_simulation(job: str | int, ops_together: int) -> None:
    made = named_job(job)
    (row,) = simulate_job(made.rank_steps, made.manifest)["job_slowdown"].to_pylist()
    found = replay_scenarios(
        made.rank_steps,
        made.manifest,
        ["FALSE", "TRUE"],
        settings=SimulationSettings(ops_together=ops_together),
    )
    names = ("actual_step_s", "simulated_step_s", "ideal_step_s", "slowdown")
    assert {name: getattr(found, name) for name in names} == pytest.approx(
        {name: row[name] for name in names}, rel=1e-12
    )
    assert (found.steps, found.ops, found.ideal) == (row["steps"], row["ops"], row["ideal"])
    nothing, everything, _ = found.answers
    assert (nothing.step_s, nothing.time_saved_s) == (found.simulated_step_s, 0.0)
    assert (everything.step_s, everything.slowdown, everything.ops_share) == (found.ideal_step_s, 1.0, 1.0)


def test_a_unit_in_blocks_keeps_only_durations() -> None:
    """A replay by blocks keeps only one array of durations, and the ops of one type, in memory."""
    job = generate_job(LONG, [], seed=3)
    peak_bytes = []
    for ops_together in (10**9, job.ops // LONG.steps):
        tracemalloc.start()
        settings = SimulationSettings(ops_together=ops_together)
        replay_scenarios(job.rank_steps, job.manifest, ["rank > 3", "microbatch = 1"], None, settings)
        peak_bytes.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    whole, parts = peak_bytes
    assert parts < 20 * job.ops < 35 * job.ops < whole


def ask(rows: list[dict[str, Any]], facts: dict[str, Any], predicate: str = "TRUE") -> Answers:
    return replay_scenarios(rank_steps(*rows), facts, [predicate])


def test_what_cannot_be_replayed_says_why() -> None:
    with pytest.raises(NothingToReplayError, match="missing_workers: none of 1 steps has all 2 x 1 workers"):
        ask([replica(7, 0, 1, 1)], manifest(dp_size=2))
    with pytest.raises(NothingToReplayError, match="no_ops: no rank recorded an op"):
        ask([], manifest())
    with pytest.raises(NothingToReplayError, match="bad_layout: world_size is missing"):
        ask([replica(7, 0, 1, 1)], {"dp_size": 1, "pp_size": 1, "tp_size": 1, "cp_size": 1, "vpp_size": 1})
    with pytest.raises(TraceError, match=r"step 8: .* wait for each other in a circle"):
        ask(crossed_stages(8), manifest(pp_size=2))
    with pytest.raises(TraceError, match="step 3: the replayed ops take no time at all"):
        ask([line(3, 0, 0, [("optimizer", 0, 0)])], manifest())
    with pytest.raises(TraceError, match=r"step 3: takes 1e\+15 s"):
        ask(
            [line(step, 0, 0, [("optimizer", 0, 1e15 if step == 3 else 1)]) for step in (3, 4, 5)], manifest()
        )
    with pytest.raises(PredicateError, match="no column stage"):
        ask([replica(7, 0, 1, 1)], manifest(), "stage = 1")


def test_the_answers_are_those_of_job_causes_and_all_causes_save_what_is_lost() -> None:
    job = recorded_job()
    found = replay_causes(job.rank_steps, job.manifest, ["pause", "slow_worker"], SimulationSettings())
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


def test_causes_of_a_stored_unit_are_answered_as_history_revised_them() -> None:
    job = recorded_job()
    tables = simulate_job(job.rank_steps, job.manifest)
    (unit,) = tables["job_slowdown"].to_pylist()
    revised = [
        row | ({"time_saved_fraction": 0.5, "attributed_fraction": 0.5} if row["cause"] == "pause" else {})
        for row in tables["job_causes"].to_pylist()
    ]
    pause, _ = cause_answers(unit, revised, ["pause"]).answers
    assert (pause.time_saved_fraction, pause.step_s) == (0.5, unit["actual_step_s"] / 2)


def test_a_unit_that_is_not_replayed_is_refused_with_its_status() -> None:
    with pytest.raises(NothingToReplayError, match="no_ops"):
        replay_causes(rank_steps(), manifest(dp_size=2), ["pause"], SimulationSettings())


def test_a_cause_that_the_log_cannot_show_has_no_answer() -> None:
    job = recorded_job()
    with pytest.raises(NothingToReplayError, match="mixed_hardware: the unit's log does not record"):
        replay_causes(job.rank_steps, job.manifest, ["pause", "mixed_hardware"], SimulationSettings())
