"""Layouts of a history's jobs: as large as the paper's, recorded in as many ops as are asked for."""

from dataclasses import replace
from typing import Final

import numpy as np

from jobs.synthetic.paper import WITHOUT_PIPELINE, WORLD_SIZES
from jobs.synthetic.sample_layout import child_rng
from jobs.synthetic.shape import JobShape

TP_SIZE: Final = 8
"""Tensor parallelism stays within a host."""
MOST_WORKERS: Final = 128
"""Of larger jobs only one rank in cp_size * tp_size is recorded, as of all others."""
PP_SIZES: Final = (2, 4, 4, 8)
LEAST_STEPS: Final = 10
MOST_STEPS: Final = 60
MOST_MICROBATCHES: Final = 24
OPS_PER_COMPUTE: Final = 2.9
OPS_BESIDES: Final = 9
"""Ops of a worker in a step: of each pipelined compute with its transfers, and besides."""


def sample_paper_shape(seed: int) -> JobShape:
    """Draw a job's sizes; shape_of_ops then says how much of it is recorded."""
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
        line_order="start",
    )


def shape_of_ops(shape: JobShape, ops: float, seed: int) -> JobShape:
    """The shape with the steps and microbatches that give about `ops` recorded ops a day.

    At least ten steps, and as many microbatches as stages: fewer say little about a pipeline.
    """
    rng = child_rng(seed, "history ops")
    workers, group = shape.dp_size * shape.pp_size, shape.pp_size
    steps = int(rng.integers(LEAST_STEPS + 2, 2 * LEAST_STEPS + 1))
    per_microbatch = OPS_PER_COMPUTE * 2 * shape.vpp_size if shape.pp_size > 1 else 2 * shape.vpp_size
    wanted = (ops / (steps * workers) - OPS_BESIDES) / per_microbatch
    groups = int(np.clip(round(wanted / group), 1, max(MOST_MICROBATCHES // group, 1)))
    per_step = workers * (groups * group * per_microbatch + OPS_BESIDES)
    steps = int(np.clip(round(ops / per_step), LEAST_STEPS + 1, MOST_STEPS))
    return replace(shape, microbatches=groups * group, steps=steps)
