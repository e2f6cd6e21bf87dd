"""Conditions of a generated job, which mechanisms change: work, duration factors, added times and delays."""

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from jobs.synthetic.program import DP_COLLECTIVES, ProgramOp, meetings
from jobs.synthetic.shape import NOOP_TRANSFER_S, JobShape, Workload
from jobs.synthetic.timeline import Times
from schemas.vocabulary import OP_CODES, OP_TYPES

Values = NDArray[np.float64]
Rows = NDArray[np.int64]
"""Indices of ops along the first axis of arrays of shape (op, step, dp_rank)."""
Cell = tuple[int, int]
"""(dp_rank, pp_rank) of a worker."""


class Place:
    """Lookup of a job's ops by type and stage, and of its workers by host.

    code, pp_rank, microbatch, chunk : one value per op; code of its op type, chunk counted over the model
    """

    def __init__(self, shape: JobShape, ops: Sequence[ProgramOp], host_of: Callable[[int], str]) -> None:
        self.shape, self.ops, self.host_of = shape, ops, host_of
        self.code = np.array([OP_CODES[op.op_type] for op in ops])
        self.pp_rank = np.array([op.pp_rank for op in ops])
        self.microbatch = np.array([op.microbatch for op in ops])
        self.chunk = np.array([op.chunk_in_model for op in ops])
        self._met = meetings(ops)

    def rows(self, *op_types: str, pp_rank: int | None = None) -> Rows:
        """Return the indices of ops of some types, on one stage or all stages, in scheduled order."""
        is_meant = np.isin(self.code, [OP_CODES[op_type] for op_type in op_types])
        return np.flatnonzero(is_meant if pp_rank is None else is_meant & (self.pp_rank == pp_rank))

    def forwards(self, pp_rank: int) -> Rows:
        """Return the indices of the forward-computes of a stage, in scheduled order."""
        return self.rows("forward-compute", pp_rank=pp_rank)

    def backwards(self, pp_rank: int) -> Rows:
        """Return the indices of the backward-computes of a stage, in scheduled order."""
        return self.rows("backward-compute", pp_rank=pp_rank)

    @cached_property
    def computes(self) -> Rows:
        """Return the indices of the computes of all stages."""
        return self.rows("forward-compute", "backward-compute")

    @cached_property
    def first_forwards(self) -> Rows:
        """Return the index of each stage's first forward-compute, which late data delays."""
        return np.array([self.forwards(pp_rank)[0] for pp_rank in range(self.shape.pp_size)])

    @cached_property
    def recorded(self) -> Rows:
        """Return the indices of the ops that the profiler records."""
        return self.rows(*(op_type for op_type in OP_TYPES if op_type not in self.shape.absent))

    @cached_property
    def collectives(self) -> Rows:
        """Return the indices of the collectives in which dp ranks exchange parameters and gradients."""
        return self.rows(*DP_COLLECTIVES)

    def transfers_from(self, pp_rank: int) -> list[Rows]:
        """Return the indices of both ends of each transfer that moves data from a stage."""
        sends = [self.ops[row] for row in self.rows("forward-send", "backward-send", pp_rank=pp_rank)]
        return [np.array(self._met[op.meeting], np.int64) for op in sends if op.meeting is not None]

    def is_forward(self, transfer: Rows) -> bool:
        """Return whether a transfer, given by the indices of its ends, is one of the forward pass."""
        return self.ops[transfer[0]].op_type in {"forward-send", "forward-recv"}

    def cells_on(self, host: str) -> list[Cell]:
        """Return the workers with at least one rank on a host: a worker is as slow as its slowest rank."""
        shape = self.shape
        ranks = range(shape.cp_size * shape.tp_size)
        return [cell for cell in shape.cells if host in {self.host_of(shape.rank(*cell) + n) for n in ranks}]

    def hosts_of_cells(self) -> list[list[str]]:
        """Return the host of each worker's first rank, as lists by dp_rank, one list per pp_rank."""
        shape = self.shape
        return [
            [self.host_of(shape.rank(dp_rank, pp_rank)) for dp_rank in range(shape.dp_size)]
            for pp_rank in range(shape.pp_size)
        ]


