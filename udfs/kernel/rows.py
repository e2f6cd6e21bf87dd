"""One stage's recorded rows as dense arrays, split into classes that share a program.

A row is what one worker recorded in one step. Rows of one class have the same ops in the same order.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel import op_type as ot
from udfs.kernel.errors import OpRef, TraceDefectError
from udfs.kernel.program import Floats, Ints, Order, StageProgram, no_op_transfers

US: Final = 1e-6
"""Seconds in a microsecond."""

Int32s = npt.NDArray[np.int32]


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
    microbatch: Int32s
    chunk: Int32s
    zero_us: Floats


class Times(NamedTuple):
    """Starts from the step's zero, and durations; float64, shape (op, row). [s]"""

    start_s: Floats
    duration_s: Floats


class RowClass(NamedTuple):
    """Rows of one stage with one program, ops by (type, start).

    rows       : int, shape (row,); positions among the stage's rows, ascending.
    times      : shape (op, row).
    microbatch : int32, shape (compute op, row); forward before backward.
    """

    program: StageProgram
    rows: Ints
    times: Times
    microbatch: Int32s


def classify(stage_rows: StageRows, room: Times | None = None) -> list[RowClass]:
    """Dense arrays of a stage's rows, one class per program.

    room   : where the times of all rows are to be written, given only where all rows are equally long.
    raises : TraceDefectError where a row holds the same compute op twice; its OpRefs carry stage 0 and, as
             dp_rank, the row's position: only the caller knows where the row ran.
    """
    lengths = np.diff(stage_rows.first_op)
    classes = []
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        at = _positions(stage_rows, rows, int(length))
        for members in _alike(stage_rows.op_type.take(at)):
            whole = len(members) == len(stage_rows.zero_us)
            mine = at if len(members) == len(rows) else at[:, members]
            group = _Group.gather(stage_rows, mine, rows[members], room if whole else None)
            classes.extend(group.split())
    return classes


def _positions(stage_rows: StageRows, rows: Ints, length: int) -> Ints:
    """Positions of the ops of equally long rows, each row's by (type, place in the line); shape (op, row)."""
    first_op = stage_rows.first_op[rows]
    if len(rows) == len(stage_rows.zero_us):
        op_type = stage_rows.op_type[first_op[0] : first_op[0] + len(rows) * length].reshape(-1, length)
    else:
        op_type = stage_rows.op_type[first_op[:, None] + np.arange(length)]
    if (op_type == op_type[0]).all():
        return np.argsort(op_type[0], kind="stable")[:, None] + first_op
    order = np.argsort(op_type, axis=1, kind="stable")
    order += first_op[:, None]
    return np.ascontiguousarray(order.T)


def _alike(columns: npt.NDArray[np.generic]) -> list[Ints]:
    """Positions of equal columns, one array per distinct column."""
    if (columns == columns[:, :1]).all():
        return [np.arange(columns.shape[1])]
    _, inverse = np.unique(columns, axis=1, return_inverse=True)
    inverse = inverse.reshape(-1)
    return [np.flatnonzero(inverse == number) for number in range(inverse.max() + 1)]


