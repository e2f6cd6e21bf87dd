"""Slow optimizers, clips and garbage collections, and late entries into collectives, are found."""

from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from jobs.synthetic.shape import JobShape
from tests.evaluation.blocking.draw import simulated_job
from tests.support.random_jobs import generate_job
from tests.udfs.kernel.diagnosis.kernel_jobs import Job, job_of
from tests.udfs.kernel.diagnosis.test_slow_links import job_of as pipeline_of
from tests.udfs.kernel.diagnosis.test_slow_links import times_of
from tests.udfs.lines import Ops, line, manifest, rank_steps
from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats
from udfs.kernel.diagnosis.block_times import BlockTimes
from udfs.kernel.diagnosis.own_ops import OwnOps, late_entries, own_ops, own_times, without_own
from udfs.what_if import simulate_job

SHAPE: Final = JobShape(dp_size=4, pp_size=2, microbatches=4, steps=10)
STEP_S: Final = 1.0
USUAL_S: Final = 0.1


@pytest.fixture
def job() -> Job:
    return job_of(generate_job(SHAPE, [], seed=1))


def block_with(job: Job, op_type: int, factor: Floats) -> BlockTimes:
    """Return a block in which ops of one type take 0.1 s times `factor`, shape (stage, step, dp_rank)."""
    (block,) = job.blocks()
    duration_s = block.duration_s.copy()
    for op, (of_op, stage) in enumerate(zip(block.graph.op_types, block.graph.stages, strict=True)):
        if of_op == op_type:
            duration_s[op] = USUAL_S * factor[stage]
        elif of_op in (ot.OPTIMIZER, ot.GC, ot.LAYERNORM_GRADS_ALL_REDUCE, ot.OPTIMIZER_CLIP_MAIN_GRAD):
            duration_s[op] = USUAL_S
    entries = block.entries._replace(delay_s=np.zeros_like(block.entries.delay_s))
    return block._replace(duration_s=duration_s, entries=entries)


def own(job: Job, block: BlockTimes) -> OwnOps:
    return own_ops([block], job.layout, np.full((2, 4), -1), STEP_S)


def test_a_worker_that_alone_collects_garbage_loses_what_that_takes(job: Job) -> None:
    """If only one worker collects garbage, it loses all of that time, because the usual time is near 0."""
    factor = np.full((2, 10, 4), 1e-5)
    factor[1, :, 2] = 2.0
    found = own(job, block_with(job, ot.GC, factor))
    lost_s = np.expm1(found.slow[ot.GC][1, :, 2]) * found.usual_s[ot.GC]
    np.testing.assert_allclose(lost_s, 2.0 * USUAL_S, rtol=0.02)


@pytest.mark.parametrize("op_type", [ot.OPTIMIZER, ot.OPTIMIZER_CLIP_MAIN_GRAD])
@pytest.mark.parametrize("first", [0, 4])
def test_an_op_that_is_slow_in_one_worker(job: Job, op_type: int, first: int) -> None:
    factor = np.ones((2, 10, 4))
    factor[1, first:, 2] = 1.5
    found = own(job, block_with(job, op_type, factor))
    assert set(found.slow) == {op_type}
    np.testing.assert_allclose(np.exp(found.slow[op_type]), factor)
    assert (found.pauses, found.late_s) == ({}, {})


@pytest.mark.parametrize("steps", [[2, 5, 9], [1, 3, 5, 7, 9]], ids=["some", "every second"])
def test_a_worker_that_collects_garbage_in_some_steps(job: Job, steps: list[int]) -> None:
    factor = np.zeros((2, 10, 4))
    factor[0, steps, 1] = 1.0
    block = block_with(job, ot.GC, factor)
    found = own(job, block)
    assert (set(found.slow), found.pauses) == ({ot.GC}, {})
    assert np.flatnonzero(found.slow[ot.GC][0, :, 1]).tolist() == steps
    (apart,) = own_times([block], job.layout, found)
    (fixed,) = without_own([block], [apart])
    gc = [op for op, each in enumerate(block.graph.op_types) if each == ot.GC]
    assert fixed.duration_s[gc].max() < 0.1 * USUAL_S


