"""Workers slower than their peers: always, in some steps, a whole dp rank, or all on one host.

Slowness is one-sided, so what is usual is a low quantile, not a mean. Axes p, k, c, m, s, d: stage,
direction, chunk, microbatch, step, dp rank.
"""

from typing import Final, NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.diagnosis.block_times import Tensor
from udfs.kernel.diagnosis.hosts import base_off_host, mostly_on_one_host, stages_of_hosts
from udfs.kernel.selection import ascending, median, medians_along, quantile

SWEEPS: Final = 3
USUAL_STEPS: Final = 0.3
"""Quantile over steps that is taken as usual: more than half of them may be slow."""

LEAST_WORKER: Final = 0.015
LEAST_INTERMITTENT: Final = 0.03
LEAST_DP_RANK: Final = 0.03
"""Logs of the least factors that are taken as an effect of another kind."""

MADS: Final = 5.0
"""How many times the usual scatter an effect must have."""

ENOUGH_CELLS: Final = 6
"""With fewer cells their scatter says nothing about what is healthy."""

SIGMAS_BETWEEN: Final = 2.07
"""Standard deviations between the quantiles 0.15 and 0.85 of a normal distribution."""

STEADY: Final = 0.01
"""Scatter over steps up to which a cell is slow always alike."""

MAD_TO_SIGMA: Final = 1.4826


class Workers(NamedTuple):
    """Log factors by which cells are slower than their peers; 0 where not.

    always   : shape (p, k, d).
    in_steps : shape (p, s, d); beyond `always`.
    dp_rank  : shape (s, d); of all stages of a dp rank together.
    ambiguous : bool, shape (p,); stages that are heavy, or whose one host or worker is slow.
    """

    always: Floats
    in_steps: Floats
    dp_rank: Floats
    ambiguous: Mask

    def without_steps(self) -> "Workers":
        """Only what is slow in all steps."""
        return self._replace(in_steps=np.zeros_like(self.in_steps))

    def log_factor(self) -> Floats:
        """Together; shape (p, k, 1, 1, s, d)."""
        by_cell = self.always[:, :, None, :] + self.in_steps[:, None] + self.dp_rank
        return by_cell[:, :, None, None]


def slow_workers(logs: Tensor, hosts: Ints) -> tuple[Workers, Tensor, Tensor]:
    """Slow workers, usual log time (p, k, c, 1, 1, 1) and log weight of microbatches (1, 1, 1, m, s, d)."""
    p, k, c, m, s, d = logs.shape
    always, in_steps = np.zeros((p, k, d)), np.zeros((p, s, d))
    usual = weight = np.zeros((1,) * 6)
    by_step, clean = medians_along(logs, 3), np.empty(logs.shape)
    on_one_host = mostly_on_one_host(hosts)
    for _ in range(SWEEPS):
        slow = always[:, :, None] + in_steps[:, None]
        of_steps = quantile(ascending(by_step - slow[:, :, None], 3), USUAL_STEPS)
        usual = medians_along(of_steps, 3, low=True)[..., None, None, None]
        np.subtract(logs, usual + slow[:, :, None, None], out=clean)
        weight = _weight(clean)
        if p == 1:
            break  # With one stage the weight of the microbatches holds all that a worker does.
        clean -= weight
        cell = medians_along(clean.reshape(p, k, c * m, s, d), 2) + slow
        before = always, in_steps
        always, in_steps = _slow_cells(cell, on_one_host)
        if np.array_equal(always, before[0]) and np.array_equal(in_steps, before[1]):
            break  # Every further sweep would find the same.
    of_hosts = stages_of_hosts(usual[..., 0, 0, 0], hosts)
    usual = usual - of_hosts.log_factor[:, None, None, None, None, None]
    always += of_hosts.log_factor[:, None, None]
    dp_rank = _slow_dp_ranks(weight[0, 0, 0], p)
    weight = weight - dp_rank
    return Workers(always, in_steps, dp_rank, of_hosts.is_ambiguous), usual, weight


