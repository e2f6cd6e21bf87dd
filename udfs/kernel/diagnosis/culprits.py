"""Who caused it, and what that rests on."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import cause
from udfs.kernel.cause import ALL, ALWAYS, INTERMITTENT, ONCE, Culprit, Evidence
from udfs.kernel.diagnosis.compute_times import BlockTimes, ComputeTimes
from udfs.kernel.diagnosis.factors import LEAST_INTERMITTENT, Factors
from udfs.kernel.diagnosis.transfers import SlowTransfers
from udfs.kernel.program import Floats

MOST_CULPRITS: Final = 16
"""So many are named, worst first."""

LEAST_HEAVY: Final = 0.01
"""A stage that takes so much longer than the mean stage is named."""

NAN: Final = float("nan")


class Found(NamedTuple):
    """All that was found in a job before anything was fixed."""

    blocks: Sequence[BlockTimes]
    computes: ComputeTimes | None
    factors: Factors | None
    transfers: list[SlowTransfers]


def culprits_of(each: int, found: Found) -> tuple[Culprit, ...]:
    """Culprits of a cause, worst first."""
    named: list[Culprit] = []
    if each == cause.COMMUNICATION:
        named = _links(found)
    elif each == cause.LAUNCH_DELAY:
        named = _late(found)
    elif found.factors is not None:
        named = {
            cause.SLOW_WORKER: _workers,
            cause.STAGE_IMBALANCE: _stages,
            cause.PAUSE: _paused,
        }.get(each, lambda _: [])(found.factors)
    named.sort(key=lambda culprit: -culprit.effect * culprit.share_of_steps)
    return tuple(named[:MOST_CULPRITS])


def evidence_of(each: int, found: Found, indicator: float) -> Evidence:
    """Size, error and base of the largest effect."""
    culprits = culprits_of(each, found)
    effect = culprits[0].effect if culprits else NAN
    if found.factors is None or each in (cause.COMMUNICATION, cause.LAUNCH_DELAY, cause.UNEXPLAINED):
        samples = sum(block.duration_s[0].size for block in found.blocks)
        return Evidence(effect, NAN, NAN, float(samples), indicator)
    factors = found.factors
    stages, directions, chunks, microbatches, steps, dp_ranks = factors.work_s.shape
    noise = float(np.log(np.maximum(factors.noise, 1e-9)).std())
    per_cell = directions * chunks * microbatches * steps
    if each == cause.SLOW_WORKER:
        return Evidence(effect, 1.25 * noise / np.sqrt(per_cell), dp_ranks - 1.0, per_cell, indicator)
    if each == cause.STAGE_IMBALANCE:
        samples = per_cell * dp_ranks
        return Evidence(effect, noise / np.sqrt(samples), stages - 1.0, samples, indicator)
    if each == cause.DATA_IMBALANCE:
        measured = stages * directions * chunks
        peers = microbatches * dp_ranks - 1.0
        return Evidence(factors.data.spread, noise / np.sqrt(measured), peers, measured, indicator)
    return Evidence(effect, noise, dp_ranks - 1.0, per_cell, indicator)


def _pattern(slow_steps: int, steps: int) -> int:
    if slow_steps == steps:
        return ALWAYS
    return ONCE if slow_steps == 1 else INTERMITTENT


def _workers(factors: Factors) -> list[Culprit]:
    """Cells slower than their peers, and dp ranks slow on all stages."""
    always, in_steps, dp_rank, _ = factors.workers
    stages, steps, dp_ranks = in_steps.shape
    named = []
    cell = always.mean(axis=1)[:, None] + in_steps
    for stage, rank in np.argwhere((cell > 0.0).any(axis=1)).tolist():
        named.append(_slow(cell[stage, :, rank], stage, rank))
    for rank in np.flatnonzero((dp_rank > 0.0).any(axis=0)).tolist():
        named.append(_slow(dp_rank[:, rank], 0 if stages == 1 else ALL, rank))
    return named


def _slow(log_factor: Floats, stage: int, dp_rank: int) -> Culprit:
    is_slow = log_factor > min(LEAST_INTERMITTENT, float(log_factor.max()) / 2)
    count = int(is_slow.sum())
    effect = float(np.expm1(log_factor[is_slow]).mean())
    return Culprit(stage, dp_rank, effect, count / len(log_factor), _pattern(count, len(log_factor)))


def _stages(factors: Factors) -> list[Culprit]:
    """Stages with more work than the mean stage."""
    work_s = factors.work_s.mean(axis=(3, 4, 5)).sum(axis=(1, 2))
    effect = work_s / work_s.mean() - 1.0
    return [
        Culprit(stage, ALL, float(effect[stage]), 1.0, ALWAYS)
        for stage in np.flatnonzero(effect > LEAST_HEAVY).tolist()
    ]


def _paused(factors: Factors) -> list[Culprit]:
    """Cells that lost time to pauses; the effect is the time lost in a step that was hit. [s]"""
    lost_s = factors.pause_s.sum(axis=(1, 2, 3))
    named = []
    for stage, rank in np.argwhere((lost_s > 0.0).any(axis=1)).tolist():
        hit = lost_s[stage, :, rank] > 0.0
        count = int(hit.sum())
        effect = float(lost_s[stage, hit, rank].mean())
        named.append(Culprit(stage, rank, effect, count / len(hit), _pattern(count, len(hit))))
    return named


def _links(found: Found) -> list[Culprit]:
    """Cells of slow transfers, by the time lost in a step that was hit. [s]"""
    lost: dict[tuple[int, int], list[Floats]] = {}
    for block, slow in zip(found.blocks, found.transfers, strict=True):
        graph = block.graph
        for op, over_s in zip(slow.ops.tolist(), slow.as_is_s - slow.usual_s, strict=True):
            if not over_s.any():
                continue
            for lane in range(over_s.shape[1]):
                rank = lane if graph.has_dp_lanes else graph.cells[graph.ref(op).stage].dp_rank
                if over_s[:, lane].any():
                    lost.setdefault((graph.stages[op], rank), []).append(over_s[:, lane])
    return _losers(lost, found.blocks)


def _late(found: Found) -> list[Culprit]:
    """Cells that started late, by the mean delay. [s]"""
    lost: dict[tuple[int, int], list[Floats]] = {}
    for block in found.blocks:
        for op, delay_s in zip(block.delays.ops.tolist(), block.delays.delay_s, strict=True):
            for lane in range(delay_s.shape[1]):
                rank = lane if block.graph.has_dp_lanes else block.graph.ref(op).dp_rank
                lost.setdefault((block.graph.stages[op], rank), []).append(np.maximum(delay_s[:, lane], 0.0))
    return _losers(lost, found.blocks)


def _losers(lost: dict[tuple[int, int], list[Floats]], blocks: Sequence[BlockTimes]) -> list[Culprit]:
    steps = sum(block.number_of_steps for block in blocks)
    named = []
    for (stage, rank), parts in lost.items():
        hit = sum(int((part > 0.0).sum()) for part in parts)
        total_s = sum(float(part.sum()) for part in parts)
        if total_s <= 0.0:
            continue
        slow_steps = min(max(int((part > 0.0).sum()) for part in parts), steps)
        named.append(Culprit(stage, rank, total_s / hit, slow_steps / steps, _pattern(slow_steps, steps)))
    named.sort(key=lambda culprit: -culprit.effect * culprit.share_of_steps)
    return named[:MOST_CULPRITS]
