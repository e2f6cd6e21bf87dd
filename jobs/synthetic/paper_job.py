"""One job like the paper's: what goes wrong in it, what becomes of its logs, and who runs it."""

from dataclasses import replace
from typing import Any, Final

import numpy as np

from jobs.synthetic.mechanisms.data import PackedSequences
from jobs.synthetic.mechanisms.loading import SlowStorage
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.mechanisms.network import CongestedNetwork
from jobs.synthetic.mechanisms.nuisances import ClockSkew
from jobs.synthetic.mechanisms.pauses import UnsynchronisedGc
from jobs.synthetic.mechanisms.stages import LossLayer
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.paper import (
    FIXED_TEAM,
    LOSS_LAYERS,
    PAUSES,
    SLOW_NETWORKS,
    STATUS_SHARES,
    UNEVEN_DATA,
    WEAK_GPUS,
)
from jobs.synthetic.paper_layout import sample_paper_shape
from jobs.synthetic.sample_faults import Setting
from jobs.synthetic.sample_job import SampledJob
from jobs.synthetic.sample_layout import child_rng, log_uniform, sample_workload
from jobs.synthetic.shape import JobShape
from jobs.synthetic.simulation import JobPlan
from jobs.synthetic.workload import Workload
from schemas.vocabulary import (
    STATUS_BAD_LAYOUT,
    STATUS_CORRUPT_TRACE,
    STATUS_HIGH_DISCREPANCY,
    STATUS_MISSING_WORKERS,
    STATUS_NO_OPS,
    STATUS_TOO_FEW_STEPS,
    STATUS_TOO_MANY_RESTARTS,
)

TEAMS: Final = ("foundation", FIXED_TEAM, "speech", "vision", "ranking")
TEAM_SHARES: Final = (0.35, 0.25, 0.15, 0.15, 0.1)
CLUSTERS: Final = ("east", "east", "west")
GPU_TYPES: Final = ("H100", "H100", "A100")
FRAMEWORKS: Final = ("megatron", "megatron", "in-house")
MODELS: Final = ("dense-7b", "dense-70b", "moe-8x22b", "long-context-13b", "vision-22b")
MOST_RESTARTS: Final = 15
"""With more a unit is not replayed (contract)."""


def draw_like_the_papers(seed: int) -> tuple[SampledJob, dict[str, Any], str]:
    """Draw what a job is, the fields of its manifest, and what becomes of each of its units.

    How much of it is recorded on a day is not drawn yet: shape_of_ops.
    """
    shape = sample_paper_shape(seed)
    rng = child_rng(seed, "history job")
    status = str(rng.choice(list(STATUS_SHARES), p=list(STATUS_SHARES.values())))
    if status == STATUS_CORRUPT_TRACE and shape.pp_size == 1:
        status = STATUS_MISSING_WORKERS  # without transfers a log can hardly contradict another
    if status == STATUS_TOO_FEW_STEPS:
        shape = replace(shape, steps=int(rng.integers(3, 10)))
    workload = replace(sample_workload(seed, shape), noise=log_uniform(rng, 0.004, 0.015))
    mechanisms = _mechanisms(child_rng(seed, "history faults"), shape, workload)
    if status == STATUS_HIGH_DISCREPANCY:
        step_s = Setting(shape, workload, shape.steps).step_s
        mechanisms = [SlowStorage(step_s * log_uniform(rng, 0.8, 2.0))]
    plan = JobPlan(shape, tuple(mechanisms), seed, workload=workload)
    return SampledJob(plan, _lost_ranks(shape, status)), draw_fields(rng, shape, status), status


def _lost_ranks(shape: JobShape, status: str) -> tuple[int, ...]:
    """Ranks that leave no log: the last one, or all."""
    workers = [(dp, pp) for pp in range(shape.pp_size) for dp in range(shape.dp_size)]
    lost = {STATUS_MISSING_WORKERS: workers[-1:], STATUS_NO_OPS: workers}.get(status, [])
    return tuple(shape.rank(*worker) for worker in lost)


def _mechanisms(rng: np.random.Generator, shape: JobShape, workload: Workload) -> list[Mechanism]:
    """Draw what is wrong, each by its share."""
    setting = Setting(shape, workload, shape.steps)
    loss_s = setting.compute_s * log_uniform(rng, 0.15, 0.8)
    drawn: list[tuple[float, Mechanism]] = [
        (1.0, ClockSkew(float(rng.uniform(0.0, 2e-4)))),
        (LOSS_LAYERS * (shape.pp_size > 1), LossLayer(loss_s, loss_s * float(rng.uniform(1.0, 1.6)))),
        (UNEVEN_DATA, _sequences(rng)),
        (PAUSES, UnsynchronisedGc(setting.compute_s * log_uniform(rng, 1.0, 6.0), log_uniform(rng, 4, 30))),
        (WEAK_GPUS, _weak_gpu(rng, shape)),
        (SLOW_NETWORKS, CongestedNetwork("replicas", log_uniform(rng, 0.1, 0.5), float(rng.uniform(0.2, 1)))),
    ]
    return [mechanism for share, mechanism in drawn if rng.random() < share]


def _sequences(rng: np.random.Generator) -> PackedSequences:
    """Token limits of 4,096 to 131,072: the longer the context, the more attention costs."""
    limit = int(4096 * 2 ** rng.integers(0, 6))
    return PackedSequences(limit, limit * log_uniform(rng, 0.02, 0.2), float(rng.uniform(0.6, 1.3)), 8192)


def _weak_gpu(rng: np.random.Generator, shape: JobShape) -> WeakGpu:
    """A worker so slow that it is the whole story, as the paper finds those few to be."""
    dp_rank, pp_rank = int(rng.integers(shape.dp_size)), int(rng.integers(shape.pp_size))
    return WeakGpu(dp_rank, pp_rank, 1 + log_uniform(rng, 0.8, 3.0))


def draw_fields(rng: np.random.Generator, shape: JobShape, status: str) -> dict[str, Any]:
    """Draw fields of a manifest that are alike on all days."""
    few = min(int(rng.geometric(0.35)) - 1, MOST_RESTARTS)
    many = MOST_RESTARTS + int(rng.geometric(0.08))
    fields = {
        "cluster": str(rng.choice(CLUSTERS)),
        "team": str(rng.choice(TEAMS, p=TEAM_SHARES)),
        "model": str(rng.choice(MODELS)),
        "framework": str(rng.choice(FRAMEWORKS)),
        "gpu_type": str(rng.choice(GPU_TYPES)),
        "restarts": many if status == STATUS_TOO_MANY_RESTARTS else few,
        "ep_size": 8 if shape.dp_size % 8 == 0 else 1,
    }
    return {**fields, "world_size": shape.world_size + 1} if status == STATUS_BAD_LAYOUT else fields
