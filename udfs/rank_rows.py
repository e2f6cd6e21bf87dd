"""From rank_steps rows in Arrow to the kernel's rows: which ranks and steps count."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from udfs.errors import NothingToReplayError, TraceError
from udfs.kernel.graph import Layout
from udfs.kernel.program import Floats, Ints
from udfs.kernel.rows import StageRows
from udfs.op_lists import list_lengths, stage_rows


@dataclass(frozen=True)
class ReplayedRows:
    """The rows of a unit that are replayed: one per (stage, step, dp_rank), every step complete.

    table         : all rows of the unit.
    steps         : int64, shape (step,); training step numbers, ascending.
    steps_dropped : steps in which a worker is missing.
    worker_rank   : int, shape (stage, dp_rank); lowest rank that was replayed for each worker.
    worker_row    : int, shape (stage, dp_rank); position in the table of the first row of that rank.
    replayed_row  : int, shape (stage, step, dp_rank); position in the table of each row that is replayed.
    zero_us       : float64, shape (stage, step, dp_rank); the row's zero from the step's zero. [us]
    ops           : number of replayed ops.
    recorded      : whether there was any op at all.
    """

    table: pa.Table
    steps: Ints
    steps_dropped: int
    worker_rank: Ints
    worker_row: Ints
    replayed_row: Ints
    zero_us: Floats
    ops: int
    recorded: bool

    @property
    def number_of_steps(self) -> int:
        """Number of replayed steps."""
        return len(self.steps)

    @property
    def worker_host(self) -> Ints:
        """Host of each worker: equal numbers are one host, -1 where unknown; shape (stage, dp_rank)."""
        if "host" not in self.table.column_names:
            return np.full(self.worker_row.shape, -1)
        hosts = self.table.column("host").take(pa.array(self.worker_row.ravel()))
        codes = hosts.combine_chunks().dictionary_encode().indices.fill_null(-1)
        return np.asarray(codes).reshape(self.worker_row.shape)

    def stages(self, first: int = 0, end: int | None = None) -> list[StageRows]:
        """Kernel rows of the steps [first, end), one per stage, ordered by (step, dp_rank).

        raises : UnknownOpError for an op without a code.
        """
        some = slice(first, end)
        shape = (len(self.replayed_row), -1)
        return stage_rows(
            self.table, self.replayed_row[:, some].reshape(shape), self.zero_us[:, some].reshape(shape)
        )


def replayed_rows(rank_steps: pa.Table, layout: Layout) -> ReplayedRows:
    """Choose the rows that count (contract, section 2).

    raises : TraceError where a row lies outside the layout.
    """
    lengths = list_lengths(rank_steps)
    if not lengths.any():
        return _nothing(rank_steps, len(np.unique(_integers(rank_steps, "step"))), recorded=False)
    chosen, steps, dropped = _choose(rank_steps, lengths, layout)
    if not len(steps):
        return _nothing(rank_steps, dropped, recorded=True)
    replayed_row = chosen.reshape(layout.pp_size, len(steps), layout.dp_size)
    rank = _integers(rank_steps, "rank")[replayed_row]
    worker_row = np.take_along_axis(replayed_row, rank.argmin(axis=1, keepdims=True), axis=1)[:, 0]
    return ReplayedRows(
        table=rank_steps,
        steps=steps,
        steps_dropped=dropped,
        worker_rank=rank.min(axis=1),
        worker_row=worker_row,
        replayed_row=replayed_row,
        zero_us=_row_zeros(rank_steps, replayed_row),
        ops=int(lengths[chosen].sum()),
        recorded=True,
    )


def rows_to_replay(rank_steps: pa.Table, layout: Layout) -> ReplayedRows:
    """Choose the rows that count, of a unit that is to be replayed.

    raises : TraceError where a row lies outside the layout, NothingToReplayError where no step is complete.
    """
    rows = replayed_rows(rank_steps, layout)
    if not len(rows.steps):
        raise NothingToReplayError(
            f"no step can be replayed: {rows.steps_dropped} recorded, none of them with ops of all "
            f"{layout.dp_size} x {layout.pp_size} workers"
        )
    return rows


def _nothing(rank_steps: pa.Table, dropped: int, *, recorded: bool) -> ReplayedRows:
    none = np.empty(0, dtype=np.int64)
    return ReplayedRows(rank_steps, none, dropped, none, none, none, none.astype(np.float64), 0, recorded)


def _integers(table: pa.Table, name: str) -> Ints:
    """A column as int64, 0 where it is null or not there."""
    if name not in table.column_names:
        return np.zeros(table.num_rows, dtype=np.int64)
    column = table.column(name)
    if column.null_count:
        column = column.fill_null(0)
    return np.asarray(column.to_numpy(), dtype=np.int64)


def _choose(table: pa.Table, lengths: Ints, layout: Layout) -> tuple[Ints, Ints, int]:
    """Positions of the replayed rows by (stage, step, dp_rank), their steps, how many steps are dropped."""
    step, dp_rank, stage = (_integers(table, name) for name in ("step", "dp_rank", "pp_rank"))
    _refuse_outside(table, dp_rank, stage, layout)
    steps, step_index = np.unique(step, return_inverse=True)
    cell = (stage * len(steps) + step_index) * layout.dp_size + dp_rank
    chosen = np.arange(len(lengths))
    if not lengths.all() or not (cell[1:] > cell[:-1]).all():
        rank, tp_rank, cp_rank = (_integers(table, name) for name in ("rank", "tp_rank", "cp_rank"))
        order = np.lexsort((rank, tp_rank, cp_rank, cell))
        order = order[lengths[order] > 0]
        is_lowest = np.ones(len(order), dtype=bool)
        is_lowest[1:] = cell[order[1:]] != cell[order[:-1]]
        chosen = order[is_lowest]
    complete = np.bincount(step_index[chosen], minlength=len(steps)) == layout.dp_size * layout.pp_size
    if not complete.all():
        chosen = chosen[complete[step_index[chosen]]]
    return chosen, steps[complete], int((~complete).sum())


def _refuse_outside(table: pa.Table, dp_rank: Ints, stage: Ints, layout: Layout) -> None:
    outside = (dp_rank < 0) | (dp_rank >= layout.dp_size) | (stage < 0) | (stage >= layout.pp_size)
    if outside.any():
        row = int(np.argmax(outside))
        raise TraceError(
            f"step {table.column('step')[row]}, rank {table.column('rank')[row]}: (dp_rank {dp_rank[row]}, "
            f"pp_rank {stage[row]}) lies outside dp_size {layout.dp_size}, pp_size {layout.pp_size}"
        )


def _row_zeros(table: pa.Table, replayed_row: Ints) -> Floats:
    """Zero of each replayed row from the zero of its step [us]; as integers, so that nothing is lost."""
    t0_us = _integers(table, "t0_us")[replayed_row]
    zero_us: Floats = (t0_us - t0_us.min(axis=(0, 2), keepdims=True)).astype(np.float64)
    return zero_us
