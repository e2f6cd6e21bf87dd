"""How a generated job is laid out and what its profiler records."""

from dataclasses import dataclass
from typing import Literal

from schemas.vocabulary import OP_TYPES

TRANSFERS = ("forward-send", "forward-recv", "backward-send", "backward-recv")

LineOrder = Literal["schedule", "start", "op_type", "shuffled"]
"""In which order a line lists its ops: as issued, by start, by op type then start, or in none."""


@dataclass(frozen=True)
class JobShape:
    """Sizes of a job and the habits of its framework and profiler.

    overlapped       : gradients are reduced while the backward runs; a separate all-reduce follows
    batched          : a send and a recv issued together are recorded with one start and one duration
    noop_transfers   : what is recorded of transfers that move nothing: every one of them ("all"),
                       all but a stage's first recv ("first_missing"), or none
    absent           : op types that the profiler does not record
    buckets          : params-all-gathers, and grads-reduce-scatters, per chunk
    recorded_tp_ranks, recorded_cp_ranks : which ranks of a worker leave a log
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
    noop_transfers: Literal["all", "first_missing", "none"] = "none"
    absent: frozenset[str] = frozenset()
    buckets: int = 1
    recorded_tp_ranks: int = 1
    recorded_cp_ranks: int = 1
    line_order: LineOrder = "start"

    def __post_init__(self) -> None:
        """Refuse what no framework runs; ValueError names the sizes."""
        if self.vpp_size > 1 and (self.pp_size < 2 or self.microbatches % self.pp_size):
            raise ValueError(
                f"a virtual pipeline needs pp_size >= 2 and a multiple of it in microbatches,"
                f" got pp_size {self.pp_size}, microbatches {self.microbatches}"
            )
        if self.vpp_size > 1 and self.noop_transfers == "none":
            raise ValueError("a virtual pipeline without its no-op transfers has recvs no reader can match")
        if unknown := self.absent - set(OP_TYPES):
            raise ValueError(f"unknown op types in absent: {sorted(unknown)}")
        some = self.absent & set(TRANSFERS)
        if some and len(some) < len(TRANSFERS):
            raise ValueError(f"transfers are recorded all or not at all, absent has only {sorted(some)}")
        if self.recorded_tp_ranks > self.tp_size or self.recorded_cp_ranks > self.cp_size:
            raise ValueError("more ranks recorded than the job has")

    @property
    def world_size(self) -> int:
        """GPUs of the job."""
        return self.dp_size * self.pp_size * self.tp_size * self.cp_size

    @property
    def last_chunk(self) -> int:
        """Number of the model's last chunk; chunk c of stage p is chunk c * pp_size + p of the model."""
        return self.vpp_size * self.pp_size - 1

    def rank(self, dp_rank: int, pp_rank: int, cp_rank: int = 0, tp_rank: int = 0) -> int:
        """Global rank: tensor parallelism varies fastest, the pipeline slowest."""
        return ((pp_rank * self.dp_size + dp_rank) * self.cp_size + cp_rank) * self.tp_size + tp_rank
