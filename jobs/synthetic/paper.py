"""Random jobs of a fleet's history, distributed like the jobs of Lin et al., OSDI '25 (arXiv 2505.05713).

CITED marks figures of the paper that other publications repeat: 3,079 jobs in five months; 42.5 % of them
straggle; 10.4 % of the GPU-hours are wasted; the worst 10 % of the jobs waste at least 21.3 %; slow workers
cause 1.7 % of the straggling jobs; slowness persists within a job. RECALLED marks figures of the paper that
could not be compared with its text. CHOSEN marks values that the paper does not state, or not in a form to
draw from.
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
"""Shares of jobs by status. RECALLED: restarts, few steps, missing workers and discrepancy exclude more than
half of the jobs, and less than half of the GPU-hours, from the paper's analysis. CHOSEN: each share."""
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
5,000 (section 3). CHOSEN: the other sizes and their shares."""
WITHOUT_PIPELINE: Final = 0.21
"""RECALLED: share of jobs without pipeline parallelism."""
LOSS_LAYERS: Final = 0.6
"""Share of pipelines whose last stage also has a loss layer that the layout does not balance. RECALLED: in
39.3 % of the jobs the last stage causes at least half of the loss."""
UNEVEN_DATA: Final = 0.3
"""Share of jobs with sequences of uneven length. RECALLED: in 21.4 % of the jobs, forward and backward times
have a correlation of at least 0.9. CHOSEN: the others, in which stronger effects lower the correlation."""
PAUSES: Final = 0.2
WEAK_GPUS: Final = 0.006
SLOW_NETWORKS: Final = 0.03
"""Shares of jobs with unsynchronised garbage collection, with one slow worker, and with a slow network.
CITED: slow workers cause 1.7 % of the straggling jobs. CHOSEN: the shares of the other two."""
ONE_DAY: Final = 0.7
MEAN_FURTHER_DAYS: Final = 3.5
MOST_DAYS: Final = 30
"""CHOSEN: this share of jobs runs for a day or less; the others run for one day plus a geometric number of
days with this mean, at most MOST_DAYS."""
SPELLS_PER_JOB: Final = 0.01
CHRONIC: Final = 0.25
"""CHOSEN: number of slow hosts per job of the history, and the share of them that are slow for weeks; the
others recover within three days."""
FIX_AT: Final = 0.6
FIXED_TEAM: Final = "research"
FIX_LABEL: Final = "sequence_balancing"
"""CHOSEN: after this part of the days, one team balances its sequences, a fix that the paper proposes."""

TEAMS: Final = ("foundation", FIXED_TEAM, "speech", "vision", "ranking")
TEAM_SHARES: Final = (0.35, 0.25, 0.15, 0.15, 0.1)
CLUSTERS: Final = ("east", "east", "west")
GPU_TYPES: Final = ("H100", "H100", "A100")
FRAMEWORKS: Final = ("megatron", "megatron", "in-house")
MODELS: Final = ("dense-7b", "dense-70b", "moe-8x22b", "long-context-13b", "vision-22b")
MOST_RESTARTS: Final = 15
"""Units with more restarts get the status too_many_restarts."""

TP_SIZE: Final = 8
"""At most the GPUs of a host, so that tensor parallelism needs no network."""
MOST_WORKERS: Final = 128
"""Jobs get a cp_size so large that they have no more workers than this: fewer workers record fewer ops."""
PP_SIZES: Final = (2, 4, 4, 8)
LEAST_STEPS: Final = 10
MOST_STEPS: Final = 60
MOST_MICROBATCHES: Final = 24
OPS_PER_COMPUTE: Final = 2.9
OPS_BESIDES: Final = 9
"""Mean ops of a worker in a step: per compute, with its transfers in a pipeline; and all others together."""


def draw_like_the_papers(seed: int) -> tuple[JobPlan, dict[str, Any], str]:
    """Draw a job; return its plan, its manifest fields, and the status that its units should get.

    shape_of_ops later sets the number of recorded steps and microbatches.
    """
    shape = _shape(seed)
    rng = child_rng(seed, "history job")
    status = str(rng.choice(list(STATUS_SHARES), p=list(STATUS_SHARES.values())))
    if status == Status.CORRUPT_TRACE and shape.pp_size == 1:
        status = Status.MISSING_WORKERS  # only a missing recv contradicts other logs
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

    The result has at least ten steps, and at least as many microbatches as stages, because fewer hardly fill
    a pipeline.
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

    Token limits are 4,096 to 131,072: the longer the context, the more attention costs. A weak GPU takes 1.8
    to 4 times as long, because in the paper the few jobs with slow workers are the slowest ones.
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
