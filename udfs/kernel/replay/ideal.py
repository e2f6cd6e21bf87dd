"""Ideal durations: one value per op type, computed from all recorded ops (model, sections 5 and 7)."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats
from udfs.kernel.graph.graph import OpGraph
from udfs.kernel.selection import median_of_all


class Ideal(NamedTuple):
    """Options for how ideal durations are computed.

    within_stage : one value per stage and op type; otherwise one per op type for the whole job.
    has_means    : mean of compute, optimizer and gc and median of communication; otherwise medians of all.
    """

    within_stage: bool
    has_means: bool


PAPER_IDEAL: Final = "pooled-mean-median"

IDEALS: Final[Mapping[str, Ideal]] = MappingProxyType(
    {
        PAPER_IDEAL: Ideal(within_stage=False, has_means=True),
        "pooled-median": Ideal(within_stage=False, has_means=False),
        "stage-mean-median": Ideal(within_stage=True, has_means=True),
        "stage-median": Ideal(within_stage=True, has_means=False),
    }
)
"""Ideals by their names in settings and job_slowdown (model, section 7)."""


def ideal_durations(blocks: Sequence[tuple[OpGraph, Floats]], ideal: Ideal = IDEALS[PAPER_IDEAL]) -> Floats:
    """Compute each op type's ideal: a mean or median over steps, chunks, dp ranks and microbatches. [s]

    blocks  : graph and replayed durations, float64, shape (op, step, dp_rank), of steps with one graph. [s]
    returns : float64, shape (stage, op type); nan where a type was never recorded. [s]
    """
    pp_size = 1 + max(max(graph.stages) for graph, _ in blocks)
    parts: dict[tuple[int, int], list[Floats]] = {}
    for graph, duration_s in blocks:
        for cell, by_type in zip(graph.cells, graph.ops_by_type, strict=True):
            for op_type, ops in enumerate(by_type):
                if ops:
                    parts.setdefault((cell.stage, op_type), []).append(duration_s[ops.start : ops.stop])
    ideal_s = np.full((pp_size, ot.COUNT), np.nan)
    stages = range(pp_size)
    for op_type in range(ot.COUNT):
        is_mean = ideal.has_means and op_type in ot.AVERAGED
        for alike in [[stage] for stage in stages] if ideal.within_stage else [list(stages)]:
            together = [part for stage in alike for part in parts.get((stage, op_type), ())]
            if together and is_mean:
                mean_s = sum(part.sum() for part in together) / sum(part.size for part in together)
                ideal_s[alike, op_type] = mean_s
            elif together:
                ideal_s[alike, op_type] = median_of_all(
                    np.concatenate([part.reshape(-1) for part in together])
                )
    return ideal_s


def ideal_of_ops(graph: OpGraph, ideal_s: Floats) -> Floats:
    """Return the ideal duration of each op; float64, shape (op,). [s]

    ideal_s : float64, shape (stage, op type). [s]
    """
    return ideal_s[list(graph.stages), list(graph.op_types)]
