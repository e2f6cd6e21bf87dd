"""Replays with causes fixed: alone, together, and in the combinations that Shapley values need."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import cause
from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats
from udfs.kernel.diagnosis.block_times import BlockTimes, Computes, KeptDelays, Tensor
from udfs.kernel.diagnosis.factors import TINY_S, Factors
from udfs.kernel.diagnosis.levels import MAD_TO_SIGMA
from udfs.kernel.diagnosis.loads import SlowLoads
from udfs.kernel.diagnosis.own_ops import OwnTimes
from udfs.kernel.diagnosis.transfers import SlowTransfers
from udfs.kernel.replay.replay import last_ops, replay
from udfs.kernel.selection import median_of_all

Causes = frozenset[int]
Fixed = Causes
"""Causes that are fixed."""

OF_COMPUTES: Final[Causes] = frozenset(
    {
        cause.SLOW_WORKER,
        cause.STAGE_IMBALANCE,
        cause.DATA_IMBALANCE,
        cause.PAUSE,
        cause.MIXED_HARDWARE,
        cause.UNEXPLAINED,
    }
)
"""Causes that lengthen computes."""

MOST_SIGMAS: Final = 4.0
"""Errors of measurement beyond are misfits of the work, not noise."""

STACKED_VALUES: Final = 4_000_000
"""Durations of computes in memory at a time for stacked scenarios."""


class Works(NamedTuple):
    """Compute durations on usual workers without pauses, for each combination of balancing fixes. [s]"""

    as_is: Tensor
    data: Tensor
    stage: Tensor
    both: Tensor


def works(factors: Factors) -> Works:
    """Work as recorded, balanced over microbatches, balanced over stages and chunks, and both.

    A fix keeps the sum of each stage, direction and chunk, or of each direction.
    """
    work_s, noise = factors.work_s, factors.noise
    as_is_s = work_s * noise
    by_kind_s = as_is_s.mean(axis=(3, 4, 5), keepdims=True)
    of_all_s = by_kind_s.mean(axis=(0, 2), keepdims=True)
    over_stages_s = as_is_s
    if by_kind_s.shape[0] * by_kind_s.shape[2] > 1:
        even_s = work_s.mean(axis=(0, 2), keepdims=True) * noise
        over_stages_s = _with_mean(even_s, (0, 2, 3, 4, 5), of_all_s)
    if not factors.data.is_real:
        return Works(as_is_s, as_is_s, over_stages_s, over_stages_s)
    balanced_s = work_s.mean(axis=(3, 5), keepdims=True)
    # What is left of a light microbatch is small beside the work that it gets, however large beside its own.
    left = as_is_s - work_s
    left /= np.maximum(np.maximum(work_s, balanced_s), TINY_S)
    left += 1.0
    left *= _error(left)
    both_s = balanced_s.mean(axis=(0, 2), keepdims=True)
    return Works(
        as_is_s,
        _with_mean(balanced_s * left, (3, 4, 5), by_kind_s),
        over_stages_s,
        _with_mean(both_s * left, (0, 2, 3, 4, 5), of_all_s),
    )


def _with_mean(times_s: Tensor, axes: tuple[int, ...], mean_s: Tensor) -> Tensor:
    """Scale times so that their mean over the given axes equals mean_s; overwrites times_s. [s]"""
    scale = mean_s / np.maximum(times_s.mean(axis=axes, keepdims=True), TINY_S)
    scaled_s: Tensor = np.multiply(times_s, scale, out=times_s)
    return scaled_s


def _error(left: Tensor) -> Floats:
    """Factors that scatter like the error of microbatch weights, from the difference of two halves.

    The weights took with them their share of the noise, which a fix of the data does not take away: steps end
    with the slowest.

    left    : what is left beside work; Tensor.
    returns : shape (1, direction, 1, microbatch, step, dp_rank).
    """
    p, k, c, m, s, d = left.shape
    measured = np.maximum(left, TINY_S)
    measured = np.log(measured, out=measured).swapaxes(1, 2).reshape(p * c, k, m, s, d)
    if p * c > 1:
        error = (measured[::2].mean(axis=0) - measured[1::2].mean(axis=0)) / 2
    else:
        error = np.broadcast_to((measured[0, 0] - measured[0, -1]) / 2, (k, m, s, d))
    error = error - error.mean(axis=(1, 3), keepdims=True)
    most = MOST_SIGMAS * MAD_TO_SIGMA * median_of_all(np.abs(error).reshape(-1))
    return np.asarray(np.exp(np.clip(error, -most, most))[None, :, None])


class Fixable(NamedTuple):
    """One block and all that can be fixed in it; is_last : ops that may end a step under any fix."""

    times: BlockTimes
    computes: Computes | None
    transfers: SlowTransfers
    loads: SlowLoads
    own: OwnTimes
    late: KeptDelays
    is_last: list[bool]


def may_end(times: BlockTimes) -> list[bool]:
    """Mark ops that may end a step under any set of fixes; bool per op."""
    shortest_s = times.duration_s.reshape(times.graph.size, -1).min(axis=1)
    ops, delay_s = times.delays
    shortest_s[ops] = np.minimum(shortest_s[ops], delay_s.min(axis=(1, 2)))
    return last_ops(times.graph, shortest_s)


class Split(NamedTuple):
    """Decomposed computes: factors, balanced works, and log excess that no cause explains."""

    factors: Factors
    work: Works
    rest: Floats | None


def step_times(block: Fixable, split: Split | None, left: Sequence[Causes]) -> Floats:
    """Step times with only the causes in `left` left in; float64, shape (set of causes, step). [s]"""
    values = block.computes.ops.size * block.times.duration_s[0].size if block.computes is not None else 1
    together = max(1, STACKED_VALUES // values)
    parts = [
        _step_times(block, split, left[first : first + together]) for first in range(0, len(left), together)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _step_times(block: Fixable, split: Split | None, left: Sequence[Causes]) -> Floats:
    duration_s = block.times.duration_s
    lanes = duration_s[0].size
    per_op: list[Floats] = list(duration_s.reshape(len(duration_s), 1, lanes))
    if block.computes is not None and split is not None:
        _put_computes(block.computes, split, left, per_op)
    for each, slow in ((cause.COMMUNICATION, block.transfers), (cause.DATA_LOADING, block.loads)):
        times_s = np.empty((len(slow.ops), len(left), lanes))
        for row, causes in enumerate(left):
            chosen_s = slow.as_is_s if each in causes else slow.usual_s
            times_s[:, row] = chosen_s.reshape(len(slow.ops), lanes)
        for op, of_op_s in zip(slow.ops.tolist(), times_s, strict=True):
            per_op[op] = of_op_s
    _put_own(block.own, left, per_op)
    delays = _delays(block, left)
    return replay(block.times.graph, per_op, (len(left), *duration_s.shape[1:]), block.is_last, delays)


def _delays(block: Fixable, left: Sequence[Causes]) -> dict[int, Floats]:
    """Delay of each op's start under each set of remaining causes, shape (set of causes, lane). [s]"""
    found: dict[int, Floats] = {}
    lanes = block.times.duration_s[0].size
    for each, (ops, delay_s) in ((cause.LAUNCH_DELAY, block.times.delays), (cause.SLOW_WORKER, block.late)):
        is_left = np.array([each in causes for causes in left], dtype=np.float64)[:, None]
        for op, of_op_s in zip(ops.tolist(), delay_s.reshape(len(ops), 1, lanes), strict=True):
            found[op] = found[op] + is_left * of_op_s if op in found else is_left * of_op_s
    return found


