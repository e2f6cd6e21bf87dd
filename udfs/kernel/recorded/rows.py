"""Recorded rows of one stage as dense arrays, divided into classes that have one program each.

A row is what one worker recorded in one step. Rows of one class have the same ops in the same order.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Int32s, Ints, alike, common, common_order
from udfs.kernel.graph.graph import OpRef, TraceDefectError
from udfs.kernel.recorded.durations import no_op_transfers
from udfs.kernel.recorded.programs import LaidRows, Parts, Passes, Places, Times, loaded_for, run_in_turn
from udfs.kernel.recorded.worker_order import WorkerTurns

US: Final = 1e-6
"""Seconds in a microsecond."""

NS_IN_US: Final = 1e3
"""Nanoseconds in a microsecond."""


class StageRows(NamedTuple):
    """Recorded rows of one stage, ordered by (step, dp_rank); ops in recorded order.

    first_op    : int, shape (row + 1,); position of each row's first op, followed by the end of the last row.
    op_type     : int8, shape (op,).
    start_us    : float64, shape (op,); from the row's own zero. [us]
    duration_us : float64, shape (op,). [us]
    microbatch  : int32, shape (op,); meaningful for computes and data-loads.
    chunk       : int32, shape (op,); model chunk within the stage, of computes, loads and the dp stream.
    zero_us     : float64, shape (row,); zero of the row's times minus zero of the step. [us]
    """

    first_op: Ints
    op_type: npt.NDArray[np.int8]
    start_us: Floats
    duration_us: Floats
    microbatch: Int32s
    chunk: Int32s
    zero_us: Floats

    def from_first_op(self) -> "StageRows":
        """Return the same rows with ops renumbered from 0."""
        ops = slice(self.first_op[0], self.first_op[-1])
        lists = (values[ops] for values in self[1:-1])
        return StageRows._make([self.first_op - ops.start, *lists, self.zero_us])

    def some(self, stretches: Sequence[slice]) -> "StageRows":
        """Copy some stretches of rows."""
        ops = [slice(self.first_op[each.start], self.first_op[each.stop]) for each in stretches]
        lists = (np.concatenate([values[each] for each in ops]) for values in self[1:-1])
        lengths, zero_us = (
            np.concatenate([values[each] for each in stretches])
            for values in (np.diff(self.first_op), self.zero_us)
        )
        return StageRows._make([np.append(0, np.cumsum(lengths)), *lists, zero_us])


def lay_out_rows(stage_rows: StageRows) -> list[LaidRows]:
    """Lay out a stage's rows as dense arrays, grouped by op counts.

    raises : TraceDefectError if a row holds the same compute op twice. Its OpRefs have stage 0 and the row's
             position as dp_rank, because only the caller knows where the row ran.
    """
    lengths, stage_rows = np.diff(stage_rows.first_op), stage_rows.from_first_op()
    if (lengths == lengths[0]).all():
        by_row = stage_rows.op_type.reshape(len(lengths), -1)
        if (by_row == by_row[0]).all():
            counts = tuple(np.bincount(by_row[0], minlength=ot.COUNT).tolist())
            order = np.argsort(by_row[0], kind="stable")
            return [_DenseRows(stage_rows, np.arange(len(lengths)), counts, order, at=None).laid_out()]
    kind = np.repeat(np.arange(len(lengths)) * ot.COUNT, lengths) + stage_rows.op_type
    counts_of_rows = np.bincount(kind, minlength=len(lengths) * ot.COUNT).reshape(-1, ot.COUNT)
    laid = []
    for rows in alike(counts_of_rows):
        first, end = stage_rows.first_op[rows[0] : rows[0] + 2]
        positions = (stage_rows.first_op[rows][:, None] + np.arange(end - first)).reshape(-1)
        op_type = stage_rows.op_type[positions]
        counts = tuple(np.bincount(op_type[: end - first], minlength=ot.COUNT).tolist())
        # One stable sort for all rows: by type, then by row, each row in recorded order.
        order = positions[np.argsort(op_type, kind="stable")]
        at = np.empty((end - first, len(rows)), dtype=np.int64)
        for first, end in pairwise(accumulate(counts, initial=0)):
            at[first:end] = order[first * len(rows) : end * len(rows)].reshape(len(rows), -1).T
        laid.append(_DenseRows(stage_rows, rows, counts, None, at).laid_out())
    return laid


class _DenseRows(NamedTuple):
    """Rows with equal op counts, and the position of each op in the recorded order.

    places : int, shape (op,); position within the row, if these are all rows of the stage and all agree.
    at     : int, shape (op, row); position among the stage's ops; None if `places` has it.
    """

    recorded: StageRows
    rows: Ints
    counts: tuple[int, ...]
    places: Ints | None
    at: Ints | None

    def laid_out(self) -> LaidRows:
        """Lay out the rows with ops ordered by (type, start)."""
        shape = (sum(self.counts), len(self.rows))
        times = Times(np.empty(shape), np.empty(shape))
        dense = self._by_start(times.start_s)
        dense.take(self.recorded.duration_us, slice(None), times.duration_s)
        compute_ns = times.duration_s[Places.of(self.counts).computes] * NS_IN_US
        np.multiply(times.duration_s, US, out=times.duration_s)
        return dense.with_parts(times, np.rint(compute_ns, out=compute_ns).sum(axis=0))

    def take(
        self, values: npt.NDArray[Any], ops: slice | list[int], out: Floats | None = None
    ) -> npt.NDArray[Any]:
        """Return the values of some ops in all rows; shape (op, row)."""
        if self.places is None:
            # Only mode "clip" writes to `out` without a buffer; no position is out of range.
            return values.take(self.positions(ops), mode="clip", out=out)
        by_op = values.reshape(len(self.rows), -1).T[self.places[ops]]
        if out is None:
            return by_op
        out[...] = by_op
        return out

    def _common(self, values: Int32s, ops: slice | list[int]) -> Int32s:
        """Return the values of some ops in all rows, or in the first row alone if all rows agree."""
        if (values == values[:1]).all():  # such as model chunks without a virtual pipeline
            ops_here = np.arange(sum(self.counts))[ops].size
            return np.broadcast_to(values[:1], (ops_here, 1))
        if self.places is not None:
            by_row = values.reshape(len(self.rows), -1)
            if (by_row == by_row[0]).all():
                return by_row[0, self.places[ops], None]
        return common(self.take(values, ops))

    def positions(self, ops: slice | list[int] | Ints) -> Ints:
        """Return the positions of some ops among the stage's ops; shape (op, row)."""
        if self.at is not None:
            return self.at[ops]
        places = np.arange(0) if self.places is None else self.places[ops]
        return places[:, None] + self.recorded.first_op[:-1]

    def _by_start(self, start_s: Floats) -> "_DenseRows":
        """Sort ops by (type, start), equal starts as recorded, and write the starts to start_s."""
        dense = self
        op_type = np.repeat(np.arange(ot.COUNT), self.counts)
        self.take(self.recorded.start_us, slice(None), start_s)
        same_type = (op_type[1:] == op_type[:-1])[:, None]
        if ((start_s[1:] < start_s[:-1]) & same_type).any():
            at = self.positions(slice(None))
            order = np.lexsort((at, start_s, np.broadcast_to(op_type[:, None], at.shape)), axis=0)
            dense = self._replace(places=None, at=np.take_along_axis(at, order, axis=0))
            dense.take(self.recorded.start_us, slice(None), start_s)
        np.add(start_s, self.recorded.zero_us[self.rows], out=start_s)
        np.multiply(start_s, US, out=start_s)
        return dense

    def with_parts(self, times: Times, compute_ns: Floats) -> LaidRows:
        """Return the rows with the fields of their programs, such as the order of computes and the chunks."""
        places = Places.of(self.counts)
        microbatch = self._common(self.recorded.microbatch, places.computes)
        chunks = self._common(self.recorded.chunk, places.has_chunk)
        self._refuse_doubles(microbatch, chunks)
        # Sorted by start, equal starts as recorded.
        order, dp_order = (
            common_order(self.positions(ops), times.start_s[ops])
            for ops in (places.computes, places.dp_stream)
        )
        loads = np.empty((0, 1), dtype=np.int64)
        if self.counts[ot.DATA_LOAD]:
            values = (self.recorded.microbatch, self.recorded.chunk)
            of_loads = Passes(*(common(self.take(each, places.loads)) for each in values))
            loads = loaded_for(of_loads, Passes(microbatch[places.forwards], chunks[places.forwards]))
        no_ops = common(no_op_transfers(self.counts, *times))
        turns = WorkerTurns(self.counts, *times, no_ops, self.positions)
        parts = Parts(
            order,
            dp_order + places.dp_stream.start,
            chunks,
            loads,
            run_in_turn(*times, places, order, loads),
            no_ops,
            *turns.order(()),
        )
        is_one = all(part.shape[1] == 1 for part in parts)
        program = parts.program(self.counts, 0) if is_one else None
        return LaidRows(self.counts, self.rows, times, microbatch, compute_ns, parts, program, turns)

    def _refuse_doubles(self, microbatch: Int32s, chunk: Int32s) -> None:
        """Raise TraceDefectError if two computes of a direction have the same microbatch and chunk."""
        end = 0
        for op_type in ot.COMPUTE:
            first, end = end, end + self.counts[op_type]
            key = (chunk[first:end].astype(np.int64) << 32) + microbatch[first:end]
            if key.shape[1] == 1 and len(set(key[:, 0].tolist())) == len(key):
                continue
            order = np.argsort(key, axis=0, kind="stable")
            ordered = np.take_along_axis(key, order, axis=0)
            doubles = np.argwhere(ordered[1:] == ordered[:-1])
            if len(doubles):
                op, column = doubles[doubles[:, 1].argmin()].tolist()
                pair = order[op : op + 2, column].tolist()
                at = self.positions([first + pair[0]])[0, column]
                raise TraceDefectError(
                    f"microbatch {int(self.recorded.microbatch[at])} of model chunk "
                    f"{int(self.recorded.chunk[at])} is computed twice in one direction",
                    [OpRef(0, int(self.rows[column]), op_type, ordinal) for ordinal in pair],
                )
