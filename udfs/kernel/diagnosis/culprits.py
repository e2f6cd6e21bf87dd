"""Who caused it, and what that rests on."""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import cause
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.cause import ALL, ALWAYS, INTERMITTENT, ONCE, Culprit, Evidence
from udfs.kernel.diagnosis.block_times import BlockTimes, ComputeTimes, compute_times
from udfs.kernel.diagnosis.factors import TINY_S, Factors, decompose
from udfs.kernel.diagnosis.loads import SlowLoads, slow_loads
from udfs.kernel.diagnosis.transfers import SlowTransfers, slow_transfers
from udfs.kernel.diagnosis.workers import LEAST_INTERMITTENT
from udfs.kernel.graph.graph import Layout

MOST_CULPRITS: Final = 16
"""Most culprits that are named, worst first."""

LEAST_HEAVY: Final = 0.01
"""A stage that takes longer than the mean stage by this share is named."""

LEAST_LOST: Final = 0.005
"""A step counts as struck if a worker lost this share of the usual step time in it."""

MEDIAN_ERROR: Final = 1.2533
"""Standard error of a median over that of a mean."""

NAN: Final = float("nan")


class Job(NamedTuple):
    """What is known of a job beside its durations. Times are means over steps. [s]

    hosts      : int, shape (stage, dp_rank); which host a worker is on, -1 where unknown.
    indicators : the paper's, by cause; nan where it has none.
    skew_s     : how far clocks may be apart that were not corrected; infinite if unknown. [s]
    worker_type : int, shape (stage, dp_rank); type of GPU, -1 where unknown. None: fewer than two are known.
    """

    layout: Layout
    hosts: Ints
    actual_s: float
    ideal_s: float
    indicators: dict[int, float]
    skew_s: float = 0.0
    worker_type: Ints | None = None


class Found(NamedTuple):
    """All that was found in a job before anything was fixed."""

    job: Job
    blocks: Sequence[BlockTimes]
    computes: ComputeTimes | None
    factors: Factors | None
    transfers: list[SlowTransfers]
    loads: list[SlowLoads]

    @classmethod
    def of(cls, job: Job, blocks: Sequence[BlockTimes]) -> "Found":
        """Look for everything."""
        computes = compute_times(blocks, job.layout)
        factors = decompose(computes.times_s, job.hosts, job.worker_type) if computes is not None else None
        return cls(job, blocks, computes, factors, slow_transfers(blocks), slow_loads(blocks))

    @property
    def steps(self) -> int:
        """Number of steps."""
        return sum(block.number_of_steps for block in self.blocks)

    @property
    def microbatches(self) -> int:
        """Number of microbatches of a chunk in a step; 0 where steps or chunks differ in it."""
        return 0 if self.factors is None else self.factors.noise.shape[3]


Blame = tuple[tuple[Culprit, ...], Evidence]
"""Culprits of one cause, worst first, and the numbers behind the worst."""


def blame(each: int, found: Found, indicator: float) -> Blame:
    """Who is to blame for a cause."""
    if each in _LOST:
        return _blame_for_lost(_LOST[each](found), found, indicator)
    factors = found.factors
    if factors is None or each == cause.UNEXPLAINED:
        return (), Evidence(NAN, NAN, NAN, NAN, indicator)
    if each == cause.PAUSE:
        return _blame_for_lost(factors.pause_s[:, 0].sum(axis=(1, 2)), found, indicator)
    stages, directions, chunks, microbatches, steps, dp_ranks = factors.noise.shape
    per_cell = directions * chunks * microbatches * steps
    if each == cause.DATA_IMBALANCE:
        measured = stages * directions * chunks
        error = factors.scatter / np.sqrt(measured)
        peers = microbatches * dp_ranks - 1
        return (), Evidence(factors.data.spread, error, peers, measured, indicator)
    if each == cause.SLOW_WORKER:
        named, samples, peers = _workers(factors) or _on_slow_hosts(factors), per_cell, dp_ranks - 1
    elif each == cause.MIXED_HARDWARE:
        return _blame_for_types(factors, per_cell)
    else:
        named, samples, peers = _stages(factors), per_cell * dp_ranks, stages - 1
    named = _worst_first(named)
    effect = named[0].effect if named else NAN
    error = MEDIAN_ERROR * factors.scatter / np.sqrt(samples)
    return tuple(named), Evidence(effect, error, peers, samples, indicator)