class Conditions:
    """Conditions of a job, healthy until mechanisms change them. Times are in seconds.

    The base time of a compute is (linear + quadratic work) * weight of its chunk + fixed time of its chunk;
    that of any other op is its usual time. An op takes its base time * `factor` * noise + `added_s`.

    linear, quadratic : work of a microbatch relative to a full one, shape (microbatch, step, dp_rank); 1
                and 0 unless a mechanism sets them
    chunk_weight : work of the model's chunks relative to the mean chunk, shape (chunk in model,)
    fixed_s   : time that does not depend on the data, shape (direction, chunk in model); forward is 0
    factor, added_s : of every op, shape (op, step, dp_rank); allocated at first use, because most jobs need
                neither
    loading_s : delay of each stage's first forward-compute, shape (pp_rank, step, dp_rank)
    clock_s   : how far a worker's clock is ahead in the first step, shape (pp_rank, dp_rank)
    clock_rate : seconds that a worker's clock gains per second, shape (pp_rank, dp_rank)
    clock_jump_s : by how much a worker's clock was set up to each step, shape (pp_rank, step, dp_rank)
    """

    def __init__(self, place: Place, workload: Workload) -> None:
        shape = place.shape
        self.place, self.workload = place, workload
        self.lanes = (shape.steps, shape.dp_size)
        self.linear = np.ones((shape.microbatches, *self.lanes))
        self.quadratic = np.zeros((shape.microbatches, *self.lanes))
        self.chunk_weight = np.ones(shape.last_chunk + 1)
        self.fixed_s = np.zeros((2, shape.last_chunk + 1))
        self.loading_s = np.zeros((shape.pp_size, *self.lanes))
        self.clock_s = np.zeros((shape.pp_size, shape.dp_size))
        self.clock_rate = np.zeros((shape.pp_size, shape.dp_size))
        self.clock_jump_s = np.zeros((shape.pp_size, *self.lanes))

    @cached_property
    def factor(self) -> Values:
        """Return the duration factor of each op, shape (op, step, dp_rank)."""
        return np.ones((len(self.place.ops), *self.lanes))

    @cached_property
    def added_s(self) -> Values:
        """Return the time added to each op, shape (op, step, dp_rank). [s]"""
        return np.zeros((len(self.place.ops), *self.lanes))

    def slow_down(
        self, cell: Cell, forward: Values, backward: Values, optimizer: Values | None = None
    ) -> None:
        """Multiply the durations of a worker's computes and optimizer by these factors, shape (step,)."""
        dp_rank, pp_rank = cell
        self.factor[self.place.forwards(pp_rank), :, dp_rank] *= forward
        self.factor[self.place.backwards(pp_rank), :, dp_rank] *= backward
        if optimizer is not None:
            self.factor[self.place.rows("optimizer", pp_rank=pp_rank), :, dp_rank] *= optimizer

    def busy_us(self, noise: Times) -> Times:
        """Return the time that each op works, without waiting, shape (op, step, dp_rank). [us]

        noise : random factors, same shape
        """
        usual = self.workload.usual_s
        usual_s = [usual.get(op.op_type, 0.0) if op.moves_data else NOOP_TRANSFER_S for op in self.place.ops]
        busy: Times = np.repeat(np.array(usual_s), noise[0].size).reshape(noise.shape)
        busy[self.place.computes] = self._computes_s()
        if "factor" in self.__dict__:
            busy *= self.factor
        busy *= noise
        if "added_s" in self.__dict__:
            busy += self.added_s
        return np.multiply(busy, 1e6, out=busy)

    def delay_us(self, launch_us: Times) -> Times:
        """Return the time from when an op could start to its start, shape (op, step, dp_rank). [us]

        launch_us : launch delays of the host, to which waiting for data is added, same shape
        """
        delay = launch_us.copy()
        delay[self.place.first_forwards] += self.loading_s * 1e6
        return delay

    def _computes_s(self) -> Values:
        """Return the base time of each compute, shape (compute, step, dp_rank). [s]"""
        place, workload, rows = self.place, self.workload, self.place.computes
        forward = self.linear + self.quadratic
        backward = workload.backward_ratio * self.linear + workload.attention_backward_ratio * self.quadratic
        both = np.stack([forward, backward]) * (workload.forward_s / place.shape.vpp_size)
        direction = (place.code[rows] == OP_CODES["backward-compute"]).astype(int)
        times: Values = both[direction, place.microbatch[rows]]
        times *= self.chunk_weight[place.chunk[rows]][:, None, None]
        times += self.fixed_s[direction, place.chunk[rows]][:, None, None]
        return times
