"""How long ops take and what makes some of them slow: draws for every op, step and dp rank."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from jobs.synthetic.program import ProgramOp
from jobs.synthetic.shape import JobShape
from jobs.synthetic.timeline import Times

USUAL_S: Mapping[str, float] = MappingProxyType(
    {
        "forward-send": 0.002,
        "forward-recv": 0.002,
        "backward-send": 0.002,
        "backward-recv": 0.002,
        "params-all-gather": 0.015,
        "grads-reduce-scatter": 0.025,
        "separate-grads-all-reduce": 0.005,
        "layernorm-grads-all-reduce": 0.00004,
        "embedding-grads-all-reduce": 0.01,
        "optimizer-clip-main-grad": 0.001,
        "optimizer": 0.004,
        "gc": 0.0,
    }
)
"""Typical times of everything but computes, in the range of the published traces [s]."""
NOOP_TRANSFER_S = 10e-6


@dataclass(frozen=True)
class SlowWorker:
    """One cell computes `factor` times as long, in a share of the steps."""

    dp_rank: int
    pp_rank: int
    factor: float
    step_share: float = 1.0


@dataclass(frozen=True)
class SlowLink:
    """Transfers that stage `pp_rank` sends take `factor` times as long, in a share of the steps."""

    pp_rank: int
    factor: float
    step_share: float = 1.0


@dataclass(frozen=True)
class Mechanisms:
    """What a job computes and what goes wrong in it. Times in seconds.

    forward_s       : a forward pass of one microbatch through one stage (all its chunks)
    chunk_weights   : relative work of the model's chunks; the same for all where empty
    loss_layer_s    : constant extra work of the model's last chunk, once each way
    sequence_spread : standard deviation of the log of a microbatch's work, the same on all stages
    data_loading_s  : mean wait for the first stage's first microbatch
    launch_s        : mean delay of the host before any op
    noise           : standard deviation of the log of any time
    clock_skew_s    : how far the clock of a worker may be off, either way
    """

    forward_s: float = 0.05
    backward_ratio: float = 2.0
    chunk_weights: Sequence[float] = ()
    loss_layer_s: float = 0.0
    sequence_spread: float = 0.0
    data_loading_s: float = 0.0
    launch_s: float = 0.00002
    noise: float = 0.01
    clock_skew_s: float = 0.0
    slow_workers: Sequence[SlowWorker] = ()
    slow_links: Sequence[SlowLink] = ()
    usual_s: Mapping[str, float] = field(default_factory=lambda: USUAL_S)


def draw_times(
    shape: JobShape, ops: Sequence[ProgramOp], mechanisms: Mechanisms, rng: np.random.Generator
) -> tuple[Times, Times]:
    """Draw (busy_us, delay_us) as run_program takes them, both of shape (op, step, dp_rank) [us]."""
    lanes = (shape.steps, shape.dp_size)
    weight = np.exp(mechanisms.sequence_spread * rng.standard_normal((shape.microbatches, *lanes)))
    busy = np.empty((len(ops), *lanes))
    for op in ops:
        busy[op.number] = _usual_s(op, shape, mechanisms, weight) * 1e6
    busy *= np.exp(mechanisms.noise * rng.standard_normal(busy.shape))
    delay = rng.exponential(mechanisms.launch_s * 1e6, busy.shape)
    for worker in mechanisms.slow_workers:
        hit = np.where(rng.random(shape.steps) < worker.step_share, worker.factor, 1.0)
        for op in ops:
            if op.pp_rank == worker.pp_rank and op.op_type.endswith("-compute"):
                busy[op.number, :, worker.dp_rank] *= hit
    for link in mechanisms.slow_links:
        hit = np.where(rng.random(lanes) < link.step_share, link.factor, 1.0)
        meetings = {op.meeting for op in ops if op.pp_rank == link.pp_rank and op.op_type.endswith("-send")}
        for op in ops:
            if op.meeting in meetings - {None}:
                busy[op.number] *= hit
    if mechanisms.data_loading_s:
        first = next(op for op in ops if op.op_type == "forward-compute" and op.pp_rank == 0)
        delay[first.number] += rng.exponential(mechanisms.data_loading_s * 1e6, lanes)
    return busy, delay


def _usual_s(
    op: ProgramOp, shape: JobShape, mechanisms: Mechanisms, weight: NDArray[np.float64]
) -> NDArray[np.float64] | float:
    """Time an op takes without noise and faults, a number or of shape (step, dp_rank) [s]."""
    if not op.op_type.endswith("-compute"):
        return mechanisms.usual_s[op.op_type] if op.moves_data else NOOP_TRANSFER_S
    per_chunk = mechanisms.forward_s / shape.vpp_size
    if mechanisms.chunk_weights:
        mean = sum(mechanisms.chunk_weights) / len(mechanisms.chunk_weights)
        per_chunk *= mechanisms.chunk_weights[op.chunk_in_model] / mean
    time = per_chunk * weight[op.microbatch]
    if op.chunk_in_model == shape.last_chunk:
        time = time + mechanisms.loss_layer_s
    ratio = mechanisms.backward_ratio if op.op_type == "backward-compute" else 1.0
    scaled: NDArray[np.float64] = time * ratio
    return scaled
