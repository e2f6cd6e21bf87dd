"""Replays with causes fixed: alone, together, and in every combination that matters."""

from collections.abc import Sequence
from itertools import combinations
from math import comb
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import cause
from udfs.kernel.diagnosis.compute_times import BlockTimes, ComputeOps, Tensor
from udfs.kernel.diagnosis.factors import TINY_S, Factors
from udfs.kernel.diagnosis.transfers import SlowTransfers
from udfs.kernel.diagnosis.workers import MAD_TO_SIGMA
from udfs.kernel.program import Floats
from udfs.kernel.replay import replay_rows

Fixed = frozenset[int]
"""Causes that are fixed."""

MOST_SIGMAS: Final = 4.0
"""Errors of measurement beyond are misfits of the work, not noise."""

STACKED_VALUES: Final = 4_000_000
"""Durations of computes that are held for stacked scenarios at a time."""


class Works(NamedTuple):
    """What computes take on usual workers without pauses, by what is fixed; Tensors. [s]"""

    as_is: Tensor
    data: Tensor
    stage: Tensor
    both: Tensor


def works(factors: Factors) -> Works:
    """Work as it is, balanced over microbatches within a step, spread over stages and chunks, and both.

    A fix keeps the sum of each stage, direction and chunk, or of each direction.
    """
    work_s, noise = factors.work_s, factors.noise
    as_is_s = work_s * noise
    by_kind_s = as_is_s.mean(axis=(3, 4, 5), keepdims=True)
    of_all_s = by_kind_s.mean(axis=(0, 2), keepdims=True)
    over_stages_s = _with_mean(work_s.mean(axis=(0, 2), keepdims=True) * noise, (0, 2, 3, 4, 5), of_all_s)
    if not factors.data.is_real:
        return Works(as_is_s, as_is_s, over_stages_s, over_stages_s)
    balanced_s = work_s.mean(axis=(3, 5), keepdims=True)
    # What is left of a light microbatch is small beside the work that it gets, however large beside its own.
    left = 1.0 + (as_is_s - work_s) / np.maximum(np.maximum(work_s, balanced_s), TINY_S)
    left *= _error(left)
    both_s = balanced_s.mean(axis=(0, 2), keepdims=True)
    return Works(
        as_is_s,
        _with_mean(balanced_s * left, (3, 4, 5), by_kind_s),
        over_stages_s,
        _with_mean(both_s * left, (0, 2, 3, 4, 5), of_all_s),
    )


def _with_mean(times_s: Tensor, axes: tuple[int, ...], mean_s: Tensor) -> Tensor:
    """Times scaled so that their mean over some axes is as given."""
    scale = mean_s / np.maximum(times_s.mean(axis=axes, keepdims=True), TINY_S)
    scaled_s: Tensor = np.multiply(times_s, scale, out=times_s)
    return scaled_s


def _error(left: Tensor) -> Floats:
    """A factor that scatters like the error of the weights, from two halves of their measurements.

    The weights took with them their share of the noise, which a fix of the data does not take away: steps end
    with the slowest.

    left    : what is left beside work; Tensor.
    returns : shape (1, direction, 1, microbatch, step, dp_rank).
    """
    p, k, c, m, s, d = left.shape
    measured = np.log(np.maximum(left, TINY_S)).swapaxes(1, 2).reshape(p * c, k, m, s, d)
    if p * c > 1:
        error = (measured[::2].mean(axis=0) - measured[1::2].mean(axis=0)) / 2
    else:
        error = np.broadcast_to((measured[0, 0] - measured[0, -1]) / 2, (k, m, s, d))
    error = error - error.mean(axis=(1, 3), keepdims=True)
    most = MOST_SIGMAS * MAD_TO_SIGMA * float(np.median(np.abs(error)))
    return np.asarray(np.exp(np.clip(error, -most, most))[None, :, None])


class Fixable(NamedTuple):
    """One block with all that can be fixed in it. part : its steps in the tensors; None where it has none."""

    times: BlockTimes
    computes: ComputeOps | None
    part: slice | None
    transfers: SlowTransfers


