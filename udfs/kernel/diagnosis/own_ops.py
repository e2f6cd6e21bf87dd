"""Slow ops that wait for no other worker (optimizer, clip, gc), and late entries into collectives.

Each op type is compared with the same op of the step's peers, as computes are.
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
"""Op types that take a smaller share of a step are ignored: their scatter costs nothing noticeable."""

LEAST_LOG: Final = 0.05
LEAST_ENTRY: Final = 0.005
"""Log of the least factor of an op, and share of a step that a late entry takes, to count as slow."""

LEAST_PAUSE: Final = 0.15
ERRORS_OF_PAUSE: Final = 6.0
"""A single op is a pause beyond this log, and this multiple of the usual scatter."""


class OwnTimes(NamedTuple):
    """Durations of a block's slow local ops, as base_s x slow x shared + pause_s.

    ops     : int, shape (op,).
    base_s, pause_s : float64, shape (op, step, dp). [s]
    slow, shared    : factors, of the same shape; of the worker, and of all workers, which no cause explains.
    """

    ops: Ints
    base_s: Floats
    slow: Floats
    shared: Floats
    pause_s: Floats


class OwnOps(NamedTuple):
    """What is slow in ops other than computes and transfers, by op type.

    slow   : op type -> log factors of its ops, 0 where not slow, shape (p, s, d).
    pauses : op type -> time of single long ops beyond the usual, shape (p, s, d). [s]
    shared : op type -> log factors by which all workers' ops are longer, which no cause explains; (p, s, d).
    usual_s : op type -> its usual time in a step, at least what counts: log factors are over that. [s]
    late_s : op type -> by how much workers entered it late, else 0, shape (p, s, d). [s]
    """

    slow: dict[int, Floats]
    pauses: dict[int, Floats]
    shared: dict[int, Floats]
    usual_s: dict[int, float]
    late_s: dict[int, Floats]


def own_ops(blocks: Sequence[BlockTimes], layout: Layout, hosts: Ints, actual_s: float) -> OwnOps:
    """Find slow ops, and late collective entries, of single workers.

    actual_s : mean recorded step time. [s]
    """
    found, least_s = OwnOps({}, {}, {}, {}, {}), LEAST_SHARE * actual_s
    for op_type in ot.OWN:
        times_s = _times_of(blocks, layout, op_type)
        if times_s is None or times_s.max() < least_s:
            continue
        if op_type == ot.OPTIMIZER_CLIP_MAIN_GRAD:
            # All workers clip together, and do the same there, whatever their stage.
            p, s, d = times_s.shape
            together_s = times_s.swapaxes(0, 1).reshape(1, s, p * d)
            parts = _slow(together_s, hosts.reshape(1, -1), least_s)
            slow, pauses_s, shared = (each.reshape(s, p, d).swapaxes(0, 1) for each in parts)
        else:
            slow, pauses_s, shared = _slow(times_s, hosts, least_s)
        for kind, values in ((found.slow, slow), (found.pauses, pauses_s), (found.shared, shared)):
            # Workers that collect garbage in the same step do so by plan.
            if values.any() and not (kind is found.shared and op_type == ot.GC):
                kind[op_type] = values
                found.usual_s[op_type] = max(median_of_all(times_s.reshape(-1)), least_s)
    for op_type, late_s in _entries(blocks, layout).items():
        late = _late(late_s, actual_s)
        if late.any():
            found.late_s[op_type] = late
    return found


def own_times(blocks: Sequence[BlockTimes], layout: Layout, own: OwnOps) -> list[OwnTimes]:
    """Divide the durations of each block's slow ops into the factors of OwnTimes."""
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
    """Return the blocks with slow ops at their usual times."""
    found = []
    for block, own in zip(blocks, apart, strict=True):
        duration_s = block.duration_s.copy() if own.ops.size else block.duration_s
        duration_s[own.ops] = own.base_s
        found.append(block._replace(duration_s=duration_s))
    return found


def late_entries(blocks: Sequence[BlockTimes], layout: Layout, own: OwnOps) -> list[KeptDelays]:
    """Return for each block the entries into collectives that were late because of the worker itself."""
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
    """Spread values per worker and op type over the ops, 0 where there is no value; shape (op, step, dp)."""
    values = np.zeros((len(ops), *block.duration_s.shape[1:]))
    for place, op in enumerate(ops.tolist()):
        of_type = by_type.get(block.graph.op_types[op])
        if of_type is not None:
            values[place] = at_op(block, op, of_type)
    return values


def _parts(block: BlockTimes, layout: Layout, ops: Ints, values: Floats) -> Floats:
    """Return which part of the total of its worker and op type each op has; shape (op, step, dp)."""
    types = block.types_of(ops)
    same = {op_type: types == op_type for op_type in set(types.tolist())}
    sums = {op_type: by_worker(layout, block, ops[at], values[at])[0] for op_type, at in same.items()}
    total = _of_ops(block, ops, sums)
    parts: Floats = np.divide(values, total, out=np.zeros_like(values), where=total > 0.0)
    return parts


