"""Columns that a predicate over ops may use, as arrays over (op, step, dp_rank)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from schemas.vocabulary import OP_TYPES
from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Ints, Mask
from udfs.kernel.recorded.first_pass import Block
from udfs.kernel.recorded.trace import StepBlock
from udfs.kernel.replay.masked import op_dp_ranks, op_stages
from udfs.simulate.rank_rows import ReplayedRows

TEXT_COLUMNS: Final = ("op_type", "host")
NUMBER_COLUMNS: Final = ("pp_rank", "dp_rank", "step", "microbatch", "model_chunk", "rank")
"""Named as in the view ops; microbatch and model_chunk are null on ops for which they have no meaning."""
COLUMNS: Final = (*TEXT_COLUMNS, *NUMBER_COLUMNS)

_HAS_CHUNK: Final = (*ot.COMPUTE, *ot.DP_STREAM)
_ALWAYS: Final = np.ones((1, 1, 1), dtype=bool)


class OpColumn(NamedTuple):
    """Values of a column for all ops of a block.

    values   : int, broadcastable to (op, step, dp_rank); numbers, or positions in `words`.
    is_known : bool, likewise; False where the column is null.
    words    : texts of a text column; empty for a column of numbers.
    """

    values: Ints
    is_known: Mask
    words: Sequence[str] = ()


Columns = Callable[[str], OpColumn]
"""Returns the column of a name."""


@dataclass(frozen=True)
class WorkerRows:
    """Rank and host of every replayed row.

    rank       : int, shape (stage, step, dp_rank); the axis of steps has length 1 if all steps agree.
    host       : likewise; positions in `hosts`, or len(hosts) where the host is unknown.
    hosts      : names.
    """

    rank: Ints
    host: Ints
    hosts: Sequence[str]

    @classmethod
    def of(cls, rows: ReplayedRows) -> "WorkerRows":
        """Return the rank and host of all replayed rows."""
        at = pa.array(rows.replayed_row.ravel())
        shape = rows.replayed_row.shape
        rank = rows.table.column("rank").take(at).to_numpy().astype(np.int64).reshape(shape)
        names = rows.table.column("host").take(at).combine_chunks().cast(pa.string()).dictionary_encode()
        hosts: list[str] = names.dictionary.to_pylist()
        host = names.indices.fill_null(len(hosts)).to_numpy().astype(np.int64).reshape(shape)
        return cls(_once(rank), _once(host), hosts)


def _once(values: Ints) -> Ints:
    """Shorten the axis of steps to 1 if the values of all steps agree."""
    return values[:, :1] if (values == values[:, :1]).all() else values


@dataclass(frozen=True)
class BlockColumns:
    """Columns of the ops of one block, each of which is computed when it is first used.

    steps : int64, shape (step,); training step numbers of the job's replayed steps.
    """

    block: StepBlock | Block
    steps: Ints
    workers: WorkerRows

    def __call__(self, name: str) -> OpColumn:
        """Return the column of this name, which is one of COLUMNS."""
        graph, lanes = self.block.graph, self.block.duration_s.shape[2]
        op_types = np.array(graph.op_types)[:, None, None]
        made: dict[str, Callable[[], OpColumn]] = {
            "op_type": lambda: OpColumn(op_types, _ALWAYS, OP_TYPES),
            "pp_rank": lambda: OpColumn(op_stages(graph)[:, None], _ALWAYS),
            "dp_rank": lambda: OpColumn(op_dp_ranks(graph, lanes)[:, None], _ALWAYS),
            "step": lambda: OpColumn(self.steps[self.block.steps][None, :, None], _ALWAYS),
            "model_chunk": lambda: OpColumn(self._chunks(), np.isin(op_types, _HAS_CHUNK)),
            "microbatch": self._microbatches,
            "rank": lambda: OpColumn(self._of_worker(self.workers.rank), _ALWAYS),
            "host": self._hosts,
        }
        return made[name]()

    def _chunks(self) -> Ints:
        chunks = [chunk for cell in self.block.graph.cells for chunk in cell.program.chunks]
        return np.array(chunks)[:, None, None]

    def _microbatches(self) -> OpColumn:
        """Return the microbatch of computes, and for data-loads that of the compute that waits for them."""
        graph = self.block.graph
        values = np.zeros(self.block.duration_s.shape, dtype=np.int64)
        is_known = np.isin(graph.op_types, ot.COMPUTE)
        for first, cell, of_computes in zip(
            graph.first_op[:-1], graph.cells, self.block.microbatch, strict=True
        ):
            values[first : first + len(of_computes)] = of_computes
            for place, forward in enumerate(cell.program.loaded_for):
                if forward >= 0:
                    load = first + cell.program.first_ops[ot.DATA_LOAD] + place
                    values[load] = values[first + forward]
                    is_known[load] = True
        return OpColumn(values, is_known[:, None, None])

    def _hosts(self) -> OpColumn:
        host = self._of_worker(self.workers.host)
        return OpColumn(host, np.less(host, len(self.workers.hosts)), self.workers.hosts)

    def _of_worker(self, by_worker: Ints) -> Ints:
        """Expand values per (stage, step or 1, dp_rank) to each op of the block."""
        of_steps = by_worker if by_worker.shape[1] == 1 else by_worker[:, self.block.steps]
        if self.block.graph.has_dp_lanes:
            return of_steps[op_stages(self.block.graph)[:, 0]]
        return of_steps[
            op_stages(self.block.graph)[:, 0],
            :,
            op_dp_ranks(self.block.graph, self.block.duration_s.shape[2])[:, 0],
        ][:, :, None]