def _put_own(own: OwnTimes, left: Sequence[Causes], per_op: list[Floats]) -> None:
    """Set durations of slow tail and local ops for each set of remaining causes."""
    for place, op in enumerate(own.ops.tolist()):
        base_s, slow, shared, pause_s = (
            each[place].reshape(-1) for each in (own.base_s, own.slow, own.shared, own.pause_s)
        )
        per_op[op] = np.array(
            [
                base_s
                * (slow if cause.SLOW_WORKER in causes else 1.0)
                * (shared if cause.UNEXPLAINED in causes else 1.0)
                + (pause_s if cause.PAUSE in causes else 0.0)
                for causes in left
            ]
        )


def _put_computes(computes: Computes, split: Split, left: Sequence[Causes], per_op: list[Floats]) -> None:
    """Set durations of computes for each set of remaining causes."""
    ops, some = computes.ops, (slice(None),) * 4 + (computes.steps,)
    *index, steps, dp_ranks = split.work.as_is[some].shape
    stack = np.empty((*index, len(left), steps, dp_ranks))
    row_of: dict[Causes, int] = {}
    for row, causes in enumerate(left):
        like = row_of.setdefault(causes & OF_COMPUTES, row)
        if like < row:
            stack[:, :, :, :, row] = stack[:, :, :, :, like]
        else:
            _compute_times(split, some, causes, stack[:, :, :, :, row])
    if ops.shape[-1] == 1:
        rows = stack.reshape(ops.size, len(left), -1)
        for op, times_s in zip(ops.ravel().tolist(), rows, strict=True):
            per_op[op] = times_s
    else:
        for index_of_op in np.ndindex(ops.shape):
            *where, dp_rank = index_of_op
            per_op[ops[index_of_op]] = stack[tuple(where)][:, :, dp_rank]


