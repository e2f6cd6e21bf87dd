"""Draw layouts, and op durations with noise, for jobs without faults."""

from typing import Final

import numpy as np

from tests.evaluation.shapes.layout import Floats, Layout, hosts
from tests.evaluation.shapes.times import Change, Times, changed, even_times

GAUSSIAN: Final = "gaussian"
IN_TIME: Final = "correlated in time"
ON_HOST: Final = "correlated on a host"
SKEWED: Final = "skewed"
HEAVY_TAILED: Final = "heavy-tailed"
KINDS: Final = (GAUSSIAN, IN_TIME, ON_HOST, SKEWED, HEAVY_TAILED)
"""Kinds of noise in the times of computes; each kind is drawn equally often."""
SHAPES: Final = (
    *((1, 2), (2, 1), (1, 4), (4, 1), (2, 2), (2, 4), (4, 2), (3, 3), (4, 4), (8, 1), (8, 2), (2, 8), (1, 8)),
    *((16, 1), (8, 4), (16, 2), (4, 8), (6, 2), (3, 4), (5, 2)),
)
"""Sizes (dp, pp) of the drawn jobs."""
LENGTHS: Final = (10, 12, 16, 20, 30, 50, 80, 120, 200)
MOST_COMPUTES: Final = 150_000
"""Largest number of computes in a job; jobs get fewer steps if necessary, so that a thousand jobs take
minutes."""
MOST_CORRELATED: Final = 0.007
"""Largest standard deviation of noise that the ops of a worker, or of a host, share for a while. Larger noise
would cost a job without faults as much as a fault that must be named."""
GPUS_DIFFER: Final = 0.01
"""If the speeds of GPUs differ, each differs by at most this share from the mean."""


def draw_layout(rng: np.random.Generator) -> Layout:
    """Draw the sizes of a job, the hosts of its workers, and the way in which they exchange data."""
    dp, pp = SHAPES[rng.integers(len(SHAPES))]
    vpp = int(rng.integers(2, 4)) if pp > 1 and rng.random() < 0.25 else 1
    microbatches = int(rng.choice((4, 6, 8, 12, 16)))
    if vpp > 1:
        microbatches = pp * max(1, min(microbatches // pp, 3))
    computes = 2 * dp * pp * vpp * microbatches
    length = min(int(rng.choice(LENGTHS)), max(MOST_COMPUTES // computes, 10))
    stride = int(rng.choice((1, 1, 1, 5)))
    return Layout(
        dp=dp,
        pp=pp,
        vpp=vpp,
        microbatches=microbatches,
        host=hosts(dp, pp, int(rng.choice((2, 4, 4, 8))), is_along_stages=bool(rng.random() < 0.5)),
        step=int(rng.integers(0, 5000)) + stride * np.arange(length),
        is_early=bool(rng.random() < 0.5),
        is_buffered=bool(rng.random() < 0.3),
        is_overlapped=bool(rng.random() < 0.4),
        has_gc=bool(rng.random() < 0.6),
        has_loads=bool(rng.random() < 0.3),
    )


def draw_times(layout: Layout, kind: str, rng: np.random.Generator) -> Times:
    """Draw durations of all ops in a job without faults; `kind` is the kind of noise in the computes."""
    forward_s = rng.uniform(0.004, 0.03)
    sizes = {
        "transfer": (0.01, 0.06),
        "load": (0.01, 0.05),
        "gather": (0.1, 1.0),
        "scatter": (0.2, 1.5),
        "separate": (0.1, 0.5),
        "embedding": (0.03, 0.2),
        "layernorm": (0.01, 0.05),
        "clip": (0.03, 0.2),
        "optimizer": (0.3, 1.5),
        "gc": (0.05, 0.4),
    }
    even = even_times(
        layout,
        forward_s,
        forward_s * rng.uniform(1.7, 2.3),
        **{name: rng.uniform(*bounds) for name, bounds in sizes.items()},
    )
    spread = {"transfer": 0.03, "load": 0.05, "gather": 0.02, "scatter": 0.02, "separate": 0.02}
    spread |= {"embedding": 0.02, "layernorm": 0.02, "clip": 0.02, "optimizer": 0.01, "gc": 0.02}
    factor = {name: np.exp(rng.normal(0, sigma, getattr(even, name).shape)) for name, sigma in spread.items()}
    factor["compute"] = _scatter(layout, kind, rng)
    return changed(even, [Change(factor=factor)])


def _scatter(layout: Layout, kind: str, rng: np.random.Generator) -> Floats:
    """Draw the noise factors of computes, shape (direction, stage, chunk, microbatch, step, dp_rank)."""
    shape = (2, layout.pp, layout.vpp, layout.microbatches, *layout.lanes)
    sigma = float(np.exp(rng.uniform(np.log(0.003), np.log(0.02))))
    shared = min(0.6 * sigma, MOST_CORRELATED)
    own = np.sqrt(sigma**2 - shared**2)
    if kind == IN_TIME:
        log = rng.normal(0, own, shape) + _wandering(layout, shared, rng)[None, :, None, None]
    elif kind == ON_HOST:
        by_host = rng.normal(0, shared, (layout.host.max() + 1, layout.steps))
        log = rng.normal(0, own, shape) + by_host[layout.host].transpose(0, 2, 1)[None, :, None, None]
    elif kind == SKEWED:
        log = sigma * (rng.exponential(1.0, shape) - 1.0)
    else:
        log = rng.normal(0, sigma, shape)
    if kind == HEAVY_TAILED:
        log += np.where(rng.random(shape) < 0.01, np.log(1.15), 0.0)
    if rng.random() < 0.4:
        gpu = rng.uniform(-GPUS_DIFFER, GPUS_DIFFER, (layout.pp, layout.dp))
        log += gpu[None, :, None, None, None, :]
    return np.exp(log)


def _wandering(layout: Layout, sigma: float, rng: np.random.Generator) -> Floats:
    """Draw noise that a worker's ops share, and of which the next step keeps half.

    returns : logarithms of factors, shape (stage, step, dp_rank).
    """
    shape = (layout.pp, *layout.lanes)
    fresh = rng.normal(0, sigma, shape)
    log = fresh.copy()
    for step in range(1, layout.steps):
        log[:, step] = 0.5 * log[:, step - 1] + np.sqrt(0.75) * fresh[:, step]
    return log
