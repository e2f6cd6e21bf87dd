"""Replays of any scenario: for each op, recorded or ideal.

General and one pass over the graph per stack; the scenarios of section 5 have a faster way (`stacked`), which
is proved against this one.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from udfs.kernel.graph.graph import Layout, OpGraph
from udfs.kernel.graph.program import Floats, Ints
from udfs.kernel.replay.replay import replay, step_time
from udfs.kernel.replay.scenario_rows import TYPE_GROUP
from udfs.kernel.replay.stacked import ScenarioTimes, ideal_timeline

Mask = npt.NDArray[np.bool_]

STACKED_VALUES: Final = 20_000_000
"""Numbers in one stack of scenarios: 160 MB, so that a job whose dp ranks disagree fits a worker's memory."""


def op_stages(graph: OpGraph) -> Ints:
    """Stage of each op, shape (op, 1)."""
    return np.array(graph.stages)[:, None]


def op_type_groups(graph: OpGraph) -> Ints:
    """Type group of each op, shape (op, 1)."""
    return np.array(TYPE_GROUP)[list(graph.op_types)][:, None]


def op_dp_ranks(graph: OpGraph, dp_size: int) -> Ints:
    """Dp rank of each op: shape (1, dp) where dp ranks are lanes, (op, 1) where each has separate ops."""
    if graph.has_dp_lanes:
        return np.arange(dp_size)[None, :]
    sizes = [cell.program.size for cell in graph.cells]
    return np.repeat([cell.dp_rank for cell in graph.cells], sizes)[:, None]


def replay_masks(graph: OpGraph, duration_s: Floats, ideal_of_op: Floats, recorded: Mask) -> Floats:
    """Step times of scenarios in which the ops of a mask are as recorded and all others ideal.

    duration_s  : float64, shape (op, step, dp). [s]
    ideal_of_op : float64, shape (op,). [s]
    recorded    : bool, shape (scenario, op, dp) or broadcastable to it.
    returns     : float64, shape (scenario, step). [s]
    """
    per_op_s = ideal_of_op[:, None, None, None]
    masks = np.broadcast_to(recorded, (len(recorded), duration_s.shape[0], duration_s.shape[2]))
    together = max(1, STACKED_VALUES // duration_s.size)
    times = []
    for first in range(0, len(masks), together):
        mask = masks[first : first + together].swapaxes(0, 1)[:, :, None]
        scenario_s = np.where(mask, duration_s[:, None], per_op_s)
        times.append(step_time(replay(graph, scenario_s)))
    return np.concatenate(times)


def replay_one_by_one(
    graph: OpGraph, layout: Layout, duration_s: Floats, ideal_of_op: Floats
) -> ScenarioTimes:
    """The scenarios of section 5, each with separate lanes from the first op on.

    duration_s  : float64, shape (op, step, dp). [s]
    ideal_of_op : float64, shape (op,). [s]
    """
    groups, stages, dp_ranks = op_type_groups(graph), op_stages(graph), op_dp_ranks(graph, layout.dp_size)
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
        ideal=np.full(duration_s.shape[1], max(ideal_timeline(graph, ideal_of_op.tolist()), default=0.0)),
        last_stage_ideal=times(~last_stage[None])[0] if layout.pp_size > 1 else everything,
        by_type=dict(zip(present, by_type, strict=True)),
        by_stage=times(stages == one_per_stage),
        by_dp_rank=times(dp_ranks == one_per_dp_rank),
        by_worker=np.array(by_worker),
    )
