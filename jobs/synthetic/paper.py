"""Random jobs of a history, distributed like the jobs of Lin et al., OSDI '25 (arXiv 2505.05713).

CITED marks what others report of the paper in print: 3,079 jobs in five months, 42.5 % of them straggling,
10.4 % of the GPU-hours wasted, the worst 10 % wasting at least 21.3 %, 1.7 % of the straggling jobs due to
slow workers, slowness that persists within a job. RECALLED marks its figures that could not be
checked against its text. CHOSEN marks what the paper does not say, or not so that it could be drawn.
"""

from dataclasses import replace
from typing import Any, Final

import numpy as np

from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.mechanisms.nuisances import ClockSkew
from jobs.synthetic.mechanisms.transfers import CongestedNetwork, SlowStorage
from jobs.synthetic.mechanisms.work import LossLayer, PackedSequences
from jobs.synthetic.mechanisms.workers import UnsynchronisedGc, WeakGpu
from jobs.synthetic.sample_faults import Setting, log_uniform
from jobs.synthetic.sample_job import sample_workload
from jobs.synthetic.shape import JobShape, Workload
from jobs.synthetic.simulation import JobPlan, child_rng
from schemas.vocabulary import Status

JOBS: Final = 3079
"""CITED."""
DAYS: Final = 150
"""CITED: five months."""

STATUS_SHARES: Final = {
    Status.ANALYSED: 0.5,
    Status.TOO_MANY_RESTARTS: 0.13,
    Status.MISSING_WORKERS: 0.1,
    Status.TOO_FEW_STEPS: 0.13,
    Status.HIGH_DISCREPANCY: 0.08,
    Status.CORRUPT_TRACE: 0.03,
    Status.NO_OPS: 0.01,
    Status.NO_MANIFEST: 0.01,
    Status.BAD_LAYOUT: 0.01,
}
"""Shares of jobs by their outcome. RECALLED: that restarts, steps, workers and discrepancy leave out more
than half of the jobs, and less than half of the GPU-hours; CHOSEN: each share."""
WORLD_SIZES: Final = {
    128: 0.45,
    192: 0.233,
    256: 0.09,
    384: 0.044,
    512: 0.065,
    1024: 0.05,
    2048: 0.032,
    5120: 0.036,
}
"""Shares of jobs by GPUs. RECALLED: at least 128; 31.7 % at least 256, 18.3 % at least 512, 3.6 % at least
5,000 (section 3). CHOSEN: the sizes between."""
WITHOUT_PIPELINE: Final = 0.21
"""RECALLED: share of jobs without pipeline parallelism."""
LOSS_LAYERS: Final = 0.6
"""Share of pipelines whose last stage also has a loss layer that the layout does not balance. RECALLED: in
39.3 % of the jobs the last stage causes at least half of the loss."""
UNEVEN_DATA: Final = 0.3
"""Share of jobs with sequences of uneven length. RECALLED: in 21.4 % the correlation is at least 0.9. CHOSEN:
more have them, so weakly that other effects hide them."""
PAUSES: Final = 0.2
WEAK_GPUS: Final = 0.006
SLOW_NETWORKS: Final = 0.03
"""Shares of jobs with garbage collection at no fixed time, with one slow worker, with a slow network. CITED:
slow workers cause 1.7 % of the straggling jobs; CHOSEN: the others."""
ONE_DAY: Final = 0.7
MEAN_FURTHER_DAYS: Final = 3.5
MOST_DAYS: Final = 30
"""CHOSEN: most jobs run for a day or less; the others for two days and a geometric number more."""
SPELLS_PER_JOB: Final = 0.01
CHRONIC: Final = 0.25
"""CHOSEN: hosts that are slow for a while, for each job of the history, and the share of them that stay so
for weeks; the others recover within three days."""
FIX_AT: Final = 0.6
FIXED_TEAM: Final = "research"
FIX_LABEL: Final = "sequence_balancing"
"""CHOSEN: after this part of the days one team balances its sequences, which the paper proposes."""

