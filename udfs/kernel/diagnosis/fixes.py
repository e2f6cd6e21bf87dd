"""Replay a job with any set of causes fixed."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import cause
from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.diagnosis.block_times import BlockTimes, KeptDelays, Tensor, in_time
from udfs.kernel.diagnosis.computes import NO_OP, Computes
from udfs.kernel.diagnosis.factors import Factors
from udfs.kernel.diagnosis.found import Found
from udfs.kernel.diagnosis.own_ops import OwnTimes
from udfs.kernel.diagnosis.usual_transfers import SlowOps
from udfs.kernel.diagnosis.works import Works, works
from udfs.kernel.graph.graph import Index
from udfs.kernel.replay.replay import last_ops, replay

Causes = frozenset[int]
Fixed = Causes
"""A set of causes that are fixed."""
NOTHING: Final[Fixed] = frozenset()

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

STACKED_VALUES: Final = 4_000_000
"""Most durations of computes that are in memory at a time, over all scenarios replayed together."""


class Fixable(NamedTuple):
    """One block of steps, and its ops that fixes change.

    slow    : slow transfers and data-loads, by cause.
    is_last : for each op, whether it may be the last of a step under some fix.
    """

    times: BlockTimes
    computes: Computes | None
    slow: dict[int, SlowOps]
    own: OwnTimes
    late: KeptDelays
    is_last: list[bool]


def may_end(times: BlockTimes) -> list[bool]:
    """Mark ops that may be the last of a step, whatever causes are fixed; one bool per op."""
    shortest_s = times.duration_s.reshape(times.graph.size, -1).min(axis=1)
    ops, delay_s = times.delays
    shortest_s[ops] = np.minimum(shortest_s[ops], delay_s.min(axis=(1, 2)))
    return last_ops(times.graph, shortest_s)


Scenario = tuple[Works | None, Causes]
"""Work of the computes, None if they were not decomposed, and the causes that are not fixed."""


def _step_times(block: Fixable, found: Found, scenarios: Sequence[Scenario]) -> Floats:
    """Return the step times of each scenario; float64, shape (scenario, step). [s]"""
    duration_s, left = block.times.duration_s, [causes for _, causes in scenarios]
    lanes = duration_s[0].size
    per_op: list[Floats] = list(duration_s.reshape(len(duration_s), 1, lanes))
    if block.computes is not None:
        _put_computes(block.computes, found, scenarios, per_op)
    for each, slow in block.slow.items():
        times_s = np.empty((len(slow.ops), len(left), lanes))
        for row, causes in enumerate(left):
            chosen_s = slow.as_is_s if each in causes else slow.usual_s
            times_s[:, row] = chosen_s.reshape(len(slow.ops), lanes)
        for op, of_op_s in zip(slow.ops.tolist(), times_s, strict=True):
            per_op[op] = of_op_s
    own = block.own
    for place, op in enumerate(own.ops.tolist()):
        base_s, slowed, shared, pause_s = (
            each_of[place].reshape(-1) for each_of in (own.base_s, own.slow, own.shared, own.pause_s)
        )
        per_op[op] = np.array(
            [
                base_s
                * (slowed if cause.SLOW_WORKER in causes else 1.0)
                * (shared if cause.UNEXPLAINED in causes else 1.0)
                + (pause_s if cause.PAUSE in causes else 0.0)
                for causes in left
            ]
        )
    delays: dict[int, Floats] = {}
    for each, (ops, delay_s) in ((cause.LAUNCH_DELAY, block.times.delays), (cause.SLOW_WORKER, block.late)):
        is_left = np.array([each in causes for causes in left], dtype=np.float64)[:, None]
        for op, of_op_s in zip(ops.tolist(), delay_s.reshape(len(ops), 1, lanes), strict=True):
            delays[op] = delays[op] + is_left * of_op_s if op in delays else is_left * of_op_s
    return replay(block.times.graph, per_op, (len(left), *duration_s.shape[1:]), block.is_last, delays)


def _put_computes(
    computes: Computes, found: Found, scenarios: Sequence[Scenario], per_op: list[Floats]
) -> None:
    factors = found.factors
    if factors is None:
        return
    ops = computes.ops
    some: tuple[Index, ...] = (*(slice(None),) * 4, computes.steps)
    *index, steps, dp_ranks = factors.noise[some].shape
    stack = np.empty((*index, len(scenarios), steps, dp_ranks))
    row_of: dict[tuple[int, Causes], int] = {}
    for row, (work, causes) in enumerate(scenarios):
        like = row_of.setdefault((id(work), causes & OF_COMPUTES), row)
        if like < row:
            stack[:, :, :, :, row] = stack[:, :, :, :, like]
        elif work is not None:
            _compute_times(found, factors, work, some, causes, stack[:, :, :, :, row])
    if computes.rows is not None and found.computes is not None:
        _scale(ops, computes.rows, stack, found.computes.times_s[some], per_op)
    elif ops.shape[-1] == 1:
        rows = stack.reshape(ops.size, len(scenarios), -1)
        for op, times_s in zip(ops.ravel().tolist(), rows, strict=True):
            per_op[op] = times_s
    else:
        for index_of_op in np.ndindex(ops.shape):
            *where, dp_rank = index_of_op
            per_op[ops[index_of_op]] = stack[tuple(where)][:, :, dp_rank]


def _scale(ops: Ints, rows: Ints, fixed_s: Floats, times_s: Tensor, per_op: list[Floats]) -> None:
    """Change recorded computes by the factor by which fixes change their position in the tensor.

    ops, rows : as in Computes.
    fixed_s   : durations after each scenario's fixes, shape (*index, scenario, step, dp_rank). [s]
    times_s   : durations before any fix, shape (*index, step, dp_rank). [s]
    """
    before_s = times_s[:, :, :, :, None]
    ratio = np.divide(fixed_s, before_s, out=np.ones_like(fixed_s), where=before_s > 0.0)
    for stage, direction, chunk, microbatch, dp_rank in np.argwhere(ops != NO_OP).tolist():
        of_op = ratio[stage, direction, chunk, rows[microbatch, dp_rank]]
        lanes = of_op if ops.shape[-1] == 1 else of_op[:, :, dp_rank]
        op = ops[stage, direction, chunk, microbatch, dp_rank]
        per_op[op] = per_op[op] * lanes.reshape(len(lanes), -1)


def _compute_times(
    found: Found, factors: Factors, work: Works, some: tuple[Index, ...], causes: Causes, out: Tensor
) -> None:
    """Fill `out` with the compute durations for the remaining causes. [s]

    some : indices of the block's computes and steps in the tensor.
    """
    # The fields of Works in order: as is, data balanced, stages balanced, both balanced.
    chosen = work[(cause.DATA_IMBALANCE not in causes) + 2 * (cause.STAGE_IMBALANCE not in causes)]
    np.multiply(chosen[some], factors.worker[some] if cause.SLOW_WORKER in causes else 1.0, out=out)
    if cause.MIXED_HARDWARE in causes and factors.types is not None:
        out *= factors.types.of_workers
    if cause.UNEXPLAINED not in causes and found.rest is not None:
        out /= np.exp(np.broadcast_to(found.rest, factors.noise.shape)[some])
    if cause.PAUSE in causes and factors.pause_s is not None:
        out += factors.pause_s[some]


class Replays:
    """Replays of one job with sets of causes fixed.

    Sets that differ only in causes which slow no op are replayed once. Results are kept, because mitigations
    need some of the replays of the diagnosis again.

    found : measured slowness of the job.
    work  : result of `works` for its factors, if already computed.
    """

    def __init__(self, found: Found, work: Works | None = None) -> None:
        self.found, factors = found, found.factors
        self.work = works(factors) if work is None and factors is not None else work
        self._present = found.present
        computes = found.computes.blocks if found.computes is not None else [None] * len(found.blocks)
        slow = [dict(zip(found.slow, each, strict=True)) for each in zip(*found.slow.values(), strict=True)]
        parts = (found.blocks, computes, slow, found.own_times, found.late)
        self._fixable = [
            Fixable(times, of_computes, of_block, own, late, may_end(times))
            for times, of_computes, of_block, own, late in zip(*parts, strict=True)
        ]
        self._known: dict[Causes, Floats] = {}

    def times_s(self, fixes: Sequence[Fixed]) -> dict[Fixed, Floats]:
        """Return, by set of fixed causes, the mean replayed step time followed by that of each step. [s]"""
        left = {fixed: self._present - fixed for fixed in fixes}
        unknown = [causes for causes in dict.fromkeys(left.values()) if causes not in self._known]
        if unknown:
            replayed_s = self._replayed([(self.work, causes) for causes in unknown])
            self._known.update(zip(unknown, replayed_s, strict=True))
        return {fixed: self._known[causes] for fixed, causes in left.items()}

    def mean_s(self, fixed: Fixed = NOTHING) -> float:
        """Return the mean replayed step time with some causes fixed. [s]"""
        return float(self.times_s([fixed])[fixed][0])

    def of_works_s(self, works_s: Sequence[Tensor]) -> list[float]:
        """Return the mean replayed step time for each of the given works, with no cause fixed. [s]

        works_s : durations of all computes on usual workers, a tensor each. [s]
        """
        works = [Works(each_s, each_s, each_s, each_s) for each_s in works_s]
        found: list[float] = self._replayed([(each, self._present) for each in works])[:, 0].tolist()
        return found

    def _replayed(self, scenarios: Sequence[Scenario]) -> Floats:
        """Return each scenario's mean step time, then its step times; shape (scenario, 1 + step). [s]"""
        of_blocks_s = []
        for block in self._fixable:
            lanes = block.times.duration_s[0].size
            values = 1 if block.computes is None else block.computes.ops.size * lanes
            together = max(1, STACKED_VALUES // values)
            parts = [
                _step_times(block, self.found, scenarios[first : first + together])
                for first in range(0, len(scenarios), together)
            ]
            of_blocks_s.append(np.concatenate(parts))
        mean_s = sum(each.sum(axis=1) for each in of_blocks_s) / self.found.steps
        return np.column_stack([mean_s, in_time(self.found.blocks, of_blocks_s, 1)])


def without_transfers(times: BlockTimes) -> Floats:
    """Return replayed step times if transfers took no time, and other ops as long as recorded. [s]

    returns : shape (step,).
    """
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
    """Return a lower bound for step times: the longest total compute time of a worker; shape (step,). [s]"""
    longest_s = np.zeros(times.number_of_steps)
    for by_type in times.graph.ops_by_type:
        forwards, backwards = (by_type[each] for each in ot.COMPUTE)
        computes = times.duration_s[forwards.start : backwards.stop]
        np.maximum(longest_s, computes.sum(axis=0).max(axis=-1), out=longest_s)
    early_s: float = times.delays.delay_s.min(initial=0.0)
    return longest_s + early_s
