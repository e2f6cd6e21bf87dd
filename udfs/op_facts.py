"""What the ops of one step are: type, worker, microbatch, host."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from udfs.kernel.graph import OpGraph
from udfs.kernel.program import DIRECTIONS, Ints
from udfs.kernel.trace import StepBlock
from udfs.op_columns import BlockColumns, WorkerRows
from udfs.rank_rows import ReplayedRows

UNKNOWN: Final = -1
"""In the facts of an op: the log does not say, or it means nothing there."""


@dataclass(frozen=True)
class OpFacts:
    """What the ops are; int64, shape (op, lane), UNKNOWN where there is nothing to say.

    op_type     : code, shape (op,).
    microbatch  : of a transfer that of the compute it belongs to.
    host        : position in `hosts`.
    """

    op_type: Ints
    dp_rank: Ints
    pp_rank: Ints
    rank: Ints
    microbatch: Ints
    model_chunk: Ints
    host: Ints
    hosts: tuple[str, ...]


def facts_of(rows: ReplayedRows, block: StepBlock, local: int) -> OpFacts:
    """Tell what the ops of one step of a block are; local is its place among the block's steps."""
    columns = BlockColumns(block, rows.steps, WorkerRows.of(rows.table, rows))
    shape = block.start_s.shape

    def of_step(name: str) -> Ints:
        found = columns(name)
        values = np.where(found.is_known, found.values, UNKNOWN)
        return np.broadcast_to(values, shape)[:, local]

    return OpFacts(
        op_type=np.array(block.graph.op_types),
        dp_rank=of_step("dp_rank"),
        pp_rank=of_step("pp_rank"),
        rank=of_step("rank"),
        microbatch=_with_transfers(block.graph, of_step("microbatch")),
        model_chunk=_with_transfers(block.graph, of_step("model_chunk")),
        host=of_step("host"),
        hosts=tuple(columns.workers.hosts),
    )


def _with_transfers(graph: OpGraph, of_computes: Ints) -> npt.NDArray[np.int64]:
    """Give each transfer what its compute has: the one it waits for, or the one that waits for it."""
    found = of_computes.copy()
    for op, sources in enumerate(graph.waits_for):
        for compute, send, recv in DIRECTIONS:
            for source in sources:
                kinds = graph.op_types[source], graph.op_types[op]
                if kinds == (compute, send):
                    found[op] = of_computes[source]
                elif kinds == (recv, compute):
                    found[source] = of_computes[op]
    return found
