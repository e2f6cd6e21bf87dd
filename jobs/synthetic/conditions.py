"""The conditions under which a job runs: work, speed, additions and delays, which mechanisms change."""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from jobs.synthetic.place import Place, Rows
from jobs.synthetic.timeline import Times
from jobs.synthetic.workload import NOOP_TRANSFER_S, Workload

Values = NDArray[np.float64]


class Conditions:
    """Those of a healthy job, until mechanisms change them. Times in seconds, work relative to usual work.

    A compute takes (linear + quadratic work) * weight of its chunk + fixed time of its chunk, everything else
    its usual time; all of it times `factor` and noise, and `added_s` on top.

    linear, quadratic : work of a microbatch, shape (microbatch, step, dp_rank); 1 and 0 where all are alike
    chunk_weight : work of the model's chunks, shape (chunk in model,), mean 1
    fixed_s   : time whatever the data, shape (direction, chunk in model); forward is 0, backward 1
    factor    : of every op, shape (op, step, dp_rank)
    added_s   : to every op, same shape
    loading_s : delay of each stage's first forward-compute, shape (pp_rank, step, dp_rank)
    clock_s   : how far the clock of a worker is ahead at first, shape (pp_rank, dp_rank)
    clock_rate : how fast it gains [s/s], same shape
    clock_jump_s : by how much it was set since, shape (pp_rank, step, dp_rank)
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
        """Made when first asked for: most jobs leave most of it alone."""
        return np.ones((len(self.place.ops), *self.lanes))

    @cached_property
    def added_s(self) -> Values:
        """Made when first asked for."""
        return np.zeros((len(self.place.ops), *self.lanes))

    def slow_down(self, rows: Rows, dp_rank: int, factor: Values) -> None:
        """Let ops of one dp rank take `factor` times as long, shape (step,)."""
        self.factor[rows, :, dp_rank] *= factor

    def busy_us(self, noise: Times) -> Times:
        """Time every op works or moves data; noise has shape (op, step, dp_rank) and mean 1. [us]"""
        busy = np.repeat(self._usual_s, noise[0].size).reshape(noise.shape)
        busy[self.place.computes] = self._computes_s()
        if "factor" in self.__dict__:
            busy *= self.factor
        busy *= noise
        if "added_s" in self.__dict__:
            busy += self.added_s
        return np.multiply(busy, 1e6, out=busy)

    def delay_us(self, launch_us: Times) -> Times:
        """Time the host lets every op wait: its usual delay, and for the data. [us]"""
        delay = launch_us.copy()
        delay[self.place.first_forwards] += self.loading_s * 1e6
        return delay

    def _computes_s(self) -> Values:
        """Times of the computes by their work, shape (compute, step, dp_rank) [s]."""
        place, workload = self.place, self.workload
        forward = self.linear + self.quadratic
        backward = workload.backward_ratio * self.linear + workload.attention_backward_ratio * self.quadratic
        both = np.stack([forward, backward]) * (workload.forward_s / place.shape.vpp_size)
        direction = place.is_backward.astype(int)
        times: Values = both[direction, place.microbatch]
        times *= self.chunk_weight[place.chunk][:, None, None]
        times += self.fixed_s[direction, place.chunk][:, None, None]
        return times

    @cached_property
    def _usual_s(self) -> Values:
        """Usual time of each op but the computes, shape (op,) [s]."""
        usual = self.workload.usual_s
        return np.array(
            [usual.get(op.op_type, 0.0) if op.moves_data else NOOP_TRANSFER_S for op in self.place.ops]
        )
