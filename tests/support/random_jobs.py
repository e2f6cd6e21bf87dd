"""Jobs for tests of the simulator: one named job for each feature of a layout, and random jobs."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from jobs.synthetic.job import GeneratedJob, recorded_job
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.mechanisms.nuisances import ClockSkew
from jobs.synthetic.mechanisms.work import LossLayer, PackedSequences
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.sample_job import sample_job
from jobs.synthetic.shape import TRANSFERS, JobIdentity, JobShape, Workload
from jobs.synthetic.simulation import JobPlan, Simulation
from schemas.vocabulary import OP_CODES
from udfs.op_lists import LISTS

USUAL: Final = JobShape(dp_size=2, pp_size=4, microbatches=4, steps=3)
VIRTUAL: Final = replace(USUAL, microbatches=8, vpp_size=2, noop_transfers="all")
LAYOUTS: Final[dict[str, JobShape]] = {
    "usual": USUAL,
    "one_worker": JobShape(steps=2),
    "one_step": replace(USUAL, steps=1),
    "no_pipeline": replace(USUAL, pp_size=1),
    "no_data_parallelism": replace(USUAL, dp_size=1),
    "two_stages": replace(USUAL, pp_size=2),
    "fewer_microbatches_than_stages": replace(USUAL, microbatches=2),
    "context_parallelism": replace(USUAL, cp_size=2, recorded_cp_ranks=2),
    "context_parallelism_one_replica": replace(USUAL, dp_size=1, cp_size=2),
    "tensor_parallelism_all_ranks_recorded": replace(USUAL, tp_size=2, recorded_tp_ranks=2),
    "overlapped_gradients": replace(USUAL, overlapped=True),
    "two_buckets": replace(USUAL, buckets=2),
    "batched_transfers": replace(USUAL, microbatches=8, batched=True),
    "noop_transfers_without_virtual_pipeline": replace(USUAL, noop_transfers="all"),
    "virtual_pipeline": VIRTUAL,
    "virtual_pipeline_first_recv_missing": replace(VIRTUAL, noop_transfers="first_missing"),
    "virtual_pipeline_without_what_moves_nothing": replace(VIRTUAL, noop_transfers="none"),
    "virtual_pipeline_three_chunks": replace(VIRTUAL, vpp_size=3),
    "virtual_pipeline_batched_overlapped": replace(VIRTUAL, batched=True, overlapped=True, buckets=2),
    "data_loads": replace(USUAL, loads_data=True),
    "data_loads_in_turn": replace(USUAL, loads_data=True, loads_in_turn=True),
    "data_loads_in_turn_of_a_virtual_pipeline": replace(
        VIRTUAL, loads_data=True, loads_in_turn=True, line_order="shuffled"
    ),
    "data_loads_of_a_virtual_pipeline": replace(VIRTUAL, loads_data=True, line_order="shuffled"),
    "no_transfers_recorded": replace(USUAL, absent=frozenset(TRANSFERS)),
    "no_tail_recorded": replace(
        USUAL, absent=frozenset({"gc", "layernorm-grads-all-reduce", "optimizer", "optimizer-clip-main-grad"})
    ),
    "no_collectives_recorded": replace(
        USUAL, absent=frozenset({"params-all-gather", "grads-reduce-scatter"})
    ),
    "lines_by_op_type": replace(USUAL, line_order="op_type"),
    "lines_shuffled": replace(USUAL, line_order="shuffled"),
}
"""Layouts by the feature that they have; all are small enough for the reference implementation."""

UNEVEN_DATA: Final = PackedSequences(token_limit=8192, median_tokens=2000, spread=1.0)
FAULTS: Final[tuple[Mechanism, ...]] = (WeakGpu(0, 0, 1.4), LossLayer(0.004, 0.008), UNEVEN_DATA)
NOISY: Final = Workload(forward_s=0.02, launch_s=0.0005, noise=0.05)
"""Durations with 5 % noise, so that no two results are equal by accident."""

EXACT: Final = Workload(
    forward_s=0.1,
    launch_s=0.0,
    noise=0.0,
    usual_s={"params-all-gather": 0.01, "grads-reduce-scatter": 0.02, "optimizer": 0.005},
)
PAIR: Final = JobShape(dp_size=2, microbatches=1, steps=4)
PAIR_STEP_S: Final = 0.01 + 0.1 + 0.2 + 0.02 + 0.005
"""Step time of PAIR under EXACT: gather + forward + backward + scatter + optimizer. [s]"""

LATER: Final = JobIdentity(first_step=10_000)

WIDE: Final = JobShape(dp_size=64, pp_size=8, microbatches=16, steps=10)
LONG: Final = JobShape(dp_size=4, pp_size=4, microbatches=32, steps=44)
"""Layouts of the benchmark, with 482,560 and 117,216 ops."""


def generate_job(
    shape: JobShape,
    mechanisms: Sequence[Mechanism],
    seed: int,
    identity: JobIdentity | None = None,
    workload: Workload | None = None,
) -> GeneratedJob:
    """Generate and record a job; equal arguments give rows that are equal to the last bit."""
    plan = JobPlan(shape, mechanisms, seed, identity or JobIdentity(), workload or Workload())
    return recorded_job(Simulation(plan))


def named_job(name: str | int, seed: int = 7) -> GeneratedJob:
    """Return a job by name of its layout, the job "disagreeing", or the random job of a seed."""
    if isinstance(name, int):
        return random_job(name)
    if name == "disagreeing":
        return _disagreeing_job()
    return generate_job(LAYOUTS[name], FAULTS, seed, workload=NOISY)


def _disagreeing_job() -> GeneratedJob:
    """Return a job whose rows disagree: some dp ranks lack ops, and some steps have another schedule."""
    job = generate_job(USUAL, [], seed=5, workload=NOISY)
    other = replace(USUAL, microbatches=6, steps=2)
    later = generate_job(other, [], seed=6, identity=LATER, workload=NOISY)
    return _followed(_without_some(job, "gc", np.random.default_rng(5)), later)


def random_job(seed: int) -> GeneratedJob:
    """Generate a random job of one to three steps, which mostly have a few thousand ops together.

    Some jobs change their schedule between steps, lack an op in some lines, start optimizers too early,
    have clocks that are further apart than the simulator accepts, or have no noise.
    """
    rng = np.random.default_rng(seed)
    plan = sample_job(seed, most_ops=1000)
    shape = replace(plan.shape, steps=int(rng.integers(1, 4)))
    workload = replace(plan.workload, noise=0.0, launch_s=0.0) if rng.random() < 0.2 else plan.workload
    mechanisms = [*plan.mechanisms, *([ClockSkew(0.03)] if rng.random() < 0.1 else [])]
    job = generate_job(shape, mechanisms, seed, workload=workload)
    if rng.random() < 0.15:
        other = replace(shape, microbatches=shape.microbatches * 2, steps=1, overlapped=not shape.overlapped)
        job = _followed(job, generate_job(other, mechanisms, seed + 1, LATER, workload))
    if rng.random() < 0.15:
        op_type = str(rng.choice(["gc", "layernorm-grads-all-reduce", "optimizer", "params-all-gather"]))
        job = _without_some(job, op_type, rng)
    if rng.random() < 0.1:
        job = GeneratedJob(with_early_optimizer(job.rank_steps, 20_000.0), job.manifest)
    return job


def with_early_optimizer(rank_steps: pa.Table, early_us: float) -> pa.Table:
    """Let every optimizer start `early_us` earlier, before its inputs have ended, and keep its end. [us]"""
    rows = rank_steps.to_pylist()
    for row in rows:
        for place, code in enumerate(row["op"]):
            if code == OP_CODES["optimizer"]:
                early = min(early_us, row["start_us"][place])
                row["start_us"][place] -= early
                row["duration_us"][place] += early
    return pa.Table.from_pylist(rows, schema=rank_steps.schema)


def without_ops(
    rank_steps: pa.Table, op_type: str, positions: Iterable[int], *, last_alone: bool = False
) -> pa.Table:
    """Remove the ops of a type from the rows at the given positions, as if the profiler had missed them.

    last_alone : remove only the last op of the type by start, once per mention of a row in `positions`
    """
    rows = rank_steps.to_pylist()
    for position in positions:
        row = rows[position % len(rows)]
        taken = [place for place, code in enumerate(row["op"]) if code == OP_CODES[op_type]]
        if last_alone:
            taken = [max(taken, key=row["start_us"].__getitem__)]
        for name in LISTS:
            row[name] = [value for place, value in enumerate(row[name]) if place not in taken]
    return pa.Table.from_pylist(rows, schema=rank_steps.schema)


def _without_some(job: GeneratedJob, op_type: str, rng: np.random.Generator) -> GeneratedJob:
    """Remove the ops of a type from 30 % of the lines of a job, chosen at random."""
    positions = np.flatnonzero(rng.random(job.rank_steps.num_rows) < 0.3).tolist()
    return GeneratedJob(without_ops(job.rank_steps, op_type, positions), job.manifest)


def _followed(job: GeneratedJob, later: GeneratedJob) -> GeneratedJob:
    """Return a job with the steps of `job`, followed by those of `later`."""
    return GeneratedJob(pa.concat_tables([job.rank_steps, later.rank_steps]), job.manifest)
