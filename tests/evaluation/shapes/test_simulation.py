"""The simulation gives orders of ops, ends, step times and costs of faults that were computed by hand."""

from dataclasses import replace

import numpy as np
import pytest

from tests.evaluation.shapes.draw import SEVERAL, Job, draw_job
from tests.evaluation.shapes.faults import (
    ALWAYS,
    BOTH,
    COMES_AND_GOES,
    FROM,
    ONSETS,
    STAGE,
    WORKER,
    Fault,
    draw_strength,
    slow_computes,
    uneven_data,
    uneven_layers,
)
from tests.evaluation.shapes.layout import (
    BACKWARD,
    FORWARD,
    Layout,
    hosts,
    order_of_computes,
)
from tests.evaluation.shapes.noise import GAUSSIAN, SKEWED, draw_times
from tests.evaluation.shapes.recorded import Recorded, step_times
from tests.evaluation.shapes.timeline import LAUNCH_S, Pipeline
from tests.evaluation.shapes.times import changed, even_times
from tests.evaluation.shapes.truth import recorded, truth, unit, why_undecidable
from udfs.what_if import simulate_job

F_S, B_S = 0.010, 0.020


def layout_of(dp: int, pp: int, vpp: int = 1, microbatches: int = 4, steps: int = 12) -> Layout:
    return Layout(dp, pp, vpp, microbatches, hosts(dp, pp, 2, is_along_stages=True), np.arange(steps))


def ends_of(recorded: Recorded, op: str) -> list[np.ndarray]:
    return [end_s for name, end_s in zip(recorded.op, recorded.end_s, strict=True) if name == op]


def step_s(layout: Layout, *faults: Fault) -> float:
    times = changed(even_times(layout, F_S, B_S), [fault.change for fault in faults])
    return float(step_times(Pipeline(layout, times).run()).mean())


def slow(layout: Layout, direction: str, onset: str, size: float, *workers: tuple[int, int]) -> Fault:
    strength = draw_strength(onset, layout.steps, np.random.default_rng(0))
    reach = WORKER if len(workers) == 1 else STAGE
    return slow_computes(layout, frozenset(workers), reach, (direction, onset, size), strength)


def job_with(layout: Layout, *faults: Fault) -> Job:
    return Job(0, SEVERAL, GAUSSIAN, layout, even_times(layout, F_S, B_S), faults)


def test_one_forward_one_backward_after_the_warm_up() -> None:
    first, last = (order_of_computes(layout_of(1, 3), stage) for stage in (0, 2))
    assert "".join("FB"[direction] for direction, _, _ in first) == "FFFBFBBB"
    assert "".join("FB"[direction] for direction, _, _ in last) == "FBFBFBFB"
    assert [microbatch for direction, _, microbatch in first if direction == BACKWARD] == [0, 1, 2, 3]


def test_chunks_take_turns_in_groups_of_as_many_microbatches_as_stages() -> None:
    order = order_of_computes(layout_of(1, 2, vpp=2), 0)
    forwards = [(chunk, microbatch) for direction, chunk, microbatch in order if direction == FORWARD]
    assert forwards == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3)]
    backwards = [(chunk, microbatch) for direction, chunk, microbatch in order if direction == BACKWARD]
    assert backwards == [(1 - chunk, microbatch) for chunk, microbatch in forwards]


@pytest.mark.parametrize("is_early", [False, True])
@pytest.mark.parametrize("is_buffered", [False, True])
def test_a_pipeline_takes_its_microbatches_and_one_more_a_stage(is_early: bool, is_buffered: bool) -> None:
    layout = replace(layout_of(1, 3), is_early=is_early, is_buffered=is_buffered)
    assert step_s(layout) == pytest.approx((4 + 2) * (F_S + B_S), abs=60 * LAUNCH_S)


def test_a_virtual_pipeline_has_a_shorter_bubble() -> None:
    layout = layout_of(1, 2, vpp=2)
    assert step_s(layout) == pytest.approx((2 * 4 + 1) * (F_S + B_S), abs=100 * LAUNCH_S)


def test_who_meets_ends_together() -> None:
    layout = layout_of(3, 3)
    ran = Pipeline(layout, draw_times(layout, SKEWED, np.random.default_rng(3))).run()
    for stage in ran:
        for op in ("params-all-gather", "grads-reduce-scatter"):
            assert ends_of(stage, op)
            assert all(np.ptp(end_s, axis=1).max() == 0 for end_s in ends_of(stage, op))
    sends, receives = ends_of(ran[0], "forward-send"), ends_of(ran[1], "forward-recv")
    np.testing.assert_array_equal(np.stack(sends), np.stack(receives))
    first, last = (ends_of(ran[stage], "embedding-grads-all-reduce")[0] for stage in (0, -1))
    np.testing.assert_array_equal(first, last)


def test_a_slow_worker_without_a_pipeline_costs_what_its_own_computes_do() -> None:
    layout = layout_of(4, 1)
    found = truth(job_with(layout, slow(layout, "backward", ALWAYS, 1.5, (0, 2))))
    assert found.lost_fraction == pytest.approx(1 - (F_S + B_S) / (F_S + 1.5 * B_S), abs=1e-2)
    assert found.beside_fraction == found.alone_fraction == (found.lost_fraction,)
    assert found.undecidable == ("",)