def _blame_for_types(factors: Factors, per_cell: int) -> Blame:
    """Workers of slower types, dp ranks and stages as wholes where all of their workers are of one."""
    types = factors.types
    if types is None or not types.is_slower.any():
        return (), Evidence(NAN, NAN, NAN, NAN, NAN)
    numbers = np.where((types.worker_type >= 0) & types.is_slower[types.worker_type], types.worker_type, -1)
    effect = types.factor.mean(axis=1) - 1.0
    stages, dp_ranks = numbers.shape
    whole_dp = [d for d in range(dp_ranks) if stages > 1 and _is_one(numbers[:, d])]
    whole_stage = [p for p in range(stages) if dp_ranks > 1 and _is_one(numbers[p])]
    named = [Culprit(ALL, d, float(effect[numbers[0, d]]), 1.0, ALWAYS) for d in whole_dp]
    named += [Culprit(p, ALL, float(effect[numbers[p, 0]]), 1.0, ALWAYS) for p in whole_stage]
    named += [
        Culprit(p, d, float(effect[numbers[p, d]]), 1.0, ALWAYS)
        for p, d in np.argwhere(numbers >= 0).tolist()
        if d not in whole_dp and p not in whole_stage
    ]
    worst = int(np.where(types.is_slower, effect, 0.0).argmax())
    peers = int(np.isin(types.worker_type, np.flatnonzero(types.measured[:, 0] == 0.0)).sum())
    named = _worst_first(named)
    error = float(types.error[worst]) * (1.0 + float(effect[worst]))
    return tuple(named), Evidence(float(effect[worst]), error, peers, per_cell, NAN)


def _is_one(numbers: Ints) -> bool:
    return bool(numbers[0] >= 0 and (numbers == numbers[0]).all())


def _worst_first(named: list[Culprit]) -> list[Culprit]:
    return sorted(named, key=lambda culprit: -culprit.effect * culprit.share_of_steps)[:MOST_CULPRITS]


def _pattern(slow_steps: int, steps: int) -> int:
    if slow_steps == steps:
        return ALWAYS
    return ONCE if slow_steps == 1 else INTERMITTENT


def _workers(factors: Factors) -> list[Culprit]:
    """Cells slower than their peers, and dp ranks slow on all stages."""
    always, in_steps, dp_rank = factors.workers[:3]
    stages = len(in_steps)
    cell = always.mean(axis=1)[:, None] + in_steps
    named = [
        _slow(cell[stage, :, rank], stage, rank)
        for stage, rank in np.argwhere((cell > 0.0).any(axis=1)).tolist()
    ]
    return named + [
        _slow(dp_rank[:, rank], 0 if stages == 1 else ALL, rank)
        for rank in np.flatnonzero((dp_rank > 0.0).any(axis=0)).tolist()
    ]


def _on_slow_hosts(factors: Factors) -> list[Culprit]:
    """Workers of stages that are heavy, or else all slow: a flag says that this is not known."""
    dp_ranks = factors.noise.shape[-1]
    heavy = {culprit.stage: culprit for culprit in _stages(factors)}
    slow = [heavy[stage] for stage in np.flatnonzero(factors.workers.ambiguous).tolist() if stage in heavy]
    return [culprit._replace(dp_rank=rank) for culprit in slow for rank in range(dp_ranks)]


