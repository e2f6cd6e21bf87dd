"""Where things are in a job: its ops by what they do, its cells by the hosts they run on."""

from collections.abc import Callable, Hashable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from jobs.synthetic.program import DP_COLLECTIVES, ProgramOp, meetings
from jobs.synthetic.shape import JobShape

Rows = NDArray[np.int64]
"""Numbers of ops, which are the rows of arrays of shape (op, step, dp_rank)."""
Cell = tuple[int, int]
"""(dp_rank, pp_rank) of a worker."""


class Place:
    """A job's shape and program, and the host of each of its ranks."""

    def __init__(self, shape: JobShape, ops: Sequence[ProgramOp], host_of: Callable[[int], str]) -> None:
        self.shape, self.ops, self.host_of = shape, ops, host_of
        computes = [op for op in ops if op.op_type.endswith("-compute")]
        self.computes = _rows(computes)
        self.is_backward = np.array([op.op_type == "backward-compute" for op in computes])
        self.microbatch = np.array([op.microbatch for op in computes])
        self.chunk = np.array([op.chunk_in_model for op in computes])
        self.pp_rank = np.array([op.pp_rank for op in computes])

    def forwards(self, pp_rank: int) -> Rows:
        """Forward-computes of a stage, as scheduled."""
        rows: Rows = self.computes[~self.is_backward & (self.pp_rank == pp_rank)]
        return rows

    def backwards(self, pp_rank: int) -> Rows:
        """Backward-computes of a stage, as scheduled."""
        rows: Rows = self.computes[self.is_backward & (self.pp_rank == pp_rank)]
        return rows

    @cached_property
    def first_forwards(self) -> Rows:
        """The first forward-compute of every stage: it waits for the data."""
        return np.array([self.forwards(pp_rank)[0] for pp_rank in range(self.shape.pp_size)])

    @cached_property
    def recorded(self) -> Rows:
        """Ops that the profiler records."""
        return _rows([op for op in self.ops if op.op_type not in self.shape.absent])

    def of_type(self, op_type: str) -> Rows:
        """Ops of a type."""
        return _rows([op for op in self.ops if op.op_type == op_type])

    def transfers_from(self, pp_rank: int) -> list[Rows]:
        """Real transfers that a stage sends: the rows of send and recv of each."""
        sends = [op for op in self.ops if op.pp_rank == pp_rank and op.op_type.endswith("-send")]
        return [self._meetings[op.meeting] for op in sends if op.meeting is not None]

    @cached_property
    def collectives(self) -> Rows:
        """Collectives among dp ranks that move much data."""
        return _rows([op for op in self.ops if op.op_type in DP_COLLECTIVES])

    def cells_on(self, host: str) -> list[Cell]:
        """Workers with at least one rank on a host: they are as slow as their slowest rank."""
        shape, found = self.shape, []
        for pp_rank in range(shape.pp_size):
            for dp_rank in range(shape.dp_size):
                first = shape.rank(dp_rank, pp_rank)
                ranks = range(first, first + shape.cp_size * shape.tp_size)
                if any(self.host_of(rank) == host for rank in ranks):
                    found.append((dp_rank, pp_rank))
        return found

    def hosts_of_cells(self) -> list[list[str]]:
        """Host of the first rank of each cell, by pp_rank and dp_rank."""
        shape = self.shape
        return [
            [self.host_of(shape.rank(dp_rank, pp_rank)) for dp_rank in range(shape.dp_size)]
            for pp_rank in range(shape.pp_size)
        ]

    @cached_property
    def _meetings(self) -> dict[Hashable, Rows]:
        return {meeting: _rows(met) for meeting, met in meetings(self.ops).items()}


def _rows(ops: Sequence[ProgramOp]) -> Rows:
    return np.array([op.number for op in ops], np.int64)
