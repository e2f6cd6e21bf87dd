"""One stage's recorded rows as dense arrays, split into classes that share a program.

A row is what one worker recorded in one step. Rows of one class have the same ops in the same order.
"""

from typing import Final, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from udfs.kernel import op_type as ot
from udfs.kernel.errors import OpRef, TraceDefectError
from udfs.kernel.program import Floats, Ints, Order, StageProgram, no_op_transfers

US: Final = 1e-6
"""Seconds in a microsecond."""

Number = TypeVar("Number", bound=np.number)


class StageRows(NamedTuple):
    """Recorded rows of one stage, ordered by (step, dp_rank); ops row after row, as recorded.

    first_op    : int, shape (row + 1,); where the ops of each row begin.
    op_type     : int8, shape (op,).
    start_us    : float64, shape (op,); from the row's own zero. [us]
    duration_us : float64, shape (op,). [us]
    microbatch  : int32, shape (op,); meaningful for compute ops.
    chunk       : int32, shape (op,); model chunk within the stage, of compute and dp stream ops.
    zero_us     : float64, shape (row,); the row's zero from the step's zero. [us]
    """

    first_op: Ints
    op_type: npt.NDArray[np.int8]
    start_us: Floats
    duration_us: Floats
    microbatch: npt.NDArray[np.int32]
    chunk: npt.NDArray[np.int32]
    zero_us: Floats


class RowClass(NamedTuple):
    """Rows of one stage with one program, ops by (type, start).

    rows       : int, shape (row,); positions among the stage's rows, ascending.
    start_s    : float64, shape (op, row); from the step's zero. [s]
    duration_s : float64, shape (op, row). [s]
    microbatch : int32, shape (compute op, row); forward before backward.
    """

    program: StageProgram
    rows: Ints
    start_s: Floats
    duration_s: Floats
    microbatch: npt.NDArray[np.int32]


def classify(stage_rows: StageRows) -> list[RowClass]:
    """Dense arrays of a stage's rows, one class per program.

    raises : TraceDefectError where a row holds the same compute op twice; its OpRefs carry stage 0 and, as
             dp_rank, the row's position: only the caller knows where the row ran.
    """
    lengths = np.diff(stage_rows.first_op)
    classes = []
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        classes.extend(_classify_equal_lengths(stage_rows, rows, int(length)))
    return classes


def _classify_equal_lengths(stage_rows: StageRows, rows: Ints, length: int) -> list[RowClass]:
    """Split rows of one length first by their op counts, then by everything else the graph depends on."""
    everything = len(rows) == len(stage_rows.zero_us)
    first, last = stage_rows.first_op[0], stage_rows.first_op[-1]
    at = None if everything else (stage_rows.first_op[rows][:, None] + np.arange(length))

    def dense(values: npt.NDArray[Number]) -> npt.NDArray[Number]:
        return values[first:last].reshape(len(rows), length) if at is None else values[at]

    op_type, start_us = dense(stage_rows.op_type), dense(stage_rows.start_us)
    order = _order_by_type_and_start(op_type, start_us)
    sorted_types = _take(op_type, order)
    classes = []
    for members in _alike(sorted_types):
        group = _Group(
            counts=tuple(np.bincount(sorted_types[members[0]], minlength=ot.COUNT).tolist()),
            rows=rows[members],
            recorded=_positions(order, members, length),
            start_s=(_take(start_us, order)[members] + stage_rows.zero_us[rows[members], None]).T * US,
            duration_s=_take(dense(stage_rows.duration_us), order)[members].T * US,
            microbatch=_take(dense(stage_rows.microbatch), order)[members].T,
            chunk=_take(dense(stage_rows.chunk), order)[members].T,
        )
        classes.extend(group.split())
    return classes


def _order_by_type_and_start(op_type: npt.NDArray[np.int8], start_us: Floats) -> Ints | None:
    """Column order of the ops of each row by (type, start, position).

    returns : shape (op,) where it is the same for all rows, (row, op) where not, None where nothing moves.
    """
    order: Ints | None
    if (op_type == op_type[0]).all():
        order = np.argsort(op_type[0], kind="stable")
        if (order[1:] > order[:-1]).all():
            order = None
    else:
        order = np.argsort(op_type, axis=1, kind="stable")
    types, starts = _take(op_type, order), _take(start_us, order)
    out_of_order = (types[:, 1:] == types[:, :-1]) & (starts[:, 1:] < starts[:, :-1])
    if out_of_order.any():
        order = np.lexsort((start_us, op_type), axis=1)
    return order


