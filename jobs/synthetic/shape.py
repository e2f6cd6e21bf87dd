"""Classes for a healthy generated job: its layout, usual times, identity and hosts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

from schemas.vocabulary import OP_TYPES

TRANSFERS = ("forward-send", "forward-recv", "backward-send", "backward-recv")
GPUS_PER_HOST: Final = 8

LineOrder = Literal["schedule", "start", "op_type", "shuffled"]
"""Order in which a log line lists its ops: as scheduled, by start, by op type and then start, or random."""


@dataclass(frozen=True)
class JobShape:
    """Sizes of a job, and settings of its framework and profiler.

    overlapped       : gradients are reduced while the backward runs; a separate all-reduce follows
    batched          : a send and a recv issued together are recorded with the same start and duration
    noop_transfers   : which transfers that move no data are recorded: all, all but a stage's first recv
                       ("first_missing"), or none
    loads_data       : each worker loads every microbatch, one after the other, before its first forward
    loads_in_turn    : loads are issued between computes, and do not run ahead of them
    absent           : op types that the profiler does not record
    buckets          : number of params-all-gathers, and of grads-reduce-scatters, per chunk
    recorded_tp_ranks, recorded_cp_ranks : number of a worker's tp ranks, and cp ranks, that write a log
    """

    dp_size: int = 1
    pp_size: int = 1
    microbatches: int = 4
    steps: int = 10
    vpp_size: int = 1
    tp_size: int = 1
    cp_size: int = 1
    overlapped: bool = False
    batched: bool = False
    loads_data: bool = False
    loads_in_turn: bool = False
    noop_transfers: Literal["all", "first_missing", "none"] = "none"
    absent: frozenset[str] = frozenset()
    buckets: int = 1
    recorded_tp_ranks: int = 1
    recorded_cp_ranks: int = 1
    line_order: LineOrder = "start"

    def __post_init__(self) -> None:
        """Raise ValueError for sizes that no framework supports, or wrong op types in `absent`."""
        if self.vpp_size > 1 and (self.pp_size < 2 or self.microbatches % self.pp_size):
            raise ValueError(
                f"a virtual pipeline needs pp_size >= 2 and a multiple of it in microbatches,"
                f" got pp_size {self.pp_size}, microbatches {self.microbatches}"
            )
        if unknown := self.absent - set(OP_TYPES):
            raise ValueError(f"unknown op types in absent: {sorted(unknown)}")
        some = self.absent & set(TRANSFERS)
        if some and len(some) < len(TRANSFERS):
            raise ValueError(f"transfers are recorded all or not at all, absent has only {sorted(some)}")
        if self.recorded_tp_ranks > self.tp_size or self.recorded_cp_ranks > self.cp_size:
            raise ValueError("more ranks recorded than the job has")

    @property
    def world_size(self) -> int:
        """Return the number of GPUs of the job."""
        return self.dp_size * self.pp_size * self.tp_size * self.cp_size

    @property
    def hosts(self) -> int:
        """Return the number of hosts of the job, with GPUS_PER_HOST GPUs each."""
        return -(-self.world_size // GPUS_PER_HOST)

    @property
    def last_chunk(self) -> int:
        """Return the number of the model's last chunk; chunk c of stage p is number c * pp_size + p."""
        return self.vpp_size * self.pp_size - 1

    def rank(self, dp_rank: int, pp_rank: int, cp_rank: int = 0, tp_rank: int = 0) -> int:
        """Return the global rank of a tp and cp rank of a worker; tp_rank varies fastest, pp_rank slowest."""
        return ((pp_rank * self.dp_size + dp_rank) * self.cp_size + cp_rank) * self.tp_size + tp_rank

    @property
    def cells(self) -> list[tuple[int, int]]:
        """Return (dp_rank, pp_rank) of each worker, ordered by stage."""
        return [(dp_rank, pp_rank) for pp_rank in range(self.pp_size) for dp_rank in range(self.dp_size)]


USUAL_S: Final[Mapping[str, float]] = MappingProxyType(
    {
        **dict.fromkeys(TRANSFERS, 0.002),
        "params-all-gather": 0.015,
        "grads-reduce-scatter": 0.025,
        "separate-grads-all-reduce": 0.005,
        "layernorm-grads-all-reduce": 0.00004,
        "embedding-grads-all-reduce": 0.01,
        "optimizer-clip-main-grad": 0.001,
        "optimizer": 0.004,
        "gc": 0.0,
        "data-load": 0.003,
    }
)
"""Usual times of all op types but computes, in the range of the published traces. [s]"""
NOOP_TRANSFER_S: Final = 10e-6


@dataclass(frozen=True)
class Workload:
    """Usual durations of a healthy job, in seconds.

    forward_s      : time of a full microbatch's forward pass through all chunks of a stage, without attention
    backward_ratio : backward over forward time of work linear in tokens: two matrix products instead of one
    attention_backward_ratio : backward over forward time of attention, which is quadratic in length: five
                     matrix products instead of two, because attention is recomputed (Dao, arXiv 2307.08691,
                     section 3.1)
    launch_s       : mean delay of an op after it could have started, exponentially distributed
    noise          : standard deviation of the log of each duration
    usual_s        : usual time by op type, of all types but computes
    """

    forward_s: float = 0.05
    backward_ratio: float = 2.0
    attention_backward_ratio: float = 2.5
    launch_s: float = 0.00002
    noise: float = 0.01
    usual_s: Mapping[str, float] = field(default_factory=lambda: USUAL_S)


@dataclass(frozen=True)
class JobIdentity:
    """Ids, hosts and times of a job.

    first_t0_us : Unix time at which the first recorded step starts [us]
    recorded_s  : time over which the bursts of recorded steps are spread; None: steps between bursts take as
                  long as the mean recorded step
    beat_s      : fixed time from the start of a step to the start of the next, whatever the steps take; None:
                  recorded_s decides
    fields      : further fields of the manifest
    """

    job_id: str = "generated"
    run_id: str = "r0"
    first_step: int = 0
    first_t0_us: int = 1_767_600_000_000_000
    hosts: Sequence[str] = ()
    recorded_s: float | None = None
    beat_s: float | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    def host_of(self, rank: int) -> str:
        """Return the host of a global rank; its name is generated if the job has no list of hosts."""
        place = rank // GPUS_PER_HOST
        return self.hosts[place % len(self.hosts)] if self.hosts else f"node-{place:04d}"
