"""Find slow ops that wait for no other worker (optimizer, clip, gc), and late entries into collectives.

Ops of each type are compared with those of the peers in the same step, as computes are.
Axes p, s, d: stage, step in the order of time, dp rank.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.diagnosis.block_times import BlockTimes, KeptDelays, in_time
from udfs.kernel.diagnosis.levels import (
    ERRORS,
    ERRORS_OF_BASE,
    LEAST_HITS,
    LEAST_QUIET,
    MAD_TO_SIGMA,
    USUAL_STEPS,
    Doubt,
    apart_when_healthy,
    quietest,
    scatter_over_steps,
    slow_series,
    usual_levels,
)
from udfs.kernel.diagnosis.totals import TINY_S
from udfs.kernel.graph.graph import Layout
from udfs.kernel.selection import median_of_all, medians_along, quantile

LEAST_SHARE: Final = 0.0025
"""Op types that always take less than this share of a step are ignored, as their scatter costs little."""

LEAST_LOG: Final = 0.05
LEAST_ENTRY: Final = 0.005
"""Least log excess of a slow op, and least delay of a late entry as a share of the step."""

LEAST_PAUSE: Final = 0.15
ERRORS_OF_PAUSE: Final = 6.0
"""An op is a pause if its log excess exceeds LEAST_PAUSE, and ERRORS_OF_PAUSE times the usual scatter."""


class OwnTimes(NamedTuple):
    """Durations of a block's ops whose type has slow ops, as base_s * slow * shared + pause_s.

    ops     : int, shape (op,).
    base_s, pause_s : float64, shape (op, step, dp); usual time, and additional time of a pause. [s]
    slow, shared    : factors, same shape; slowness of the worker, and unexplained slowness of all workers.
    """

    ops: Ints
    base_s: Floats
    slow: Floats
    shared: Floats
    pause_s: Floats


class OwnOps(NamedTuple):
    """Slowness in ops other than computes and transfers; each field is a dictionary by op type.

    slow    : log factors by which a worker's ops are slow, 0 where they are not, shape (p, s, d).
    pauses  : time by which single long ops exceed the usual time, shape (p, s, d). [s]
    shared  : log factors by which the ops of all workers are longer, without a known cause, shape (p, s, d).
    usual_s : median time in a step, but at least LEAST_SHARE of the step. [s]
    late_s  : delay of significantly late entries into these ops, else 0, shape (p, s, d). [s]
    """

    slow: dict[int, Floats]
    pauses: dict[int, Floats]
    shared: dict[int, Floats]
    usual_s: dict[int, float]
    late_s: dict[int, Floats]


def own_ops(blocks: Sequence[BlockTimes], layout: Layout, hosts: Ints, actual_s: float) -> OwnOps:
    """Find slow ops other than computes and transfers, and late entries into collectives.

    hosts    : int, shape (p, d); -1 where unknown.
    actual_s : mean recorded step time. [s]
    """
    found, least_s = OwnOps({}, {}, {}, {}, {}), LEAST_SHARE * actual_s
    for op_type in ot.OWN:
        times_s = _times_of(blocks, layout, op_type)
        if times_s is None or times_s.max() < least_s:
            continue
        if op_type == ot.OPTIMIZER_CLIP_MAIN_GRAD:
            # All workers start the clip together and do equal work, so stages are compared with each other.
            p, s, d = times_s.shape
            together_s = times_s.swapaxes(0, 1).reshape(1, s, p * d)
            parts = _slow(together_s, hosts.reshape(1, -1), least_s)
            slow, pauses_s, shared = (each.reshape(s, p, d).swapaxes(0, 1) for each in parts)
        else:
            slow, pauses_s, shared = _slow(times_s, hosts, least_s)
        for kind, values in ((found.slow, slow), (found.pauses, pauses_s), (found.shared, shared)):
            # Garbage collection of all workers in the same step is planned, and not slowness.
            if values.any() and not (kind is found.shared and op_type == ot.GC):
                kind[op_type] = values
                found.usual_s[op_type] = max(median_of_all(times_s.reshape(-1)), least_s)
    for op_type in sorted({int(each) for block in blocks for each in block.entry_types}):
        own = [(block, block.entry_types == op_type, block.entries) for block in blocks]
        totals_s = [by_worker(layout, block, ops[of], delay_s[of]) for block, of, (ops, delay_s) in own]
        late_s = _late(in_time(blocks, totals_s, 1), actual_s)
        if late_s.any():
            found.late_s[op_type] = late_s
    return found


def own_times(blocks: Sequence[BlockTimes], layout: Layout, own: OwnOps) -> list[OwnTimes]:
    """Decompose the durations of each block's ops whose type has slow ops."""
    types = own.slow.keys() | own.pauses.keys() | own.shared.keys()
    found = []
    for block in blocks:
        ops = np.array([op for op, each in enumerate(block.graph.op_types) if each in types], dtype=np.int64)
        duration_s = block.duration_s[ops]
        logs, shared_logs, paused_s = (
            _of_ops(block, ops, _in_steps(each, block)) for each in (own.slow, own.shared, own.pauses)
        )
        slow, shared = np.exp(logs), np.exp(shared_logs)
        pause_s = paused_s * _parts(block, layout, ops, duration_s)
        found.append(OwnTimes(ops, (duration_s - pause_s) / (slow * shared), slow, shared, pause_s))
    return found


