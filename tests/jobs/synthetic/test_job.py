"""Generated jobs are what they claim to be, and what the model's graph explains."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jobs.synthetic.identity import JobIdentity
from jobs.synthetic.job import generate_job
from jobs.synthetic.mechanisms.loading import SlowStorage
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.mechanisms.network import FlappingLink
from jobs.synthetic.mechanisms.stages import LossLayer
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import JobShape
from jobs.synthetic.workload import Workload
from schemas.vocabulary import OP_CODES
from tests.oracle import WhatIf, what_if
from tests.oracle.readers import read_layout, read_rank_steps
from tests.random_jobs import FAULTS, LAYOUTS, LONG, NOISY, UNEVEN_DATA, USUAL, WIDE, named_job, random_job

EXPLAINED = {
    name: shape
    for name, shape in LAYOUTS.items()
    if not name.startswith("no_") or name in ("no_pipeline", "no_data_parallelism")
}
"""Layouts whose profiler records everything."""


@pytest.mark.parametrize("name", EXPLAINED)
def test_the_model_explains_every_layout(name: str) -> None:
    """Without launch delays a replay gives the recorded step time: both agree on who waits for whom.

    Batched transfers are the exception: a send then lasts as long as its recv, which the model does not know.
    """
    job = generate_job(LAYOUTS[name], FAULTS, seed=3, workload=replace(NOISY, launch_s=0.0))
    found = what_if(read_rank_steps(job.rank_steps), read_layout(job.manifest), exact_workers=False)
    assert found.discrepancy < (0.01 if LAYOUTS[name].batched else 1e-6)
    assert (found.clamped_transfers, found.clamped_launch_delays) == (0, 0)


@pytest.mark.parametrize("name", LAYOUTS)
def test_identity_replay_of_every_layout(name: str) -> None:
    job = named_job(name)
    found = what_if(read_rank_steps(job.rank_steps), read_layout(job.manifest), exact_workers=False)
    assert found.identity_step_s == pytest.approx(found.actual_step_s, rel=1e-12)


def test_random_jobs_are_readable_and_reach_the_clamps() -> None:
    transfers = delays = 0
    for seed in range(12, 36):
        job = random_job(seed)
        found = what_if(read_rank_steps(job.rank_steps), read_layout(job.manifest), exact_workers=False)
        transfers += found.clamped_transfers
        delays += found.clamped_launch_delays
        if not found.clamped_transfers + found.clamped_launch_delays:
            assert found.identity_step_s == pytest.approx(found.actual_step_s, rel=1e-12), f"seed {seed}"
    assert transfers > 0
    assert delays > 0


def test_same_seed_same_rows_other_seed_other_rows() -> None:
    assert named_job("usual").rank_steps.equals(named_job("usual").rank_steps)
    assert not named_job("usual").rank_steps.equals(named_job("usual", seed=8).rank_steps)


@pytest.mark.parametrize(("shape", "ops"), [(WIDE, 482_560), (LONG, 117_216)])
def test_sizes_of_the_benchmarks(shape: JobShape, ops: int) -> None:
    job = generate_job(shape, [], seed=1)
    assert job.ops == ops
    assert job.rank_steps.num_rows == shape.dp_size * shape.pp_size * shape.steps


def test_rows_are_sorted_and_typed() -> None:
    job = generate_job(replace(USUAL, cp_size=2, recorded_cp_ranks=2), FAULTS, seed=1)
    key = ["pp_rank", "step", "dp_rank", "cp_rank", "tp_rank"]
    assert job.rank_steps.sort_by([(name, "ascending") for name in key]).equals(job.rank_steps)
    types = {name: job.rank_steps.schema.field(name).type for name in job.rank_steps.column_names}
    assert types["op"] == pa.list_(pa.int8())
    assert types["start_us"] == types["duration_us"] == pa.list_(pa.float64())
    assert types["microbatch"] == types["model_chunk"] == pa.list_(pa.int32())
    assert (types["step"], types["t0_us"], types["rank"]) == (pa.int64(), pa.int64(), pa.int32())


def test_times_are_whole_tenths_from_a_zero_of_each_line() -> None:
    job = named_job("usual")
    starts = pc.list_flatten(job.rank_steps["start_us"]).to_numpy()
    assert starts.min() >= 0.0
    assert np.array_equal(np.rint(starts * 10) / 10, starts)
    assert len(set(job.rank_steps["t0_us"].to_pylist())) > USUAL.steps


def test_the_first_rank_of_a_worker_is_the_one_replayed() -> None:
    """The others are a little late, so that taking one of them changes the result."""
    shape = replace(USUAL, tp_size=2, recorded_tp_ranks=2)
    both = generate_job(shape, FAULTS, seed=1)
    tp_rank = both.rank_steps["tp_rank"]
    layout = read_layout(both.manifest)
    slowdown, first, other = (
        what_if(read_rank_steps(rows), layout, exact_workers=False).slowdown
        for rows in (
            both.rank_steps,
            *(both.rank_steps.filter(pc.equal(tp_rank, pa.scalar(rank, pa.int32()))) for rank in (0, 1)),
        )
    )
    assert slowdown == first != other
    alone = generate_job(replace(shape, recorded_tp_ranks=1), FAULTS, seed=1)
    assert what_if(read_rank_steps(alone.rank_steps), layout).slowdown == pytest.approx(first, rel=1e-12)


def test_ranks_and_hosts() -> None:
    shape = JobShape(dp_size=4, pp_size=2, tp_size=2, recorded_tp_ranks=2, steps=1)
    job = generate_job(shape, [], 1, JobIdentity(hosts=("a", "b")))
    rows = job.rank_steps.to_pylist()
    assert sorted(row["rank"] for row in rows) == list(range(16))
    assert {row["host"] for row in rows if row["rank"] < 8} == {"a"}
    assert {row["gpu"] for row in rows} == set(range(8))
    assert job.manifest["world_size"] == 16


def _mean_us(job_rows: list[dict[str, list[float]]], op_type: str) -> float:
    code = OP_CODES[op_type]
    return float(
        np.mean([d for r in job_rows for o, d in zip(r["op"], r["duration_us"], strict=True) if o == code])
    )


def test_a_slow_worker_is_slow() -> None:
    job = generate_job(USUAL, [WeakGpu(1, 2, 1.5)], 1, workload=Workload(noise=0.0))
    rows = job.rank_steps.to_pylist()
    slow = [row for row in rows if (row["dp_rank"], row["pp_rank"]) == (1, 2)]
    others = [row for row in rows if (row["dp_rank"], row["pp_rank"]) != (1, 2)]
    assert _mean_us(slow, "forward-compute") == pytest.approx(
        1.5 * _mean_us(others, "forward-compute"), rel=1e-6
    )


def test_a_slow_link_and_slow_data_and_a_loss_layer() -> None:
    usual = _quiet([])
    faults: list[tuple[Mechanism, str]] = [
        (FlappingLink(0, 0.02), "forward-pp-comm"),
        (LossLayer(0.02, 0.04), "forward-compute"),
        (UNEVEN_DATA, "backward-compute"),
    ]
    for fault, grows in faults:
        assert _quiet([fault]).op_type_slowdown[grows] > usual.op_type_slowdown[grows] + 0.01, grows
    assert _quiet([SlowStorage(0.1)]).launch_slowdown > usual.launch_slowdown + 0.05


def _quiet(mechanisms: list[Mechanism]) -> WhatIf:
    job = generate_job(USUAL, mechanisms, 1, workload=Workload(noise=0.0, launch_s=0.0))
    return what_if(read_rank_steps(job.rank_steps), read_layout(job.manifest), exact_workers=False)
