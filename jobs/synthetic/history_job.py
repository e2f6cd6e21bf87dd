"""One job of a history: what goes wrong in it, what becomes of it, and who runs it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from jobs.synthetic.fleet import FleetJob
from jobs.synthetic.job import GeneratedJob
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
from jobs.synthetic.sample_faults import Setting
from jobs.synthetic.sample_layout import child_rng, log_uniform, sample_workload
from jobs.synthetic.shape import JobShape
from jobs.synthetic.workload import Workload
from schemas.vocabulary import (
    OP_CODES,
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
_PAIRED: Final = OP_CODES["forward-recv"]
"""Matched with its send by number: one too few on one rank, and the trace contradicts itself."""


@dataclass
class HistoryJob(FleetJob):
    """A job over all of its days; its shape is that of a day's record.

    status     : what becomes of each of its units
    mechanisms : what is wrong with it, on all its days alike: slowness persists
    fields     : of its manifest
    """

    status: str = field(kw_only=True)
    mechanisms: Sequence[Mechanism] = field(kw_only=True)
    workload: Workload = field(kw_only=True)
    fields: Mapping[str, Any] = field(kw_only=True)

    @property
    def causes(self) -> list[str]:
        """Causes of its mechanisms, nuisances left out."""
        return sorted({each.cause for each in self.mechanisms if each.cause is not None})

    def left(self, unit: GeneratedJob) -> GeneratedJob:
        """What its fate leaves of a day's record."""
        rows, manifest = unit.rank_steps, unit.manifest
        if self.status == STATUS_NO_OPS:
            return GeneratedJob(rows.slice(0, 0), manifest)
        if self.status == STATUS_MISSING_WORKERS:
            return unit.without_ranks([max(rows["rank"].to_pylist())])
        if self.status == STATUS_BAD_LAYOUT:
            return replace(unit, manifest={**manifest, "world_size": manifest["world_size"] + 1})
        if self.status == STATUS_CORRUPT_TRACE:
            return replace(unit, rank_steps=_contradicting(rows))
        return unit


def history_job(placed: FleetJob) -> HistoryJob:
    """Draw all that its place in time and on hosts does not say."""
    rng = child_rng(placed.seed, "history job")
    status = str(rng.choice(list(STATUS_SHARES), p=list(STATUS_SHARES.values())))
    shape = placed.shape
    if status == STATUS_CORRUPT_TRACE and shape.pp_size == 1:
        status = STATUS_MISSING_WORKERS  # without transfers a log can hardly contradict another
    if status == STATUS_TOO_FEW_STEPS:
        shape = replace(shape, steps=int(rng.integers(3, 10)))
    workload = replace(sample_workload(placed.seed, shape), noise=log_uniform(rng, 0.004, 0.015))
    mechanisms = _mechanisms(child_rng(placed.seed, "history faults"), shape, workload)
    if status == STATUS_HIGH_DISCREPANCY:
        step_s = Setting(shape, workload, shape.steps).step_s
        mechanisms = [SlowStorage(step_s * log_uniform(rng, 0.8, 2.0))]
    return HistoryJob(
        **{**vars(placed), "shape": shape},
        status=status,
        mechanisms=tuple(mechanisms),
        workload=workload,
        fields=_fields(rng, shape, status),
    )


def _mechanisms(rng: np.random.Generator, shape: JobShape, workload: Workload) -> list[Mechanism]:
    """Draw what is wrong, each by its own share."""
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


def _fields(rng: np.random.Generator, shape: JobShape, status: str) -> dict[str, Any]:
    """Draw the manifest's optional fields that are alike on all days."""
    few = min(int(rng.geometric(0.35)) - 1, MOST_RESTARTS)
    many = MOST_RESTARTS + int(rng.geometric(0.08))
    return {
        "cluster": str(rng.choice(CLUSTERS)),
        "team": str(rng.choice(TEAMS, p=TEAM_SHARES)),
        "model": str(rng.choice(MODELS)),
        "framework": str(rng.choice(FRAMEWORKS)),
        "gpu_type": str(rng.choice(GPU_TYPES)),
        "restarts": many if status == STATUS_TOO_MANY_RESTARTS else few,
        "ep_size": 8 if shape.dp_size % 8 == 0 else 1,
    }


def _contradicting(rows: pa.Table) -> pa.Table:
    """The rows of a pipeline, of which those of the last rank lack a recv."""
    records = rows.to_pylist()
    rank = records[-1]["rank"]
    for record in records:
        if record["rank"] == rank:
            place = record["op"].index(_PAIRED)
            for name in ("op", "start_us", "duration_us", "microbatch", "model_chunk"):
                del record[name][place]
    return pa.Table.from_pylist(records, rows.schema)