def _take(values: npt.NDArray[Number], order: Ints | None) -> npt.NDArray[Number]:
    if order is None:
        return values
    return values[:, order] if order.ndim == 1 else np.take_along_axis(values, order, axis=1)


def _positions(order: Ints | None, members: Ints, length: int) -> Ints:
    """Position in the line of each sorted op, shape (op, row) or (op, 1)."""
    if order is None:
        return np.arange(length)[:, None]
    return order[:, None] if order.ndim == 1 else order[members].T


def _alike(rows: npt.NDArray[np.generic]) -> list[Ints]:
    """Positions of equal rows, one array per distinct row."""
    if (rows == rows[0]).all():
        return [np.arange(len(rows))]
    _, inverse = np.unique(rows, axis=0, return_inverse=True)
    inverse = inverse.reshape(-1)
    return [np.flatnonzero(inverse == number) for number in range(inverse.max() + 1)]


class _Group(NamedTuple):
    """Rows with equal op counts, ops by (type, start); arrays of shape (op, row)."""

    counts: Order
    rows: Ints
    recorded: Ints
    start_s: Floats
    duration_s: Floats
    microbatch: npt.NDArray[np.int32]
    chunk: npt.NDArray[np.int32]

    def split(self) -> list[RowClass]:
        """One class per program."""
        computes = slice(0, self.counts[ot.FORWARD_COMPUTE] + self.counts[ot.BACKWARD_COMPUTE])
        self._refuse_doubles()
        first_dp = sum(self.counts[: ot.PARAMS_ALL_GATHER])
        dp_stream = slice(first_dp, first_dp + sum(self.counts[op_type] for op_type in ot.DP_STREAM))
        has_chunk = np.r_[computes, dp_stream]
        signature = np.concatenate(
            [
                self._start_order(computes),
                self._start_order(dp_stream) + first_dp,
                self.chunk[has_chunk],
                no_op_transfers(self.counts, self.start_s, self.start_s + self.duration_s),
            ]
        ).T
        classes = []
        for members in _alike(signature):
            program = self._program(signature[members[0]], computes.stop, dp_stream, has_chunk)
            whole = len(members) == len(self.rows)
            columns: slice | Ints = slice(None) if whole else members
            classes.append(
                RowClass(
                    program,
                    self.rows[columns],
                    self.start_s[:, columns],
                    self.duration_s[:, columns],
                    self.microbatch[computes, columns],
                )
            )
        return classes

    def _start_order(self, ops: slice) -> Ints:
        """Ops by start, ties in recorded order; shape (op, row)."""
        starts = self.start_s[ops]
        recorded = np.broadcast_to(self.recorded[ops], starts.shape)
        first = np.lexsort((recorded[:, 0], starts[:, 0]))
        ordered = starts[first]
        if (ordered[1:] > ordered[:-1]).all():
            return np.broadcast_to(first[:, None], starts.shape)
        return np.lexsort((recorded, starts), axis=0)

    def _program(self, signature: Ints, computes: int, dp_stream: slice, has_chunk: Ints) -> StageProgram:
        dp_count = dp_stream.stop - dp_stream.start
        values = signature.tolist()
        chunks = [-1] * len(self.start_s)
        first_chunk = computes + dp_count
        for op, chunk in zip(has_chunk.tolist(), values[first_chunk:], strict=False):
            chunks[op] = chunk
        flags = values[first_chunk + len(has_chunk) :]
        return StageProgram(
            counts=self.counts,
            compute_order=tuple(values[:computes]),
            dp_order=tuple(values[computes:first_chunk]),
            chunks=tuple(chunks),
            no_ops=tuple(op for op, flag in enumerate(flags) if flag),
        )

    def _refuse_doubles(self) -> None:
        """Two computes of one direction with the same (microbatch, chunk) cannot both have happened."""
        for op_type in ot.COMPUTE:
            first = sum(self.counts[:op_type])
            ops = slice(first, first + self.counts[op_type])
            key = self.chunk[ops].astype(np.int64) << 32
            key += self.microbatch[ops]
            if (key == key[:, :1]).all():
                key = key[:, :1]
            order = np.argsort(key, axis=0, kind="stable")
            ordered = np.take_along_axis(key, order, axis=0)
            doubles = np.argwhere(ordered[1:] == ordered[:-1])
            if len(doubles):
                op, column = doubles[0].tolist()
                pair = order[op : op + 2, column].tolist()
                raise TraceDefectError(
                    f"microbatch {int(self.microbatch[first + pair[0], column])} of model chunk "
                    f"{int(self.chunk[first + pair[0], column])} is computed twice in one direction",
                    [OpRef(0, int(self.rows[column]), op_type, ordinal) for ordinal in pair],
                )
