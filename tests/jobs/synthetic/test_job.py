"""Generated jobs have the planned layout, and a replay reproduces their step times."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from jobs.synthetic.shape import JobIdentity, JobShape
from tests.oracle import what_if
from tests.oracle.readers import read_layout, read_rank_steps
from tests.support.random_jobs import (
    FAULTS,
    LAYOUTS,
    LONG,
    NOISY,
    USUAL,
    WIDE,
    generate_job,
    named_job,
    random_job,
)

EXPLAINED = {
    name: shape
    for name, shape in LAYOUTS.items()
    if not name.startswith("no_") or name in ("no_pipeline", "no_data_parallelism")
}
"""Layouts whose logs contain all ops that the model of a step needs."""


@pytest.mark.parametrize("name", EXPLAINED)
def test_the_model_explains_every_layout(name: str) -> None:
    """If nothing is launched late, a replay of any layout gives the recorded step time.

    For layouts with batched transfers, the replay may be off by 1 %: a recorded send then ends with its recv,
    but the model ends it alone.
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
    """Of a worker's ranks, only the lowest is replayed; in these logs the others start a little later."""
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
