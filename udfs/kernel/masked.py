"""Replays of any scenario: for each op, recorded or ideal.

General and one pass over the graph per stack; the scenarios of section 5 have a faster way (`stacked`), which
is proved against this one.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from udfs.kernel.graph import Layout
from udfs.kernel.program import Floats, Ints
from udfs.kernel.replay import replay, step_time
from udfs.kernel.scenario_rows import TYPE_GROUP
from udfs.kernel.stacked import ScenarioTimes, ideal_timeline
from udfs.kernel.trace import StepBlock

Mask = npt.NDArray[np.bool_]

STACKED_VALUES: Final = 20_000_000
"""Numbers in one stack of scenarios: 160 MB, so that a job whose dp ranks disagree fits a worker's memory."""


def op_stages(block: StepBlock) -> Ints:
    """Stage of each op, shape (op, 1)."""
    return np.array(block.graph.stages)[:, None]


def op_type_groups(block: StepBlock) -> Ints:
    """Type group of each op, shape (op, 1)."""
    return np.array(TYPE_GROUP)[list(block.graph.op_types)][:, None]


def op_dp_ranks(block: StepBlock) -> Ints:
    """Dp rank of each op: shape (1, dp) where dp ranks are lanes, (op, 1) where each has its own ops."""
    if block.has_dp_lanes:
        return np.arange(block.start_s.shape[2])[None, :]
    sizes = [cell.program.size for cell in block.graph.cells]
    return np.repeat([cell.dp_rank for cell in block.graph.cells], sizes)[:, None]


def replay_masks(block: StepBlock, duration_s: Floats, ideal_s: Floats, recorded: Mask) -> Floats:
    """Step times of scenarios in which the ops of a mask are as recorded and all others ideal.

    duration_s : float64, shape (op, step, dp). [s]
    ideal_s    : float64, shape (op type,). [s]
    recorded   : bool, shape (scenario, op, dp) or broadcastable to it.
    returns    : float64, shape (scenario, step). [s]
    """
    per_op_s = ideal_s[list(block.graph.op_types)][:, None, None, None]
    masks = np.broadcast_to(recorded, (len(recorded), duration_s.shape[0], duration_s.shape[2]))
    together = max(1, STACKED_VALUES // duration_s.size)
    times = []
    for first in range(0, len(masks), together):
        mask = masks[first : first + together].swapaxes(0, 1)[:, :, None]
        scenario_s = np.where(mask, duration_s[:, None], per_op_s)
        times.append(step_time(replay(block.graph, scenario_s)))
    return np.concatenate(times)


def replay_one_by_one(block: StepBlock, layout: Layout, duration_s: Floats, ideal_s: Floats) -> ScenarioTimes:
    """The scenarios of section 5, each with lanes of its own from the first op on.

    duration_s : float64, shape (op, step, dp). [s]
    ideal_s    : float64, shape (op type,). [s]
    """
    groups, stages, dp_ranks = op_type_groups(block), op_stages(block), op_dp_ranks(block)
    present = sorted(set(groups[:, 0].tolist()))
    one_per_stage = np.arange(layout.pp_size)[:, None, None]
    one_per_dp_rank = np.arange(layout.dp_size)[:, None, None]
    last_stage = stages == layout.pp_size - 1

    def times(recorded: Mask) -> Floats:
        return replay_masks(block, duration_s, ideal_s, recorded)

    everything = times(np.ones((1, 1, 1), dtype=bool))[0]
    by_worker = [times((stages == stage) & (dp_ranks == one_per_dp_rank)) for stage in range(layout.pp_size)]
    by_type = times(groups == np.array(present)[:, None, None])
    return ScenarioTimes(
        recorded=everything,
        ideal=np.full(duration_s.shape[1], max(ideal_timeline(block.graph, ideal_s.tolist()), default=0.0)),
        last_stage_ideal=times(~last_stage[None])[0] if layout.pp_size > 1 else everything,
        by_type=dict(zip(present, by_type, strict=True)),
        by_stage=times(stages == one_per_stage),
        by_dp_rank=times(dp_ranks == one_per_dp_rank),
        by_worker=np.array(by_worker),
    )