class _Group(NamedTuple):
    """Rows with equal op counts, ops by (type, start).

    at : int, shape (op, row); positions of the ops, which grow with the place in the line.
    """

    counts: Order
    rows: Ints
    at: Ints
    times: Times
    recorded: StageRows

    @classmethod
    def gather(cls, recorded: StageRows, at: Ints, rows: Ints, room: Times | None) -> "_Group":
        """Times of the ops at the given positions, by (type, position), brought into the order of starts."""
        op_type = recorded.op_type[at[:, 0]]
        starts_us = recorded.start_us.take(at)
        same_type = (op_type[1:] == op_type[:-1])[:, None]
        if ((starts_us[1:] < starts_us[:-1]) & same_type).any():
            every_type = np.broadcast_to(op_type[:, None], at.shape)
            order = np.lexsort((at, starts_us, every_type), axis=0)
            at = np.take_along_axis(at, order, axis=0)
            starts_us = recorded.start_us.take(at)
        start_s, duration_s = room or Times(np.empty(at.shape), np.empty(at.shape))
        np.add(starts_us, recorded.zero_us[rows], out=start_s)
        start_s *= US
        recorded.duration_us.take(at, out=duration_s, mode="clip")
        duration_s *= US
        counts = tuple(np.bincount(op_type, minlength=ot.COUNT).tolist())
        return cls(counts, rows, at, Times(start_s, duration_s), recorded)

    def split(self) -> list[RowClass]:
        """One class per program."""
        computes = slice(0, self.counts[ot.FORWARD_COMPUTE] + self.counts[ot.BACKWARD_COMPUTE])
        first_dp = sum(self.counts[: ot.PARAMS_ALL_GATHER])
        dp_stream = slice(first_dp, first_dp + sum(self.counts[op_type] for op_type in ot.DP_STREAM))
        has_chunk = np.r_[computes, dp_stream]
        microbatch = self.recorded.microbatch.take(self.at[computes])
        chunks = self.recorded.chunk.take(self.at[has_chunk])
        self._refuse_doubles(microbatch, chunks)
        parts = (
            self._start_order(computes),
            self._start_order(dp_stream) + first_dp,
            chunks,
            no_op_transfers(self.counts, *self.times),
        )
        if all((part == part[:, :1]).all() for part in parts):
            signature = np.concatenate([part[:, 0] for part in parts])
            program = self._program(signature, computes.stop, dp_stream, has_chunk)
            return [RowClass(program, self.rows, self.times, microbatch)]
        signatures = np.concatenate([np.broadcast_to(part, (len(part), len(self.rows))) for part in parts])
        classes = []
        for members in _alike(signatures):
            program = self._program(signatures[:, members[0]], computes.stop, dp_stream, has_chunk)
            times = Times(*(values[:, members] for values in self.times))
            classes.append(RowClass(program, self.rows[members], times, microbatch[:, members]))
        return classes

    def _start_order(self, ops: slice) -> Ints:
        """Ops by start, ties in recorded order; shape (op, row), or (op, 1) where all rows agree."""
        starts, at = self.times.start_s[ops], self.at[ops]
        first = np.lexsort((at[:, 0], starts[:, 0]))
        ordered = starts[first]
        if (ordered[1:] > ordered[:-1]).all():
            return first[:, None]
        return np.lexsort((at, starts), axis=0)

    def _program(self, signature: Ints, computes: int, dp_stream: slice, has_chunk: Ints) -> StageProgram:
        values = signature.tolist()
        chunks = [-1] * len(self.at)
        first_chunk = computes + dp_stream.stop - dp_stream.start
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

    def _refuse_doubles(self, microbatch: Int32s, chunk: Int32s) -> None:
        """Two computes of one direction with the same (microbatch, chunk) cannot both have happened."""
        for op_type in ot.COMPUTE:
            first = sum(self.counts[:op_type])
            ops = slice(first, first + self.counts[op_type])
            key = (chunk[ops].astype(np.int64) << 32) + microbatch[ops]
            if (key == key[:, :1]).all():
                key = key[:, :1]
            order = np.argsort(key, axis=0, kind="stable")
            ordered = np.take_along_axis(key, order, axis=0)
            doubles = np.argwhere(ordered[1:] == ordered[:-1])
            if len(doubles):
                op, column = doubles[0].tolist()
                pair = order[op : op + 2, column].tolist()
                raise TraceDefectError(
                    f"microbatch {int(microbatch[first + pair[0], column])} of model chunk "
                    f"{int(chunk[first + pair[0], column])} is computed twice in one direction",
                    [OpRef(0, int(self.rows[column]), op_type, ordinal) for ordinal in pair],
                )
