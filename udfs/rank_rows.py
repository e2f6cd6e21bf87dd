"""From rank_steps rows in Arrow to the kernel's rows: which ranks and steps count.

Nothing is copied where rows come sorted by (stage, step, dp_rank), one rank per worker.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.vocabulary import OP_CODES
from udfs.errors import TraceError, UnknownOpError
from udfs.kernel.graph import Layout
from udfs.kernel.program import Floats, Ints
from udfs.kernel.rows import StageRows

_LISTS = ("op", "start_us", "duration_us", "microbatch", "model_chunk")


@dataclass(frozen=True)
class ReplayedRows:
    """The rows of a unit that are replayed: one per (stage, step, dp_rank), every step complete.

    stages        : kernel rows, one per stage, ordered by (step, dp_rank).
    steps         : int64, shape (step,); training step numbers, ascending.
    steps_dropped : steps in which a worker is missing.
    worker_rank   : int, shape (stage, dp_rank); lowest rank that was replayed for each worker.
    worker_row    : int, shape (stage, dp_rank); position in the table of the first row of that rank.
    replayed_row  : int, shape (stage, step, dp_rank); position in the table of each row that is replayed.
    ops           : number of replayed ops.
    recorded      : whether there was any op at all.
    """

    stages: list[StageRows]
    steps: Ints
    steps_dropped: int
    worker_rank: Ints
    worker_row: Ints
    replayed_row: Ints
    ops: int
    recorded: bool


def replayed_rows(rank_steps: pa.Table, layout: Layout) -> ReplayedRows:
    """Choose the rows that count (contract, section 2) and lay them out for the kernel.

    raises : TraceError where a row lies outside the layout, UnknownOpError for an op without a code.
    """
    lists = {name: _flat(rank_steps, name) for name in _LISTS}
    first_op = lists["op"][0]
    lengths = np.diff(first_op)
    if not lengths.any():
        return _nothing(len(np.unique(_integers(rank_steps, "step"))), recorded=False)
    chosen, steps, dropped = _choose(rank_steps, lengths, layout)
    shape = (layout.pp_size, len(steps), layout.dp_size)
    if not len(steps):
        return _nothing(dropped, recorded=True)
    zero_us = _row_zeros(rank_steps, chosen, shape)
    if len(chosen) == len(lengths) and (chosen[1:] > chosen[:-1]).all():
        flat = {name: values for name, (_, values) in lists.items()}
    else:
        at, first_op = _positions(first_op, chosen)
        flat = {name: values[at] for name, (_, values) in lists.items()}
    rows_of_stage = len(steps) * layout.dp_size
    stages = []
    for stage in range(layout.pp_size):
        rows = slice(stage * rows_of_stage, (stage + 1) * rows_of_stage)
        stages.append(
            StageRows(
                first_op=first_op[rows.start : rows.stop + 1],
                op_type=flat["op"],
                start_us=flat["start_us"],
                duration_us=flat["duration_us"],
                microbatch=flat["microbatch"],
                chunk=flat["model_chunk"],
                zero_us=zero_us[rows],
            )
        )
    rank = _integers(rank_steps, "rank")[chosen].reshape(shape)
    replayed_row = chosen.reshape(shape)
    worker_row = np.take_along_axis(replayed_row, rank.argmin(axis=1, keepdims=True), axis=1)[:, 0]
    return ReplayedRows(
        stages=stages,
        steps=steps,
        steps_dropped=dropped,
        worker_rank=rank.min(axis=1),
        worker_row=worker_row,
        replayed_row=replayed_row,
        ops=int(lengths[chosen].sum()),
        recorded=True,
    )


def _nothing(dropped: int, *, recorded: bool) -> ReplayedRows:
    none = np.empty(0, dtype=np.int64)
    return ReplayedRows([], none, dropped, none, none, none, 0, recorded)


def _flat(table: pa.Table, name: str) -> tuple[Ints, npt.NDArray[Any]]:
    """Offsets and values of a list column; without a copy where the column is one chunk."""
    column = table.column(name)
    lists = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks)
    offsets = lists.offsets.to_numpy()
    values = lists.values.slice(offsets[0], offsets[-1] - offsets[0])
    flat = _op_codes(values) if name == "op" else values.to_numpy()
    return (offsets - offsets[0]).astype(np.int64), flat


def _op_codes(values: pa.Array) -> npt.NDArray[np.int8]:
    """Codes of ops that are given as codes or as names."""
    if pa.types.is_integer(values.type):
        codes: npt.NDArray[np.int8] = values.to_numpy().astype(np.int8, copy=False)
        return codes
    encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    unknown = [name for name in names if name not in OP_CODES]
    if unknown:
        raise UnknownOpError(f"op {unknown[0]!r} is not in the vocabulary of op types")
    code_of_name = np.array([OP_CODES[name] for name in names], dtype=np.int8)
    coded: npt.NDArray[np.int8] = code_of_name[encoded.indices.to_numpy()]
    return coded


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


def _row_zeros(table: pa.Table, chosen: Ints, shape: tuple[int, int, int]) -> Floats:
    """Zero of each replayed row from the zero of its step [us]; as integers, so that nothing is lost."""
    t0_us = _integers(table, "t0_us")[chosen].reshape(shape)
    zero_us: Floats = (t0_us - t0_us.min(axis=(0, 2), keepdims=True)).reshape(-1).astype(np.float64)
    return zero_us


def _positions(first_op: Ints, chosen: Ints) -> tuple[Ints, Ints]:
    """Positions of the ops of the chosen rows, row after row, and where each row begins among them."""
    lengths = np.diff(first_op)[chosen]
    new_first_op = np.concatenate([[0], np.cumsum(lengths)])
    at = np.repeat(first_op[:-1][chosen] - new_first_op[:-1], lengths) + np.arange(new_first_op[-1])
    return at, new_first_op