TEAMS: Final = ("foundation", FIXED_TEAM, "speech", "vision", "ranking")
TEAM_SHARES: Final = (0.35, 0.25, 0.15, 0.15, 0.1)
CLUSTERS: Final = ("east", "east", "west")
GPU_TYPES: Final = ("H100", "H100", "A100")
FRAMEWORKS: Final = ("megatron", "megatron", "in-house")
MODELS: Final = ("dense-7b", "dense-70b", "moe-8x22b", "long-context-13b", "vision-22b")
MOST_RESTARTS: Final = 15
"""With more, a unit is not replayed (contract)."""

TP_SIZE: Final = 8
"""Tensor parallelism stays within a host."""
MOST_WORKERS: Final = 128
"""Larger jobs get more context parallelism, because one rank in cp_size * tp_size is recorded."""
PP_SIZES: Final = (2, 4, 4, 8)
LEAST_STEPS: Final = 10
MOST_STEPS: Final = 60
MOST_MICROBATCHES: Final = 24
OPS_PER_COMPUTE: Final = 2.9
OPS_BESIDES: Final = 9
"""Ops of a worker in a step: for each pipelined compute with its transfers, and others."""


def draw_like_the_papers(seed: int) -> tuple[JobPlan, dict[str, Any], str]:
    """Draw a job: its plan, its manifest fields, and the status of its units.

    How much of it is recorded on a day is not drawn yet: shape_of_ops.
    """
    shape = _shape(seed)
    rng = child_rng(seed, "history job")
    status = str(rng.choice(list(STATUS_SHARES), p=list(STATUS_SHARES.values())))
    if status == Status.CORRUPT_TRACE and shape.pp_size == 1:
        status = Status.MISSING_WORKERS  # without transfers a log can hardly contradict another
    if status == Status.TOO_FEW_STEPS:
        shape = replace(shape, steps=int(rng.integers(3, 10)))
    workload = replace(sample_workload(seed, shape), noise=log_uniform(rng, 0.004, 0.015))
    mechanisms = _mechanisms(child_rng(seed, "history faults"), shape, workload)
    if status == Status.HIGH_DISCREPANCY:
        step_s = Setting(shape, workload, shape.steps).step_s
        mechanisms = [SlowStorage(step_s * log_uniform(rng, 0.8, 2.0))]
    lost: dict[str, list[tuple[int, int]]] = {
        Status.MISSING_WORKERS: shape.cells[-1:],
        Status.NO_OPS: shape.cells,
    }
    lost_ranks = tuple(shape.rank(*cell) for cell in lost.get(status, []))
    plan = JobPlan(shape, tuple(mechanisms), seed, workload=workload, lost_ranks=lost_ranks)
    return plan, draw_fields(rng, shape, status), status


def draw_fields(rng: np.random.Generator, shape: JobShape, status: str) -> dict[str, Any]:
    """Draw manifest fields that stay the same on all days."""
    few = min(int(rng.geometric(0.35)) - 1, MOST_RESTARTS)
    many = MOST_RESTARTS + int(rng.geometric(0.08))
    fields = {
        "cluster": str(rng.choice(CLUSTERS)),
        "team": str(rng.choice(TEAMS, p=TEAM_SHARES)),
        "model": str(rng.choice(MODELS)),
        "framework": str(rng.choice(FRAMEWORKS)),
        "gpu_type": str(rng.choice(GPU_TYPES)),
        "restarts": many if status == Status.TOO_MANY_RESTARTS else few,
        "ep_size": 8 if shape.dp_size % 8 == 0 else 1,
    }
    return {**fields, "world_size": shape.world_size + 1} if status == Status.BAD_LAYOUT else fields