def without_own(blocks: Sequence[BlockTimes], apart: Sequence[OwnTimes]) -> list[BlockTimes]:
    """Return the blocks with their slow ops at usual times.

    apart : as returned by own_times for these blocks.
    """
    found = []
    for block, own in zip(blocks, apart, strict=True):
        duration_s = block.duration_s.copy() if own.ops.size else block.duration_s
        duration_s[own.ops] = own.base_s
        found.append(block._replace(duration_s=duration_s))
    return found


def late_entries(blocks: Sequence[BlockTimes], layout: Layout, own: OwnOps) -> list[KeptDelays]:
    """Return each block's late entries into collectives, and by how much they exceed the usual delay."""
    found = []
    for block in blocks:
        is_late = np.isin(block.entry_types, list(own.late_s))
        ops, delay_s = block.entries.ops[is_late], block.entries.delay_s[is_late]
        late_s = _of_ops(block, ops, _in_steps(own.late_s, block)) * _parts(block, layout, ops, delay_s)
        found.append(KeptDelays(ops, late_s))
    return found


def _in_steps(by_type: dict[int, Floats], block: BlockTimes) -> dict[int, Floats]:
    """Select the values of each op type in the steps of a block."""
    return {op_type: values[:, block.steps] for op_type, values in by_type.items()}


def _of_ops(block: BlockTimes, ops: Ints, by_type: dict[int, Floats]) -> Floats:
    """Return each op's value from values by op type (p, step, d), or 0 without one; shape (op, step, dp)."""
    values = np.zeros((len(ops), *block.duration_s.shape[1:]))
    for place, op in enumerate(ops.tolist()):
        of_type = by_type.get(block.graph.op_types[op])
        if of_type is not None and block.graph.has_dp_lanes:
            values[place] = of_type[block.graph.stages[op]]
        elif of_type is not None:
            where = block.graph.ref(op)
            values[place] = of_type[where.stage, :, where.dp_rank, None]
    return values


def _parts(block: BlockTimes, layout: Layout, ops: Ints, values: Floats) -> Floats:
    """Return each op's value as a share of the sum over its worker and op type; shape (op, step, dp)."""
    types = block.types_of(ops)
    same = {op_type: types == op_type for op_type in set(types.tolist())}
    sums = {op_type: by_worker(layout, block, ops[at], values[at]) for op_type, at in same.items()}
    total = _of_ops(block, ops, sums)
    parts: Floats = np.divide(values, total, out=np.zeros_like(values), where=total > 0.0)
    return parts


