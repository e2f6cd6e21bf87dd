"""What other runs say of a unit: each conclusion with a unit where it must be drawn, and one where not."""

from collections.abc import Sequence

import pytest

from udfs.revise.history import Run, SlowHost, Stage, comparable, slow_stages, slow_transfers

TRANSFERS = {"forward-compute": 0.1, "backward-compute": 0.2, "forward-pp-comm": 0.002}


def run(
    compute_s: Sequence[float] = (1.0, 1.0, 1.0, 1.0),
    hosts: str = "abcd",
    ideal_step_s: float = 2.0,
    **op_types_s: float,
) -> Run:
    """A run whose stage p lies on the host named by the p-th letter; no letters, no hosts known."""
    places = [frozenset(host) for host in hosts] or [frozenset[str]()] * len(compute_s)
    stages = [Stage(time_s, on) for time_s, on in zip(compute_s, places, strict=True)]
    named = {name.replace("_", "-"): time_s for name, time_s in op_types_s.items()}
    return Run(100.0, ideal_step_s, stages, TRANSFERS | named)


ELSEWHERE = [run(hosts="efgh"), run(hosts="ijkl")]


def test_a_stage_that_others_run_faster_is_slow() -> None:
    found = slow_stages(run([1.0, 1.5, 1.0, 1.0]), ELSEWHERE, {}, 2)
    assert found is not None
    assert (found.factors, found.saved_s, found.kept, found.runs) == ({1: 1.5}, 0.5, 0.0, 2)


def test_a_stage_that_is_as_heavy_on_other_hosts_is_heavy() -> None:
    heavy = [1.0, 1.0, 1.0, 1.5]
    found = slow_stages(run(heavy), [run(heavy, "efgh"), run(heavy, "ijkl")], {}, 2)
    assert found is not None
    assert (found.factors, found.saved_s, found.kept) == ({}, 0.0, 1.0)


def test_a_stage_that_is_as_heavy_on_the_same_hosts_may_be_either() -> None:
    heavy = [1.0, 1.0, 1.0, 1.5]
    assert slow_stages(run(heavy), [run(heavy), run(heavy)], {}, 2) is None
    assert slow_stages(run(heavy, ""), [run(heavy, "efgh"), run(heavy, "ijkl")], {}, 2) is None


def test_a_host_that_became_slow_is_found_by_its_earlier_days() -> None:
    found = slow_stages(run([1.0, 1.0, 1.4, 1.0]), [run(), run()], {}, 2)
    assert found is not None
    assert found.factors == {2: 1.4}


def test_one_run_is_no_history() -> None:
    assert slow_stages(run([1.0, 1.5, 1.0, 1.0]), ELSEWHERE[:1], {}, 2) is None


def test_more_work_for_all_stages_is_no_slow_host() -> None:
    found = slow_stages(run([1.3, 1.3, 1.3, 1.3]), ELSEWHERE, {}, 2)
    assert found is not None
    assert found.factors == {}


def test_a_host_that_was_slow_then_makes_no_other_slow_now() -> None:
    sick_then = [run([1.0, 1.5], "ef"), run([1.0, 1.5], "gh")]
    found = slow_stages(run([1.0, 1.0], "ab"), sick_then, {}, 2)
    assert found is not None
    assert found.factors == {}


def test_the_heavy_part_of_a_heavy_and_slow_stage_remains() -> None:
    heavy = [run([1.0, 2.0], "ef"), run([1.0, 2.0], "gh")]
    found = slow_stages(run([1.0, 3.0], "ab"), heavy, {}, 2)
    assert found is not None
    assert (found.factors, found.saved_s, found.kept) == ({1: 1.5}, 1.0, 0.5)


def test_a_heavy_stage_on_a_slow_host_is_slow_as_far_as_in_other_jobs() -> None:
    found = slow_stages(run([1.0, 1.0, 1.5, 1.0]), [], {"c": SlowHost(3, 0.25)}, 2)
    assert found is not None
    assert (found.factors, found.jobs) == ({2: 1.25}, 3)
    assert found.saved_s == pytest.approx(0.3)


