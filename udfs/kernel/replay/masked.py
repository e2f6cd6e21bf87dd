"""Replays in which chosen ops take recorded, ideal or scaled durations; several replays in one pass.

`stacked` replays the scenarios of the model's section 5 faster; tests compare its results with these.
"""

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Final, NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.graph.graph import Layout, OpGraph
from udfs.kernel.recorded.first_pass import Recorded, refuse_timeless
from udfs.kernel.replay.ideal import IDEALS, PAPER_IDEAL, Ideal, ideal_durations, ideal_of_ops
from udfs.kernel.replay.replay import replay, step_times
from udfs.kernel.replay.scenario_rows import TYPE_GROUP
from udfs.kernel.replay.stacked import ScenarioTimes
from udfs.kernel.replay.timeline import replayed_timeline

STACKED_VALUES: Final = 20_000_000
"""Most numbers in one stack of scenarios (160 MB), so that jobs whose dp ranks disagree fit in memory."""


def op_stages(graph: OpGraph) -> Ints:
    """Return the stage of each op, shape (op, 1)."""
    return np.array(graph.stages)[:, None]


def op_dp_ranks(graph: OpGraph, dp_size: int) -> Ints:
    """Return each op's dp rank: shape (1, dp) if dp ranks are lanes, (op, 1) if each has its own ops."""
    if graph.has_dp_lanes:
        return np.arange(dp_size)[None, :]
    sizes = [cell.program.size for cell in graph.cells]
    return np.repeat([cell.dp_rank for cell in graph.cells], sizes)[:, None]