def at_op(block: BlockTimes, op: int, values: Floats) -> Floats:
    """Pick from the values of all workers, shape (p, step, d), those of an op's workers, shape (step, dp)."""
    if block.graph.has_dp_lanes:
        of_stage: Floats = values[block.graph.stages[op]]
        return of_stage
    where = block.graph.ref(op)
    return np.asarray(values[where.stage, :, where.dp_rank, None])


def _slow(times_s: Floats, hosts: Ints, least_s: float) -> tuple[Floats, Floats, Floats]:
    """Return the excess in ops of one type: by worker, by single op, and by all workers together.

    times_s : shape (p, s, d). [s]
    least_s : of an excess that counts. [s]
    """
    # What is short, or was not there at all, is as good as any other short one.
    level = np.log(np.maximum(times_s, max(least_s, TINY_S)))[:, None]
    beyond = level - medians_along(level, 3, low=True)[..., None]
    even = np.ones(level.shape[2], dtype=bool)
    error = scatter_over_steps(beyond) if level.shape[3] > 1 else scatter_over_steps(level)
    if float(median_of_all(times_s.reshape(-1))) <= least_s:
        error = np.zeros_like(error)  # Most workers hardly do it: what one does is not scatter.
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
    """Return by how much entries are significantly late, else 0; shape (p, s, d). [s]"""
    usual_s = _usual_entry_s(medians_along(late_s, 2, low=True), LEAST_ENTRY * actual_s)
    beyond_s = np.maximum(late_s - usual_s[:, None, None], 0.0)
    if not beyond_s.max() > LEAST_ENTRY * actual_s:
        return np.zeros_like(beyond_s)
    scatter_s = MAD_TO_SIGMA * float(medians_along(beyond_s.reshape(-1), 0, low=True))
    is_late = beyond_s > max(LEAST_ENTRY * actual_s, ERRORS * scatter_s)
    is_late &= is_late.sum(axis=1, keepdims=True) >= min(LEAST_HITS, late_s.shape[1])
    return np.where(is_late, beyond_s, 0.0)


def _usual_entry_s(by_step_s: Floats, least_s: float) -> Floats:
    """Return how late a stage usually enters: a low quantile, or that of a few quiet steps; shape (p,). [s]

    by_step_s : shape (p, s). least_s : of a late entry that counts. [s]
    """
    ordered_s = np.sort(by_step_s, axis=1)
    usual_s = quantile(ordered_s, USUAL_STEPS)
    if by_step_s.shape[1] < 2 * LEAST_QUIET:
        return usual_s
    quiet_s = quietest(ordered_s)
    scatter_s = MAD_TO_SIGMA * medians_along(np.abs(by_step_s - medians_along(by_step_s, 1)[:, None]), 1)
    return np.where(usual_s - quiet_s > np.maximum(least_s, ERRORS_OF_BASE * scatter_s), quiet_s, usual_s)


def _times_of(blocks: Sequence[BlockTimes], layout: Layout, op_type: int) -> Floats | None:
    """Return each worker's time in ops of a type per step, (p, s, d); None if a worker has no such op. [s]"""
    parts = []
    for block in blocks:
        ops = np.flatnonzero(np.array(block.graph.op_types) == op_type)
        total_s, is_known = by_worker(layout, block, ops, block.duration_s[ops])
        if not is_known.all() and op_type != ot.GC:
            return None
        parts.append(total_s)
    return in_time(blocks, parts, 1)


def _entries(blocks: Sequence[BlockTimes], layout: Layout) -> dict[int, Floats]:
    """Return how late workers enter ops of each type in total, per step; shape (p, s, d). [s]"""
    found: dict[int, Floats] = {}
    for op_type in sorted({int(each) for block in blocks for each in block.entry_types}):
        own = [(block, block.entry_types == op_type, block.entries) for block in blocks]
        parts = [by_worker(layout, block, ops[of], delay_s[of])[0] for block, of, (ops, delay_s) in own]
        found[op_type] = in_time(blocks, parts, 1)
    return found


def by_worker(layout: Layout, block: BlockTimes, ops: Ints, values: Floats) -> tuple[Floats, Floats]:
    """Sum values over the ops of each worker, and mark workers with any op; shape (stage, step, dp_rank).

    values : of the ops, shape (op, step, dp).
    """
    total = np.zeros((layout.pp_size, block.number_of_steps, layout.dp_size))
    known = np.zeros(total.shape, dtype=bool)
    for op, of_op in zip(ops.tolist(), values, strict=True):
        if block.graph.has_dp_lanes:
            total[block.graph.stages[op]] += of_op
            known[block.graph.stages[op]] = True
        else:
            where = block.graph.ref(op)
            total[where.stage, :, where.dp_rank] += of_op[:, 0]
            known[where.stage, :, where.dp_rank] = True
    return total, known