@pytest.mark.parametrize("hosts", ["abac", "abcd"])
def test_a_slow_host_is_no_excuse_for_stages_elsewhere(hosts: str) -> None:
    """Host a holds two stages of which one is heavy; host d holds none that is."""
    slow = {"a": SlowHost(3, 0.25)} if hosts == "abac" else {"d": SlowHost(3, 0.25)}
    assert slow_stages(run([1.0, 1.0, 1.5, 1.0], hosts), [], slow, 2) is None


def test_a_whole_job_on_one_slow_host() -> None:
    others = [run([1.0, 1.0], "ee"), run([1.0, 1.0], "ff")]
    found = slow_stages(run([1.4, 1.4], "aa", 2.8), others, {}, 2)
    assert found is not None
    assert (found.factors, found.kept) == ({0: 1.4, 1: 1.4}, 1.0)
    assert found.saved_s == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("unit", "on"),
    [
        (run([1.4, 1.4], "aa", 2.8, forward_pp_comm=0.003), "ef"),
        (run([1.4, 1.4], "ab", 2.8), "ef"),
        (run([1.4, 1.4], "aa", 2.8), "aa"),
    ],
    ids=["slower transfers too", "two hosts", "same host"],
)
def test_a_whole_job_with_more_to_do(unit: Run, on: str) -> None:
    others = [run([1.0, 1.0], on), run([1.0, 1.0], on)]
    found = slow_stages(unit, others, {}, 2)
    assert found is None or found.factors == {}


def test_transfers_slower_than_on_other_days() -> None:
    found = slow_transfers(run(ideal_step_s=2.5, forward_pp_comm=0.02), ELSEWHERE, 2)
    assert found is not None
    assert found.factor == pytest.approx(10.0)
    assert (found.saved_s, found.runs) == (0.5, 2)


def test_transfers_as_on_other_days_cost_nothing_more() -> None:
    found = slow_transfers(run(ideal_step_s=2.5, forward_pp_comm=0.003), ELSEWHERE, 2)
    assert found is not None
    assert found.saved_s == 0.0


@pytest.mark.parametrize(
    "unit",
    [
        run(forward_pp_comm=0.02, forward_compute=0.15, ideal_step_s=2.5),
        Run(100.0, 2.5, run().stages, {"forward-compute": 0.1}),
    ],
    ids=["other work", "no transfers"],
)
def test_transfers_that_cannot_be_compared(unit: Run) -> None:
    assert slow_transfers(unit, ELSEWHERE, 2) is None
    assert slow_transfers(run(forward_pp_comm=0.02), ELSEWHERE[:1], 2) is None


def test_runs_of_more_microbatches_or_stages_are_not_compared() -> None:
    more_ops, fewer_stages = run()._replace(ops_per_step=112.0), run([1.0], "a")
    assert comparable(run(), [more_ops, fewer_stages, *ELSEWHERE]) == ELSEWHERE


IDLE = run([0.0, 1.0, 1.0, 1.0], forward_pp_comm=0.02)


def test_stages_that_compute_nothing_are_left_out() -> None:
    slow = run([1.0, 1.5, 1.0, 1.0])
    assert slow_stages(slow, [IDLE, IDLE], {}, 2) is None
    assert slow_stages(slow, [IDLE, *ELSEWHERE], {}, 2) == slow_stages(slow, ELSEWHERE, {}, 2)
    assert slow_stages(IDLE, ELSEWHERE, {"b": SlowHost(3, 0.25)}, 2) is None


def test_a_unit_whose_steps_take_no_time_could_save_none() -> None:
    assert slow_transfers(Run(100.0, 0.0, IDLE.stages, {"forward-pp-comm": 0.0}), ELSEWHERE, 2) is None