def step_times(block: Fixable, factors: Factors | None, work: Works | None, fixes: Sequence[Fixed]) -> Floats:
    """Step times with sets of causes fixed; float64, shape (fix, step). [s]"""
    together = max(1, STACKED_VALUES // block.times.duration_s.size)
    parts = [
        _step_times(block, factors, work, fixes[first : first + together])
        for first in range(0, len(fixes), together)
    ]
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _step_times(
    block: Fixable, factors: Factors | None, work: Works | None, fixes: Sequence[Fixed]
) -> Floats:
    graph, duration_s = block.times.graph, block.times.duration_s
    lanes = duration_s[0].size
    per_op: list[Floats] = [values.reshape(1, lanes) for values in duration_s]
    if block.computes is not None and factors is not None and work is not None:
        _put_computes(block, factors, work, fixes, per_op)
    if len(block.transfers.ops):
        is_fixed = np.array([cause.COMMUNICATION in fixed for fixed in fixes])
        for op, as_is_s, usual_s in zip(
            block.transfers.ops.tolist(), block.transfers.as_is_s, block.transfers.usual_s, strict=True
        ):
            per_op[op] = np.where(is_fixed[:, None], usual_s.reshape(1, lanes), as_is_s.reshape(1, lanes))
    is_late = np.array([cause.LAUNCH_DELAY not in fixed for fixed in fixes], dtype=np.float64)[:, None]
    delays = {
        op: is_late * delay_s.reshape(1, lanes)
        for op, delay_s in zip(block.times.delays.ops.tolist(), block.times.delays.delay_s, strict=True)
    }
    return replay_rows(graph, per_op, delays, (len(fixes), *duration_s.shape[1:]))


def _put_computes(
    block: Fixable, factors: Factors, work: Works, fixes: Sequence[Fixed], per_op: list[Floats]
) -> None:
    """Durations of the computes of each scenario."""
    found = [_compute_times(block, factors, work, fixed) for fixed in fixes]
    ops = block.computes.ops if block.computes is not None else np.empty(0, dtype=np.int64)
    if ops.shape[-1] == 1:
        for index in np.ndindex(ops.shape[:-1]):
            per_op[ops[index][0]] = np.array([times_s[index].reshape(-1) for times_s in found])
    else:
        for index in np.ndindex(ops.shape):
            *where, dp_rank = index
            per_op[ops[index]] = np.array([times_s[tuple(where)][:, dp_rank] for times_s in found])


def _compute_times(block: Fixable, factors: Factors, work: Works, fixed: Fixed) -> Tensor:
    """Durations of a block's computes with some causes fixed. [s]"""
    fixes_data, fixes_stage = cause.DATA_IMBALANCE in fixed, cause.STAGE_IMBALANCE in fixed
    chosen = {
        (False, False): work.as_is,
        (True, False): work.data,
        (False, True): work.stage,
        (True, True): work.both,
    }[fixes_data, fixes_stage]
    some = (slice(None),) * 4 + (block.part,)

    times_s = chosen[some]
    if cause.SLOW_WORKER not in fixed:
        times_s = times_s * factors.worker[some]
    if cause.PAUSE not in fixed:
        times_s = times_s + factors.pause_s[some]
    return times_s


class Savings(NamedTuple):
    """Shares of T_actual that fixes save.

    alone      : cause -> saved by its fix alone.
    attributed : cause -> its share in what all fixes together save.
    together   : saved by all fixes together.
    replayed   : replay with nothing fixed, over T_actual.
    """

    alone: dict[int, float]
    attributed: dict[int, float]
    together: float
    replayed: float


def without_transfers(times: BlockTimes) -> Floats:
    """Step times if no transfer took any time, all else as it ran; float64, shape (step,). [s]"""
    graph, duration_s = times.graph, times.duration_s
    shape = (1, *duration_s.shape[1:])
    per_op: list[Floats] = [values.reshape(1, -1) for values in duration_s]
    nothing = np.zeros((1, duration_s[0].size))
    for members, _ in graph.meetings:
        for op in (op for ops in members for op in ops):
            per_op[op] = nothing
    delays = {
        op: delay_s.reshape(1, -1)
        for op, delay_s in zip(times.delays.ops.tolist(), times.delays.delay_s, strict=True)
    }
    step_s: Floats = replay_rows(graph, per_op, delays, shape)[0]
    return step_s


def shapley(value_of: dict[Fixed, float], players: Sequence[int]) -> dict[int, float]:
    """Shapley value of each player (Shapley 1953): its mean contribution over all orders.

    value_of : value of every subset of the players.
    """
    number = len(players)
    found = dict.fromkeys(players, 0.0)
    for player in players:
        others = [other for other in players if other != player]
        for size in range(number):
            weight = 1.0 / (number * comb(number - 1, size))
            for chosen in combinations(others, size):
                before = frozenset(chosen)
                found[player] += weight * (value_of[before | {player}] - value_of[before])
    return found
