"""Find data-loads that take far longer than usual on their stage."""

from collections.abc import Sequence

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats
from udfs.kernel.diagnosis.block_times import BlockTimes
from udfs.kernel.diagnosis.levels import LEAST_QUIET, quietest
from udfs.kernel.diagnosis.usual_transfers import (
    ALL,
    LEAST_FACTOR,
    LOW_QUANTILE,
    Kind,
    SlowOps,
    Usual,
    limits_of,
)
from udfs.kernel.graph.graph import OpGraph, once_per_graph
from udfs.kernel.selection import quantile_of_all


def has_loads(blocks: Sequence[BlockTimes]) -> bool:
    """Return whether any data-load was recorded."""
    return any(_loads_by_stage(block.graph) for block in blocks)


def slow_loads(blocks: Sequence[BlockTimes]) -> list[SlowOps]:
    """Find the slow data-loads of each block.

    A load is compared with the usual load of its stage over all blocks, because stages load different data.
    """
    loads = [_loads_by_stage(block.graph) for block in blocks]
    limits: dict[Kind, Usual] = {}
    for stage in sorted({stage for of_block in loads for stage in of_block}):
        times_s = [
            block.duration_s[of_block[stage]]
            for block, of_block in zip(blocks, loads, strict=True)
            if stage in of_block
        ]
        limits |= limits_of({(ot.DATA_LOAD, stage, ALL): _of_usual_steps(times_s)})
    found = []
    for block, of_block in zip(blocks, loads, strict=True):
        ops: list[int] = []
        usual_s = [np.empty((0, *block.duration_s.shape[1:]))]
        for stage, of_stage in of_block.items():
            base_s, limit_s = limits[ot.DATA_LOAD, stage, ALL]
            as_is_s = block.duration_s[of_stage]
            is_slow = as_is_s > limit_s
            changes = is_slow.any(axis=(1, 2))
            ops += np.array(of_stage)[changes].tolist()
            usual_s.append(np.where(is_slow, base_s, as_is_s)[changes])
        found.append(SlowOps(np.array(ops, dtype=int), block.duration_s[ops], np.concatenate(usual_s)))
    return found


def _of_usual_steps(times_s: Sequence[Floats]) -> Floats:
    """Return the load times that define what is usual on a stage: all, or only those of far faster steps. [s]

    times_s : a stage's loads in each block, shape (op, step, dp). [s]
    """
    by_step_s = np.concatenate([np.median(each, axis=(0, 2)) for each in times_s])
    of_steps = [of_step_s.reshape(-1) for each in times_s for of_step_s in each.swapaxes(0, 1)]
    every_s = np.concatenate(of_steps)
    limit_s = np.inf if by_step_s.size < 2 * LEAST_QUIET else LEAST_FACTOR * quietest(np.sort(by_step_s))
    if quantile_of_all(every_s, LOW_QUANTILE) <= limit_s:
        return every_s
    return np.concatenate([of_steps[step] for step in np.flatnonzero(by_step_s <= limit_s).tolist()])


@once_per_graph
def _loads_by_stage(graph: OpGraph) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for cell, by_type in zip(graph.cells, graph.ops_by_type, strict=True):
        if by_type[ot.DATA_LOAD]:
            found.setdefault(cell.stage, []).extend(by_type[ot.DATA_LOAD])
    return found