def _slow(times_s: Floats, hosts: Ints, least_s: float) -> tuple[Floats, Floats, Floats]:
    """Return how slow workers, single long ops, and steps as a whole are, in ops of one type; each (p, s, d).

    times_s : shape (p, s, d). [s]
    least_s : smallest excess that matters. [s]
    returns : log excess of slow workers, time of single long ops [s], and log excess that all workers share.
    """
    # Times below least_s, also 0 of a missing op, are treated as equal.
    level = np.log(np.maximum(times_s, max(least_s, TINY_S)))[:, None]
    beyond = level - medians_along(level, 3, low=True)[..., None]
    even = np.ones(level.shape[2], dtype=bool)
    error = scatter_over_steps(beyond) if level.shape[3] > 1 else scatter_over_steps(level)
    if float(median_of_all(times_s.reshape(-1))) <= least_s:
        error = np.zeros_like(error)  # If most workers hardly run the op, a long one is not due to scatter.
    usual = usual_levels(level, error, hosts, even, even, error)
    beyond, stage = level - usual.level[..., None], usual.stage[..., None]
    slow = slow_series(beyond, Doubt(error[:, None] * even, apart_when_healthy(beyond), is_single=True))
    few = np.maximum(error, scatter_over_steps(stage))
    slow += slow_series(stage, Doubt(few[:, None] * even, np.zeros_like(few), is_single=True))
    slow[slow < LEAST_LOG] = 0.0
    left = level - usual.base[:, :, None, None] - usual.common[None, :, :, None] - slow
    usual_s = times_s / np.exp(np.maximum(left, 0.0) + slow)[:, 0]
    is_long = (left[:, 0] > max(LEAST_PAUSE, ERRORS_OF_PAUSE * float(error[0]))) & (
        times_s - usual_s > least_s
    )
    is_common = usual.common > max(LEAST_PAUSE, ERRORS_OF_PAUSE * float(error[0]))
    common = np.broadcast_to(np.where(is_common, usual.common, 0.0)[0][None, :, None], times_s.shape)
    return slow[:, 0], np.where(is_long, times_s - usual_s, 0.0), common


def _late(late_s: Floats, actual_s: float) -> Floats:
    """Return by how much significantly late entries exceed the usual delay, else 0; shape (p, s, d). [s]"""
    least_s, steps = LEAST_ENTRY * actual_s, late_s.shape[1]
    # A stage's usual delay is a low quantile over steps, or the mean of the earliest if clearly smaller.
    by_step_s = medians_along(late_s, 2, low=True)
    ordered_s = np.sort(by_step_s, axis=1)
    usual_s = quantile(ordered_s, USUAL_STEPS)
    if steps >= 2 * LEAST_QUIET:
        quiet_s = quietest(ordered_s)
        off_s = MAD_TO_SIGMA * medians_along(np.abs(by_step_s - medians_along(by_step_s, 1)[:, None]), 1)
        is_less = usual_s - quiet_s > np.maximum(least_s, ERRORS_OF_BASE * off_s)
        usual_s = np.where(is_less, quiet_s, usual_s)
    beyond_s = np.maximum(late_s - usual_s[:, None, None], 0.0)
    if not beyond_s.max() > least_s:
        return np.zeros_like(beyond_s)
    scatter_s = MAD_TO_SIGMA * float(medians_along(beyond_s.reshape(-1), 0, low=True))
    is_late = beyond_s > max(least_s, ERRORS * scatter_s)
    is_late &= is_late.sum(axis=1, keepdims=True) >= min(LEAST_HITS, steps)
    return np.where(is_late, beyond_s, 0.0)


def _times_of(blocks: Sequence[BlockTimes], layout: Layout, op_type: int) -> Floats | None:
    """Return each worker's time in ops of a type by step, (p, s, d); None if some worker has none. [s]"""
    parts = []
    for block in blocks:
        ops = np.flatnonzero(np.array(block.graph.op_types) == op_type)
        duration_s = block.duration_s[ops]
        number = by_worker(layout, block, ops, np.ones_like(duration_s))
        if op_type != ot.GC and not number.all():
            return None
        parts.append(by_worker(layout, block, ops, duration_s))
    return in_time(blocks, parts, 1)


def by_worker(layout: Layout, block: BlockTimes, ops: Ints, values: Floats) -> Floats:
    """Return the sum of values over each worker's ops, 0 for a worker without any; (stage, step, dp_rank).

    values : one for each op, shape (op, step, dp).
    """
    total = np.zeros((layout.pp_size, block.number_of_steps, layout.dp_size))
    for op, of_op in zip(ops.tolist(), values, strict=True):
        if block.graph.has_dp_lanes:
            total[block.graph.stages[op]] += of_op
        else:
            where = block.graph.ref(op)
            total[where.stage, :, where.dp_rank] += of_op[:, 0]
    return total