def _slow(log_factor: Floats, stage: int, dp_rank: int) -> Culprit:
    is_slow = log_factor > min(LEAST_INTERMITTENT, float(log_factor.max()) / 2)
    count = int(is_slow.sum())
    effect = float(np.expm1(log_factor[is_slow]).mean())
    return Culprit(stage, dp_rank, effect, count / len(log_factor), _pattern(count, len(log_factor)))


def _stages(factors: Factors) -> list[Culprit]:
    """Stages with more work than the mean stage."""
    work_s = factors.work_s.mean(axis=(3, 4, 5)).sum(axis=(1, 2))
    effect = work_s / max(work_s.mean(), TINY_S) - 1.0
    return [
        Culprit(stage, ALL, float(effect[stage]), 1.0, ALWAYS)
        for stage in np.flatnonzero(effect > LEAST_HEAVY).tolist()
    ]


def _blame_for_lost(lost_s: Floats, found: Found, indicator: float) -> Blame:
    """Cells by the time they lost in the steps that struck them.

    lost_s : shape (stage, step, dp_rank). [s]
    """
    stages, steps, dp_ranks = lost_s.shape
    is_struck = lost_s > LEAST_LOST * found.job.actual_s
    peers = stages * dp_ranks - 1
    if not is_struck.any():
        return (), Evidence(NAN, NAN, peers, steps * dp_ranks, indicator)
    counts = is_struck.sum(axis=1).reshape(-1)
    totals_s = np.where(is_struck, lost_s, 0.0).sum(axis=1).reshape(-1)
    worst = np.argsort(-totals_s, kind="stable")[:MOST_CULPRITS]
    named = [
        Culprit(cell // dp_ranks, cell % dp_ranks, total_s / count, count / steps, _pattern(count, steps))
        for cell, total_s, count in zip(
            worst.tolist(), totals_s[worst].tolist(), counts[worst].tolist(), strict=True
        )
        if count
    ]
    where = named[0].stage, slice(None), named[0].dp_rank
    hits_s = lost_s[where][is_struck[where]]
    error_s = float(hits_s.std()) / np.sqrt(len(hits_s)) if len(hits_s) > 1 else NAN
    return tuple(named), Evidence(named[0].effect, error_s, peers, len(hits_s), indicator)


def _lost_to(slow_ops: Sequence[SlowTransfers | SlowLoads], found: Found) -> Floats:
    """Time beyond the usual of each worker's transfers, or loads; shape (stage, step, dp_rank). [s]"""
    parts = [
        (slow.ops, slow.as_is_s - slow.usual_s, block)
        for block, slow in zip(found.blocks, slow_ops, strict=True)
    ]
    return _by_worker(found.job.layout, parts)


def _lost_to_delays(found: Found) -> Floats:
    """Kept launch delay of each worker; shape (stage, step, dp_rank). [s]"""
    parts = [(block.delays.ops, block.delays.delay_s, block) for block in found.blocks]
    return _by_worker(found.job.layout, parts)


_LOST: Final[dict[int, Callable[[Found], Floats]]] = {
    cause.COMMUNICATION: lambda found: _lost_to(found.transfers, found),
    cause.LAUNCH_DELAY: _lost_to_delays,
    cause.DATA_LOADING: lambda found: _lost_to(found.loads, found),
}
"""What each worker lost to a cause in each step; shape (stage, step, dp_rank). [s]"""


def _by_worker(layout: Layout, parts: list[tuple[Ints, Floats, BlockTimes]]) -> Floats:
    """Sum over the ops of each worker, block after block.

    parts : ops of a block with what each lost, shape (op, step, dp).
    """
    found = []
    for ops, lost_s, block in parts:
        total_s = np.zeros((layout.pp_size, block.number_of_steps, layout.dp_size))
        for op, of_op in zip(ops.tolist(), lost_s, strict=True):
            if block.graph.has_dp_lanes:
                total_s[block.graph.stages[op]] += of_op
            else:
                where = block.graph.ref(op)
                total_s[where.stage, :, where.dp_rank] += of_op[:, 0]
        found.append(total_s)
    return np.concatenate(found, axis=1)