def shape_of_ops(shape: JobShape, ops: float, seed: int) -> JobShape:
    """Return the shape with steps and microbatches adjusted to about `ops` recorded ops per day.

    At least ten steps, and as many microbatches as stages: fewer say little about a pipeline.
    """
    rng = child_rng(seed, "history ops")
    workers, group = len(shape.cells), shape.pp_size
    steps = int(rng.integers(LEAST_STEPS + 2, 2 * LEAST_STEPS + 1))
    per_microbatch = OPS_PER_COMPUTE * 2 * shape.vpp_size if shape.pp_size > 1 else 2 * shape.vpp_size
    wanted = (ops / (steps * workers) - OPS_BESIDES) / per_microbatch
    groups = int(np.clip(round(wanted / group), 1, max(MOST_MICROBATCHES // group, 1)))
    per_step = workers * (groups * group * per_microbatch + OPS_BESIDES)
    steps = int(np.clip(round(ops / per_step), LEAST_STEPS + 1, MOST_STEPS))
    return replace(shape, microbatches=groups * group, steps=steps)


def _shape(seed: int) -> JobShape:
    rng = child_rng(seed, "history shape")
    world_size = int(rng.choice(list(WORLD_SIZES), p=list(WORLD_SIZES.values())))
    cp_size = 1
    while world_size // (TP_SIZE * cp_size) > MOST_WORKERS:
        cp_size *= 2
    if world_size // (TP_SIZE * cp_size) >= 32 and rng.random() < 0.5:
        cp_size *= 2
    workers = world_size // (TP_SIZE * cp_size)
    pp_size = 1 if rng.random() < WITHOUT_PIPELINE else int(rng.choice(PP_SIZES))
    while workers % pp_size:
        pp_size //= 2
    is_virtual = pp_size > 1 and rng.random() < 0.25
    return JobShape(
        dp_size=workers // pp_size,
        pp_size=pp_size,
        microbatches=pp_size,
        vpp_size=2 if is_virtual else 1,
        tp_size=TP_SIZE,
        cp_size=cp_size,
        overlapped=bool(rng.random() < 0.5),
        batched=bool(rng.random() < 0.5),
        noop_transfers="all" if is_virtual else "none",
    )


def _mechanisms(rng: np.random.Generator, shape: JobShape, workload: Workload) -> list[Mechanism]:
    """Draw the faults of a job, each with its own probability.

    Token limits of 4,096 to 131,072: the longer the context, the more attention costs. A worker so slow that
    it is the whole story, as the paper finds those few to be.
    """
    compute_s = Setting(shape, workload, shape.steps).compute_s
    loss_s = compute_s * log_uniform(rng, 0.15, 0.8)
    clocks = ClockSkew(float(rng.uniform(0.0, 2e-4)))
    loss = LossLayer(loss_s, loss_s * float(rng.uniform(1.0, 1.6)))
    limit = int(4096 * 2 ** rng.integers(0, 6))
    data = PackedSequences(limit, limit * log_uniform(rng, 0.02, 0.2), float(rng.uniform(0.6, 1.3)), 8192)
    pauses = UnsynchronisedGc(compute_s * log_uniform(rng, 1.0, 6.0), log_uniform(rng, 4, 30))
    dp_rank, pp_rank = int(rng.integers(shape.dp_size)), int(rng.integers(shape.pp_size))
    drawn: list[tuple[float, Mechanism]] = [
        (1.0, clocks),
        (LOSS_LAYERS * (shape.pp_size > 1), loss),
        (UNEVEN_DATA, data),
        (PAUSES, pauses),
        (WEAK_GPUS, WeakGpu(dp_rank, pp_rank, 1 + log_uniform(rng, 0.8, 3.0))),
        (SLOW_NETWORKS, CongestedNetwork("replicas", log_uniform(rng, 0.1, 0.5), float(rng.uniform(0.2, 1)))),
    ]
    return [mechanism for share, mechanism in drawn if rng.random() < share]