def test_what_all_workers_collect_in_the_same_step_is_a_plan(job: Job) -> None:
    factor = np.zeros((2, 10, 4))
    factor[:, 3] = 1.0
    found = own(job, block_with(job, ot.GC, factor))
    assert (found.slow, found.pauses, found.shared) == ({}, {}, {})


@pytest.mark.parametrize("steps", [10, 100])
def test_a_single_long_op_is_a_pause_by_what_it_takes_beyond_the_usual(steps: int) -> None:
    job = job_of(generate_job(replace(SHAPE, steps=steps), [], seed=1))
    factor = np.ones((2, steps, 4))
    factor[1, 6, 3] = 2.5
    block = block_with(job, ot.OPTIMIZER, factor)
    found = own_ops([block], job.layout, np.full((2, 4), -1), STEP_S)
    assert not found.slow
    np.testing.assert_allclose(found.pauses[ot.OPTIMIZER], USUAL_S * (factor - 1.0), atol=1e-12)


def test_parts_of_an_op_give_its_time_back_and_its_usual_time_without_them(job: Job) -> None:
    factor = np.ones((2, 10, 4))
    factor[1, 4:, 2], factor[0, 6, 3] = 1.5, 3.0
    block = block_with(job, ot.OPTIMIZER, factor)
    (apart,) = own_times([block], job.layout, own(job, block))
    again_s = apart.base_s * apart.slow * apart.shared + apart.pause_s
    np.testing.assert_allclose(again_s, block.duration_s[apart.ops], rtol=1e-12)
    (fixed,) = without_own([block], [apart])
    np.testing.assert_allclose(fixed.duration_s[apart.ops], USUAL_S, rtol=1e-12)


def test_a_worker_that_enters_a_collective_late(job: Job) -> None:
    """A worker that enters a collective 0.08 s late in the last five of ten steps is found."""
    block = block_with(job, ot.OPTIMIZER, np.ones((2, 10, 4)))
    place = next(row for row, op in enumerate(block.entries.ops.tolist()) if block.graph.stages[op] == 1)
    delay_s = block.entries.delay_s.copy()
    delay_s[place, 5:, 2] = 0.08
    block = block._replace(entries=block.entries._replace(delay_s=delay_s))
    found = own(job, block)
    op_type = int(block.entry_types[place])
    assert set(found.late_s) == {op_type}
    wanted = np.zeros((2, 10, 4))
    wanted[1, 5:, 2] = 0.08
    np.testing.assert_allclose(found.late_s[op_type], wanted, atol=1e-12)
    (late,) = late_entries([block], job.layout, found)
    assert late.delay_s.sum() == pytest.approx(5 * 0.08)


def late_in(steps: int, late_s: Floats) -> tuple[Job, BlockTimes, int]:
    """Return a job whose last stage enters one collective late in each step; its block; the op type."""
    job = job_of(generate_job(replace(SHAPE, steps=steps), [], seed=1))
    block = block_with(job, ot.OPTIMIZER, np.ones((2, steps, 4)))
    place = next(row for row, op in enumerate(block.entries.ops.tolist()) if block.graph.stages[op] == 1)
    delay_s = block.entries.delay_s.copy()
    delay_s[place] = late_s[:, None]
    entries = block.entries._replace(delay_s=delay_s)
    return job, block._replace(entries=entries), int(block.entry_types[place])


def test_a_quiet_end_shows_what_is_late_in_most_steps() -> None:
    late_s = np.where(np.arange(20) < 16, 0.08, 0.01)
    job, block, op_type = late_in(20, late_s)
    found = own_ops([block], job.layout, np.full((2, 4), -1), STEP_S)
    np.testing.assert_allclose(found.late_s[op_type][1], np.broadcast_to((late_s - 0.01)[:, None], (20, 4)))