def _compute_times(split: Split, some: tuple[slice, ...], causes: Causes, out: Tensor) -> None:
    """Compute durations with some causes left in, written to out. [s]"""
    factors, work, rest = split
    chosen = {
        (True, True): work.as_is,
        (False, True): work.data,
        (True, False): work.stage,
        (False, False): work.both,
    }[cause.DATA_IMBALANCE in causes, cause.STAGE_IMBALANCE in causes]
    np.multiply(chosen[some], factors.worker[some] if cause.SLOW_WORKER in causes else 1.0, out=out)
    if cause.MIXED_HARDWARE in causes and factors.types is not None:
        out *= factors.types.of_workers
    if cause.UNEXPLAINED not in causes and rest is not None:
        out /= np.exp(np.broadcast_to(rest, factors.noise.shape)[some])
    if cause.PAUSE in causes and factors.pause_s is not None:
        out += factors.pause_s[some]


def without_transfers(times: BlockTimes) -> Floats:
    """Step times if transfers took no time and all else ran as recorded; float64, shape (step,). [s]"""
    graph, duration_s = times.graph, times.duration_s
    shape = (1, *duration_s.shape[1:])
    per_op: list[Floats] = list(duration_s.reshape(len(duration_s), 1, -1))
    nothing = np.zeros((1, duration_s[0].size))
    for members, _ in graph.meetings:
        for op in (op for ops in members for op in ops):
            per_op[op] = nothing
    delays = {
        op: delay_s.reshape(1, -1)
        for op, delay_s in zip(times.delays.ops.tolist(), times.delays.delay_s, strict=True)
    }
    step_s: Floats = replay(graph, per_op, shape, may_end(times), delays)[0]
    return step_s


def busiest(times: BlockTimes) -> Floats:
    """Lower bound on step time without transfers: the busiest worker's computes; shape (step,). [s]"""
    longest_s = np.zeros(times.number_of_steps)
    for cell, base in zip(times.graph.cells, times.graph.first_op, strict=False):
        computes = times.duration_s[base : base + cell.program.first_ops[ot.COMPUTE[-1] + 1]]
        np.maximum(longest_s, computes.sum(axis=0).max(axis=-1), out=longest_s)
    early_s: float = times.delays.delay_s.min(initial=0.0)
    return longest_s + early_s