def _weight(rest: Tensor) -> Tensor:
    """Log weight of each microbatch over stages, directions and chunks; shape (1, 1, 1, m, s, d)."""
    p, k, c, *lanes = rest.shape
    flat = rest.reshape(p * k * c, *lanes)
    found = flat.min(axis=0) if p * c == 1 else medians_along(flat, 0, low=True)
    return found[None, None, None]


def _slow_cells(cell: Floats, on_one_host: list[tuple[int, Mask]]) -> tuple[Floats, Floats]:
    """Log factors of cells slower than their peers.

    A slow worker is slow both ways: what lengthens forwards alone is a pause.

    cell        : shape (p, k, s, d); log time of a cell over what is usual.
    on_one_host : from `mostly_on_one_host`.
    returns     : always, shape (p, k, d); in some steps, shape (p, s, d).
    """
    p, k, s, d = cell.shape
    by_size = ascending(cell, 2)
    typical = median(by_size)
    base = medians_along(typical, 2, low=True) if d > 1 else quantile(by_size, USUAL_STEPS)[..., 0]
    base = base_off_host(typical, base, on_one_host)
    relative = cell - base[:, :, None, None]
    mean = relative.mean(axis=1)
    steps = ascending(mean, 1)
    center = median(steps)
    # Not the median deviation: of a cell that is slow in just over half of the steps that is small.
    own = (quantile(steps, 0.85) - quantile(steps, 0.15)) / SIGMAS_BETWEEN
    spread = float(medians_along(own.reshape(-1), 0, low=True))
    limit = max(LEAST_INTERMITTENT, MADS * spread)
    least = LEAST_WORKER
    if p * d >= ENOUGH_CELLS:
        least = max(least, MADS * _deviation(quantile(steps, USUAL_STEPS).reshape(-1)))
    is_slow = (center > least) & (own <= max(3.0 * spread, STEADY)) & (d > 1)
    if not (is_slow.any() or mean.max() > limit):
        return np.zeros((p, k, d)), np.zeros((p, s, d))
    low = relative.min(axis=1)
    is_slow &= medians_along(low, 1) > least / 3
    always = np.where(is_slow[:, None], typical - base[..., None], 0.0)
    hits = (mean > limit) & (low > limit / 2) & ~is_slow[:, None]
    some = hits.any(axis=1)[:, None] & (low > 2 * spread) & ~is_slow[:, None]
    return always, np.where(some, np.maximum(mean, 0.0), 0.0)


def _slow_dp_ranks(weight: Floats, stages: int) -> Floats:
    """Log factor of dp ranks that are slow on all stages, or of workers with one stage; (s, d).

    Data are heavier in some microbatches, a slow rank in all: the scatter of the microbatches decides.

    weight : shape (m, s, d).
    """
    m, s, d = weight.shape
    if d == 1:
        return np.zeros((s, d))
    by_step = medians_along(weight, 0)
    typical = medians_along(by_step, 0)
    relative = by_step - medians_along(typical, 0, low=True)
    ordered = ascending(relative, 0)
    own = (quantile(ordered, 0.85) - quantile(ordered, 0.15)) / SIGMAS_BETWEEN
    spread = float(medians_along(own, 0, low=True))
    center = median(ordered)
    is_slow = (center > (LEAST_WORKER if stages == 1 else LEAST_DP_RANK)) & (own <= max(3.0 * spread, STEADY))
    if is_slow.any():
        error = 1.25 * float(medians_along(weight.std(axis=(0, 1)), 0, low=True)) / np.sqrt(m * s)
        is_slow &= center > max(3.5 * error, MADS * _deviation(center) if d >= ENOUGH_CELLS else 0.0)
    some = np.zeros((s, d))
    hits = (relative > max(LEAST_INTERMITTENT, MADS * spread)) & ~is_slow
    if stages == 1 and hits.any():
        hits &= relative > MADS * (1.25 * weight.std(axis=0) / np.sqrt(m))
        some = np.where(hits.any(axis=0) & (relative > 2 * spread), relative, 0.0)
    return np.where(is_slow, center, some)


def _deviation(values: Floats) -> float:
    """Median absolute deviation, shape (value,)."""
    return float(medians_along(np.abs(values - medians_along(values, 0)), 0))
