"""Correlate the forward and the backward times of the same microbatches (model, section 5, robust form)."""

from collections import defaultdict
from collections.abc import Sequence
from math import sqrt
from statistics import fmean, median

from tests.oracle.records import Op

CONSTANT = 1e-12
"""Durations that differ by less than this share of their mean count as equal, because they differ by
rounding."""


def forward_backward_correlation(ops: Sequence[Op]) -> float | None:
    """Median over workers of Pearson's r between their forward and backward times of each microbatch.

    Workers with fewer than two pairs, or with constant durations, have no r. The result is None if no
    worker has an r.
    """
    durations: dict[tuple[int, int], dict[tuple[int, int, int], dict[str, float]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for op in ops:
        if op.op_type in ("forward-compute", "backward-compute"):
            pair = durations[op.dp_rank, op.pp_rank][op.step, op.microbatch, op.model_chunk]
            pair[op.op_type] = op.duration_s
    found = []
    for of_worker in durations.values():
        pairs = [(d["forward-compute"], d["backward-compute"]) for d in of_worker.values() if len(d) == 2]
        r = pearson([forward for forward, _ in pairs], [backward for _, backward in pairs])
        if r is not None:
            found.append(r)
    return median(found) if found else None


def pearson(x: Sequence[float], y: Sequence[float]) -> float | None:
    """Pearson correlation of two series of equal length; None if either of them is constant."""
    if len(x) < 2:
        return None
    mean_x, mean_y = fmean(x), fmean(y)
    var_x = fmean((value - mean_x) ** 2 for value in x)
    var_y = fmean((value - mean_y) ** 2 for value in y)
    if sqrt(var_x) <= CONSTANT * abs(mean_x) or sqrt(var_y) <= CONSTANT * abs(mean_y):
        return None
    covariance = fmean((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return covariance / sqrt(var_x * var_y)
