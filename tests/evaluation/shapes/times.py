"""Durations and delays of a job's ops, and the changes that faults make to them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np

from tests.evaluation.shapes.layout import Floats, Layout


@dataclass(frozen=True)
class Times:
    """Durations and delays of a job's ops. [s]

    compute    : shape (direction, stage, chunk, microbatch, step, dp_rank).
    transfer   : same shape; of the data that the compute sends.
    load       : shape (microbatch, step, dp_rank); of the first stage's microbatches.
    gather, scatter : shape (stage, chunk, step); params-all-gather and grads-reduce-scatter of a stage.
    separate   : shape (stage, step); separate-grads-all-reduce.
    embedding  : shape (step, dp_rank).
    layernorm, clip, optimizer, gc : shape (stage, step, dp_rank).
    late_start : same shape; delay before a worker begins the step.
    late_scatter, late_clip : same shape; delay before a worker enters this collective.
    """

    compute: Floats
    transfer: Floats
    load: Floats
    gather: Floats
    scatter: Floats
    separate: Floats
    embedding: Floats
    layernorm: Floats
    clip: Floats
    optimizer: Floats
    gc: Floats
    late_start: Floats
    late_scatter: Floats
    late_clip: Floats


NAMES = tuple(each.name for each in fields(Times))


@dataclass(frozen=True)
class Change:
    """Factors and added seconds by field of Times; arrays broadcast to the shape of the field."""

    factor: Mapping[str, Floats] = field(default_factory=dict)
    extra_s: Mapping[str, Floats] = field(default_factory=dict)


def changed(times: Times, changes: Iterable[Change]) -> Times:
    """Return the times multiplied by all factors, and then increased by all added seconds."""
    listed = list(changes)
    new: dict[str, Floats] = {}
    for name in NAMES:
        factors = [each.factor[name] for each in listed if name in each.factor]
        extras = [each.extra_s[name] for each in listed if name in each.extra_s]
        if factors or extras:
            value = np.array(getattr(times, name))
            for factor in factors:
                value *= factor
            for extra in extras:
                value += extra
            new[name] = value
    return replace(times, **new)


def even_times(layout: Layout, forward_s: float, backward_s: float, **ratios: float) -> Times:
    """Return times of a job without noise; `ratios` are lengths of other ops in forward-computes. [s]"""
    pp, vpp, microbatches = layout.pp, layout.vpp, layout.microbatches
    lanes = layout.lanes
    shapes: dict[str, tuple[int, ...]] = {
        "transfer": (2, pp, vpp, microbatches, *lanes),
        "load": (microbatches, *lanes),
        "gather": (pp, vpp, layout.steps),
        "scatter": (pp, vpp, layout.steps),
        "separate": (pp, layout.steps),
        "embedding": lanes,
    }
    values = {
        name: np.full(shapes.get(name, (pp, *lanes)), forward_s * ratios.get(name, 0.0))
        for name in NAMES
        if name != "compute"
    }
    compute = np.empty(shapes["transfer"])
    compute[0], compute[1] = forward_s, backward_s
    return Times(compute=compute, **values)