def test_a_worker_hidden_behind_a_slower_one_saves_nothing_beside_it() -> None:
    layout = layout_of(4, 1)
    faults = (slow(layout, BOTH, ALWAYS, 1.2, (0, 1)), slow(layout, BOTH, ALWAYS, 1.5, (0, 2)))
    found = truth(job_with(layout, *faults))
    assert found.beside_fraction == pytest.approx((0, 1 - 1.2 / 1.5), abs=1e-2)
    assert found.alone_fraction == pytest.approx((1 - 1 / 1.2, 1 - 1 / 1.5), abs=1e-2)
    assert found.undecidable[0] == "saves too little"


def test_uneven_work_is_the_same_work() -> None:
    layout = layout_of(3, 4)
    strength = (np.arange(12) % 2).astype(float)
    data = uneven_data(layout, COMES_AND_GOES, 0.4, strength, np.random.default_rng(1))
    weight = data.change.factor["compute"][0, 0, 0]
    np.testing.assert_allclose(weight.mean(axis=(0, 2)), 1)
    assert weight[:, 0].std() == 0
    assert weight[:, 1].std() > 0.2
    layers = uneven_layers(layout, np.array([1.0, 1.0, 1.0, 1.6]))
    assert layers.change.factor["compute"].mean() == pytest.approx(1)
    assert layers.workers == {(3, 0), (3, 1), (3, 2)}


def test_onsets_have_their_shapes_and_leave_healthy_steps() -> None:
    rng = np.random.default_rng(2)
    for onset in ONSETS:
        strength = draw_strength(onset, 12, rng)
        assert strength.max() == 1
        assert (strength[0] == 0) == (onset in (FROM, "grows") or strength[0] < 1)
        assert onset == ALWAYS or np.count_nonzero(strength == 0) >= (1 if onset == "grows" else 3)


@pytest.mark.parametrize(
    ("shape", "onset", "workers", "why"),
    [
        ((4, 2), ALWAYS, [(0, 1)], ""),
        ((4, 2), ALWAYS, [(0, 0), (0, 1)], ""),
        ((4, 2), ALWAYS, [(0, 0), (0, 1), (0, 2)], "most of a stage is slow, always"),
        ((4, 2), FROM, [(0, 0), (0, 1), (0, 2)], ""),
        ((1, 4), ALWAYS, [(2, 0)], "most of a stage is slow, always"),
        ((1, 4), FROM, [(2, 0)], ""),
        ((1, 2), FROM, [(0, 0), (1, 0)], "the whole job is slow"),
    ],
)
def test_peers_decide_or_else_time(
    shape: tuple[int, int], onset: str, workers: list[tuple[int, int]], why: str
) -> None:
    layout = layout_of(*shape)
    fault = slow(layout, BOTH, onset, 1.5, *workers)
    assert why_undecidable(layout, fault, (fault,)) == why


def test_a_heavy_stage_is_known_by_replicas_on_several_hosts() -> None:
    weight = np.array([1.0, 1.5])
    for dp, why in ((1, "one replica"), (2, "a host holds a stage"), (4, "")):
        of_few = layout_of(dp, 2)
        heavy = uneven_layers(of_few, weight)
        assert why_undecidable(of_few, heavy, (heavy,)) == why
    layout = layout_of(4, 2)
    fault = uneven_layers(layout, weight)
    everyone = slow(layout, "forward", ALWAYS, 1.2, *((1, dp_rank) for dp_rank in range(4)))
    assert why_undecidable(layout, fault, (fault, everyone)) == "a stage is slow always"


@pytest.mark.parametrize("seed", [1, 4, 7, 9, 17, 44, 58])
def test_the_simulator_reads_the_rows_and_agrees_on_the_step_time(seed: int) -> None:
    job = draw_job(seed)
    (summary,) = simulate_job(*unit(job))["job_slowdown"].to_pylist()
    assert summary["status"] in ("analysed", "high_discrepancy")
    assert summary["actual_step_s"] == pytest.approx(step_times(recorded(job, job.faults)).mean(), rel=1e-9)
    assert summary["steps"] == job.layout.steps


def test_a_seed_is_one_job() -> None:
    one, other = (unit(draw_job(28))[0] for _ in range(2))
    assert one.equals(other)
    assert not one.equals(unit(draw_job(27))[0])


@pytest.mark.parametrize(("size", "why"), [(1.1, "uneven data hide it"), (1.5, "")])
def test_slow_replicas_must_stand_out_of_uneven_data(size: float, why: str) -> None:
    layout = layout_of(4, 1)
    data = uneven_data(layout, ALWAYS, 0.4, np.ones(layout.steps), np.random.default_rng(0))
    fault = slow(layout, BOTH, ALWAYS, size, (0, 1))
    assert why_undecidable(layout, fault, (fault, data)) == why
    one_way = slow(layout, "forward", ALWAYS, size, (0, 1))
    assert why_undecidable(layout, one_way, (one_way, data)) == ""
