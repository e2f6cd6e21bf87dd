"""Jobs to test the simulator on: a named one per feature of a layout, and random ones that mix them."""

from dataclasses import replace
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from jobs.synthetic.identity import JobIdentity
from jobs.synthetic.job import GeneratedJob, generate_job
from jobs.synthetic.mechanisms.data import PackedSequences
from jobs.synthetic.mechanisms.loading import SlowStorage
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.mechanisms.network import FlappingLink
from jobs.synthetic.mechanisms.nuisances import ClockSkew
from jobs.synthetic.mechanisms.stages import LossLayer
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import TRANSFERS, JobShape, LineOrder
from jobs.synthetic.workload import Workload
from schemas.vocabulary import OP_CODES

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
    "virtual_pipeline_three_chunks": replace(VIRTUAL, vpp_size=3),
    "virtual_pipeline_batched_overlapped": replace(VIRTUAL, batched=True, overlapped=True, buckets=2),
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
"""One shape per feature, small enough for the oracle."""

UNEVEN_DATA: Final = PackedSequences(token_limit=8192, median_tokens=2000, spread=1.0)
FAULTS: Final[tuple[Mechanism, ...]] = (WeakGpu(0, 0, 1.4), LossLayer(0.004, 0.008), UNEVEN_DATA)
NOISY: Final = Workload(forward_s=0.02, launch_s=0.0005, noise=0.05)
"""Everything a little uneven, so that no two results are equal by accident."""

WIDE: Final = JobShape(dp_size=64, pp_size=8, microbatches=16, steps=10)
LONG: Final = JobShape(dp_size=4, pp_size=4, microbatches=32, steps=44)
"""The benchmark's shapes: 482,560 and 117,216 ops."""


def named_job(name: str, seed: int = 7) -> GeneratedJob:
    """Generate the job of one layout."""
    return generate_job(LAYOUTS[name], FAULTS, seed, workload=NOISY)


def disagreeing_job() -> GeneratedJob:
    """Dp ranks that lack an op here and there, and steps with another schedule."""
    job = generate_job(USUAL, [], seed=5, workload=NOISY)
    rows = without_some(job.rank_steps, "gc", 0.3, np.random.default_rng(5))
    other = generate_job(
        replace(USUAL, microbatches=6, steps=2),
        [],
        seed=6,
        identity=JobIdentity(first_step=10_000),
        workload=NOISY,
    )
    return GeneratedJob(pa.concat_tables([rows, other.rank_steps]), job.manifest)


def random_job(seed: int) -> GeneratedJob:
    """Generate a small job of a random layout with random faults; mostly a few thousand ops.

    Some change their schedule between steps, lack an op in some lines, or have clocks that disagree more than
    the simulator lets pass.
    """
    rng = np.random.default_rng(seed)
    shape, mechanisms, workload = _random_shape(rng), _random_mechanisms(rng), _random_workload(rng)
    job = generate_job(shape, mechanisms, seed, workload=workload)
    if rng.random() < 0.15:
        other = replace(shape, microbatches=shape.microbatches * 2, steps=1, overlapped=not shape.overlapped)
        later = generate_job(other, mechanisms, seed + 1, JobIdentity(first_step=10_000), workload)
        job = GeneratedJob(pa.concat_tables([job.rank_steps, later.rank_steps]), job.manifest)
    if rng.random() < 0.15:
        op_type = str(rng.choice(["gc", "layernorm-grads-all-reduce", "optimizer", "params-all-gather"]))
        job = GeneratedJob(without_some(job.rank_steps, op_type, 0.3, rng), job.manifest)
    if rng.random() < 0.1:
        job = GeneratedJob(with_early_optimizer(job.rank_steps, 20_000.0), job.manifest)
    return job


def with_early_optimizer(rank_steps: pa.Table, early_us: float) -> pa.Table:
    """Let every optimizer start before what it waits for has ended, and end where it did."""
    rows = rank_steps.to_pylist()
    for row in rows:
        for place, code in enumerate(row["op"]):
            if code == OP_CODES["optimizer"]:
                early = min(early_us, row["start_us"][place])
                row["start_us"][place] -= early
                row["duration_us"][place] += early
    return pa.Table.from_pylist(rows, schema=rank_steps.schema)


def without_some(rank_steps: pa.Table, op_type: str, share: float, rng: np.random.Generator) -> pa.Table:
    """Take an op type out of a random share of the lines."""
    rows = rank_steps.to_pylist()
    for row in rows:
        if rng.random() < share:
            kept = [place for place, code in enumerate(row["op"]) if code != OP_CODES[op_type]]
            for name in ("op", "start_us", "duration_us", "microbatch", "model_chunk"):
                row[name] = [row[name][place] for place in kept]
    return pa.Table.from_pylist(rows, schema=rank_steps.schema)


def _random_shape(rng: np.random.Generator) -> JobShape:
    pp_size = int(rng.choice([1, 2, 3, 4]))
    vpp_size = int(rng.choice([1, 2, 3])) if pp_size > 1 else 1
    microbatches = pp_size * int(rng.integers(1, 3)) if vpp_size > 1 else int(rng.integers(1, 7))
    habits: list[Literal["all", "first_missing", "none"]] = ["all", "first_missing", "none"]
    orders: list[LineOrder] = ["schedule", "start", "op_type", "shuffled"]
    absent = [name for name in ("gc", "layernorm-grads-all-reduce", "optimizer") if rng.random() < 0.15]
    sizes: dict[str, Any] = {
        "dp_size": int(rng.integers(1, 5)),
        "pp_size": pp_size,
        "vpp_size": vpp_size,
        "microbatches": microbatches,
        "steps": int(rng.integers(1, 4)),
        "cp_size": int(rng.integers(1, 3)),
        "tp_size": 2,
        "recorded_tp_ranks": int(rng.integers(1, 3)),
        "buckets": int(rng.integers(1, 3)),
    }
    return JobShape(
        **sizes,
        overlapped=bool(rng.random() < 0.5),
        batched=bool(rng.random() < 0.5),
        noop_transfers=habits[int(rng.integers(0, 2 if vpp_size > 1 else 3))],
        absent=frozenset(absent),
        line_order=orders[int(rng.integers(0, 4))],
    )


def _random_workload(rng: np.random.Generator) -> Workload:
    return Workload(
        forward_s=float(rng.choice([0.002, 0.02, 0.2])),
        backward_ratio=float(rng.uniform(0.8, 3.0)),
        launch_s=float(rng.choice([0.0, 0.00002, 0.001])),
        noise=float(rng.choice([0.0, 0.01, 0.1])),
    )


def _random_mechanisms(rng: np.random.Generator) -> list[Mechanism]:
    """Each fault by a chance of its own."""
    faults: list[tuple[float, Mechanism]] = [
        (0.5, LossLayer(0.01, 0.02)),
        (0.5, UNEVEN_DATA),
        (0.5, SlowStorage(0.02)),
        (0.1, ClockSkew(0.03)),
        (0.5, WeakGpu(0, 0, 1.5, 0.7)),
        (0.3, FlappingLink(0, 0.04, 0.3)),
    ]
    return [fault for chance, fault in faults if rng.random() < chance]