def replay_masks(
    graph: OpGraph,
    duration_s: Floats,
    ideal_of_op: Floats,
    recorded: Mask,
    is_last: Sequence[bool] | None = None,
) -> Floats:
    """Return the step times of scenarios in which masked ops are as recorded and all others are ideal.

    duration_s  : float64, shape (op, step, dp). [s]
    ideal_of_op : float64, shape (op,). [s]
    recorded    : bool, shape (scenario, op, dp) or broadcastable to it.
    is_last     : as in `replay`.
    returns     : float64, shape (scenario, step). [s]
    """
    size, steps, lanes = duration_s.shape
    masks = np.broadcast_to(recorded, (len(recorded), size, lanes))
    together = max(1, STACKED_VALUES // duration_s.size)
    times = []
    for first in range(0, len(masks), together):
        mask = masks[first : first + together].swapaxes(0, 1)[:, :, None]
        scenario_s = np.where(mask, duration_s[:, None], ideal_of_op[:, None, None, None])
        shape = (scenario_s.shape[1], steps, lanes)
        times.append(replay(graph, list(scenario_s.reshape(size, shape[0], -1)), shape, is_last))
    return np.concatenate(times)


def replay_one_by_one(
    graph: OpGraph, layout: Layout, duration_s: Floats, ideal_of_op: Floats
) -> ScenarioTimes:
    """Replay the scenarios of the model's section 5 with lanes for each of them; slower than `stacked`.

    duration_s  : float64, shape (op, step, dp). [s]
    ideal_of_op : float64, shape (op,). [s]
    """
    stages, dp_ranks = op_stages(graph), op_dp_ranks(graph, layout.dp_size)
    groups = np.array(TYPE_GROUP)[list(graph.op_types)][:, None]
    present = sorted(set(groups[:, 0].tolist()))
    one_per_stage = np.arange(layout.pp_size)[:, None, None]
    one_per_dp_rank = np.arange(layout.dp_size)[:, None, None]
    last_stage = stages == layout.pp_size - 1

    def times(recorded: Mask) -> Floats:
        return replay_masks(graph, duration_s, ideal_of_op, recorded)

    everything = times(np.ones((1, 1, 1), dtype=bool))[0]
    by_worker = [times((stages == stage) & (dp_ranks == one_per_dp_rank)) for stage in range(layout.pp_size)]
    by_type = times(groups == np.array(present)[:, None, None])
    return ScenarioTimes(
        recorded=everything,
        ideal=np.full(
            duration_s.shape[1], replayed_timeline(graph, ideal_of_op[:, None]).end_s.max(initial=0.0)
        ),
        last_stage_ideal=times(~last_stage[None])[0] if layout.pp_size > 1 else everything,
        by_type=dict(zip(present, by_type, strict=True)),
        by_stage=times(stages == one_per_stage),
        by_dp_rank=times(dp_ranks == one_per_dp_rank),
        by_worker=np.array(by_worker),
    )


class CustomTimes(NamedTuple):
    """Step times of custom scenarios; float64. [s]

    recorded    : shape (step,); replay with recorded durations, T.
    ideal       : shape (step,); replay with every duration ideal, T_ideal.
    changed     : shape (scenario, step); replay with the scenario's ops changed.
    changed_ops : int64, shape (scenario,); number of changed ops.
    """

    recorded: Floats
    ideal: Floats
    changed: Floats
    changed_ops: Ints


def replay_changes(
    recorded: Recorded,
    masks: Iterable[Sequence[Mask]],
    factor: float | None = None,
    ideal: Ideal = IDEALS[PAPER_IDEAL],
) -> CustomTimes:
    """Replay a job as recorded, as ideal, and with the ops changed that each custom scenario chooses.

    masks  : for each block and scenario, the ops that are changed; bool, broadcastable to (op, step, dp). The
             masks of a block are taken when it is replayed.
    factor : None makes these ops ideal; a number multiplies their durations. In a rendezvous it changes the
             transfer time, never the wait for other ops.
    raises : ValueError for a factor that is negative or not finite; TraceDefectError if the ops take no
             time, so that no slowdown is defined.
    """
    if factor is not None and not (isfinite(factor) and factor >= 0.0):
        raise ValueError(f"factor is {factor}, but must be a finite number >= 0")
    ideal_s = ideal_durations([(block.graph, block.duration_s) for block in recorded.blocks], ideal)
    step_s, ops = [], []
    for block, of_scenarios in zip(recorded.blocks, masks, strict=True):
        ideal_op_s = ideal_of_ops(block.graph, ideal_s)[:, None, None]
        changed_s = ideal_op_s if factor is None else block.duration_s * factor
        changes = (np.where(mask, changed_s, block.duration_s) for mask in of_scenarios)
        times = [step_times(block.graph, each_s) for each_s in (block.duration_s, ideal_op_s, *changes)]
        step_s.append([np.broadcast_to(each, block.steps.shape) for each in times])
        shape = block.duration_s.shape
        ops.append([np.broadcast_to(mask, shape).sum(dtype=np.int64) for mask in of_scenarios])
    order = np.argsort(np.concatenate([block.steps for block in recorded.blocks]))
    by_scenario_s = np.concatenate(step_s, axis=1)[:, order]
    refuse_timeless(recorded.blocks, by_scenario_s[0], by_scenario_s[1])
    return CustomTimes(by_scenario_s[0], by_scenario_s[1], by_scenario_s[2:], np.sum(ops, axis=0))


BlockTimes = tuple[OpGraph, Floats, Floats]
"""Graph, durations, shape (op, step, dp), with transfer times in a rendezvous, and ideals, shape (op,).
[s]"""


class TypeTimes(NamedTuple):
    """Step times and compute times by GPU type; float64. [s]

    types     : int, shape (type,), ascending; the first is -1 if some workers' type is unknown.
    compute_s : shape (type, direction); mean compute, nan without any.
    alone_s   : shape (type,); mean step time with the ops of the type's workers as recorded, all else ideal.
    """

    types: Ints
    compute_s: Floats
    alone_s: Floats


def type_times(blocks: Iterable[BlockTimes], dp_size: int, worker_type: Ints) -> TypeTimes:
    """Replay a job once per GPU type, with the ops on this type as recorded and all others ideal.

    worker_type : int, shape (stage, dp_rank), -1 where unknown.
    """
    types = np.unique(worker_type)
    total_s, count = np.zeros((2, len(types), 2))
    alone_s, steps = np.zeros(len(types)), 0
    for graph, duration_s, ideal_of_op in blocks:
        of_op = worker_type[op_stages(graph), op_dp_ranks(graph, dp_size)]
        alone_s += replay_masks(graph, duration_s, ideal_of_op, of_op == types[:, None, None]).sum(axis=1)
        steps += duration_s.shape[1]
        op_types = np.array(graph.op_types)
        for direction, op_type in enumerate(ot.COMPUTE):
            ops = np.flatnonzero(op_types == op_type)
            place = np.searchsorted(types, of_op[ops]).ravel()
            total_s[:, direction] += np.bincount(place, duration_s[ops].sum(axis=1).ravel(), len(types))
            count[:, direction] += np.bincount(place, minlength=len(types)) * duration_s.shape[1]
    compute_s = np.divide(total_s, count, out=np.full(total_s.shape, np.nan), where=count > 0.0)
    return TypeTimes(types, compute_s, alone_s / steps)
