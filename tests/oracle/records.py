"""Input of the reference implementation: a record for each op, and the sizes of the job."""

from dataclasses import dataclass


class OracleError(Exception):
    """Raised for a trace that must be refused because its waits form a cycle or a transfer has no partner."""


@dataclass(frozen=True, slots=True)
class Op:
    """One recorded operation of one worker in one step.

    start_s counts from any zero that all ops of the step share; start_s and duration_s are seconds. rank
    is the global rank of the replayed process, and only breaks ties between workers. Ops of one host are
    timed by one clock. Ops that start together keep their order in the list.
    """

    dp_rank: int
    pp_rank: int
    step: int
    op_type: str
    start_s: float
    duration_s: float
    microbatch: int = -1
    model_chunk: int = -1
    rank: int = 0
    host: str | None = None

    @property
    def end_s(self) -> float:
        """Recorded time at which the op ends. [s]"""
        return self.start_s + self.duration_s


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of the job by its manifest, and properties of its transfers that the replay needs.

    blocking : op types of transfers that a worker waits for.
    eager  : op types of sends that end without waiting for their recv.
    beside : (stage, place in the worker's order) of transfers that overlap the transfer before.
    idle   : (stage, op type, ordinal) of transfers that moved no data in any step.
    held   : same key; transfers that in nearly all rows are in one call with a blocking transfer.
    """

    dp_size: int
    pp_size: int
    tp_size: int = 1
    cp_size: int = 1
    vpp_size: int = 1
    blocking: frozenset[str] = frozenset()
    eager: frozenset[str] = frozenset()
    beside: frozenset[tuple[int, int]] = frozenset()
    idle: frozenset[tuple[int, str, int]] = frozenset()
    held: frozenset[tuple[int, str, int]] = frozenset()

    @property
    def has_data_parallelism(self) -> bool:
        """Return whether parameters and gradients are exchanged (model, section 2: dp x dsp > 1)."""
        return self.dp_size * self.cp_size > 1

    @property
    def last_chunk(self) -> int:
        """Number of the model's last chunk, counted over all stages."""
        return self.vpp_size * self.pp_size - 1