def test_of_lateness_that_scatters_the_lowest_is_not_usual() -> None:
    """If lateness varies evenly from 0 to 0.06 s, its 30 % quantile, 0.018 s, counts as usual."""
    job, block, op_type = late_in(20, np.random.default_rng(2).permutation(np.linspace(0.0, 0.06, 20)))
    found = own_ops([block], job.layout, np.full((2, 4), -1), STEP_S)
    assert found.late_s[op_type].max() == pytest.approx(0.06 - 0.018, abs=0.001)


def test_ops_that_take_next_to_nothing_are_left_alone(job: Job) -> None:
    """An optimizer that loses 0.01 s in steps of 10 s loses too little to count as slow."""
    factor = np.full((2, 10, 4), 0.1)
    factor[1, :, 2] = 0.2
    block = block_with(job, ot.OPTIMIZER, factor)
    others_s = block.duration_s
    for op, each in enumerate(block.graph.op_types):
        if each in (ot.GC, ot.LAYERNORM_GRADS_ALL_REDUCE, ot.OPTIMIZER_CLIP_MAIN_GRAD):
            others_s[op] = 0.0
    found = own_ops([block], job.layout, np.full((2, 4), -1), 10.0)
    assert (found.slow, found.pauses, found.shared) == ({}, {}, {})


def test_who_waits_for_the_receiver_of_its_last_send_is_not_late_by_itself() -> None:
    """If a worker's last send waits for a slow receiver, only the receiver is named, as slow."""
    job = pipeline_of(2, frozenset({"backward-send", "backward-recv"}), dp=3)
    times = times_of(job)
    times.compute[:, 0, :, :, 1] *= 2.5
    run = simulated_job(job, times)
    stated: dict[str, object] = {**run.manifest, "blocking_transfers": []}
    causes = simulate_job(run.rank_steps, stated)["job_causes"].to_pylist()
    (found,) = [row for row in causes if row["is_cause"]]
    assert found["cause"] == "slow_worker"
    assert [(each["dp_rank"], each["pp_rank"]) for each in found["culprits"]] == [(1, 0)]


def test_a_chunk_that_hardly_takes_time_hides_no_slow_worker_and_a_gather_behind_a_compute_is_not_late() -> (
    None
):
    """A tiny chunk (FSDP's root) hides no slow worker, and a gather after a compute is not late."""
    rng = np.random.default_rng(1)
    lines = []
    for step in range(10):
        slow = np.array([1.0, 1.5, 1.0])
        root_s = rng.choice([1e-4, 3e-4], size=(3, 4))
        first_s, last_s = 0.002 + root_s[:, 0] + 0.3 * slow, 0.6 * slow
        met_s = first_s.max() + 0.001
        back_s = met_s + 0.3 * slow + last_s + 0.6 * slow + root_s[:, 1]
        end_s = back_s.max() + 0.001
        for dp in range(3):
            ops: Ops = [
                ("params-all-gather", 0.0, 0.001, -1, 0),
                ("forward-compute", 0.002, root_s[dp, 0], 0, 0),
            ]
            ops.append(("forward-compute", 0.002 + root_s[dp, 0], 0.3 * slow[dp], 0, 1))
            ops.append(("params-all-gather", first_s[dp], met_s - first_s[dp], -1, 2))
            ops.append(("forward-compute", met_s, 0.3 * slow[dp], 0, 2))
            at_s = met_s + 0.3 * slow[dp]
            for chunk, length_s in ((2, last_s[dp]), (1, 0.6 * slow[dp]), (0, root_s[dp, 1])):
                ops.append(("backward-compute", at_s, length_s, 0, chunk))
                at_s += length_s
            ops.append(("grads-reduce-scatter", back_s[dp], end_s - back_s[dp], -1, 0))
            lines.append(line(step, dp, 0, ops))
    found = simulate_job(rank_steps(*lines), manifest(dp_size=3, vpp_size=3))
    (cause,) = [row for row in found["job_causes"].to_pylist() if row["is_cause"]]
    assert cause["cause"] == "slow_worker"
    assert [(each["dp_rank"], each["pp_rank"]) for each in cause["culprits"]] == [(1, 0)]
    assert cause["time_saved_fraction"] == pytest.approx(1 / 3, abs=0.005)
