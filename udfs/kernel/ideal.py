"""Ideal durations: one value per op type over everything that was recorded (model, section 5)."""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.graph import OpGraph
from udfs.kernel.program import Floats

POOLED_MEAN_MEDIAN: Final = "pooled-mean-median"
"""The paper's ideal: mean of compute, optimizer and gc, median of communication, over the whole job."""


def ideal_durations(blocks: Sequence[tuple[OpGraph, Floats]]) -> Floats:
    """Ideal duration of each op type, pooled over all steps, stages, chunks, dp ranks and microbatches.

    blocks  : graph and replayed durations, float64, shape (op, step, dp_rank), of steps alike. [s]
    returns : float64, shape (op type,); nan where a type was never recorded. [s]
    """
    ideal_s = np.full(ot.COUNT, np.nan)
    for op_type in range(ot.COUNT):
        parts = []
        for graph, duration_s in blocks:
            for first, last in _runs(graph.op_types, op_type):
                parts.append(duration_s[first:last].reshape(-1))
        if parts:
            values = np.concatenate(parts)
            reduce: Callable[[Floats], np.float64] = np.mean if op_type in ot.AVERAGED else _median
            ideal_s[op_type] = reduce(values)
    return ideal_s


def _runs(op_types: Sequence[int], op_type: int) -> list[tuple[int, int]]:
    """Stretches [first, last) of ops of one type."""
    runs: list[tuple[int, int]] = []
    for op, found in enumerate(op_types):
        if found == op_type:
            if runs and runs[-1][1] == op:
                runs[-1] = (runs[-1][0], op + 1)
            else:
                runs.append((op, op + 1))
    return runs


def _median(values: Floats) -> np.float64:
    """Median of values that may be reordered in place."""
    half = values.size // 2
    if values.size % 2:
        values.partition(half)
        return np.float64(values[half])
    values.partition((half - 1, half))
    return np.float64((values[half - 1] + values[half]) / 2)
