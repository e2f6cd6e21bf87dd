"""Rows of a stage as dense arrays, in classes of rows that have equal signatures and so one program."""

from itertools import accumulate
from typing import NamedTuple

import numpy as np

from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Int32s, Ints, Mask, alike, common
from udfs.kernel.graph.graph import StageProgram
from udfs.kernel.recorded.durations import NO_OP_TOLERANCE_S
from udfs.kernel.recorded.worker_order import WorkerOrder, WorkerTurns


class Places(NamedTuple):
    """Slices of a row's ops, ordered by (type, start), one for each kind of ops.

    forwards, computes, dp_stream, loads : consecutive ops.
    """

    forwards: slice
    computes: slice
    dp_stream: slice
    loads: slice

    @classmethod
    def of(cls, counts: tuple[int, ...]) -> "Places":
        """Return the slices for rows with these op counts per type."""
        first = tuple(accumulate(counts, initial=0))
        return cls(
            slice(0, first[ot.FORWARD_COMPUTE + 1]),
            slice(0, first[ot.BACKWARD_COMPUTE + 1]),
            slice(first[ot.PARAMS_ALL_GATHER], first[ot.GRADS_REDUCE_SCATTER + 1]),
            slice(first[ot.DATA_LOAD], first[ot.DATA_LOAD + 1]),
        )

    @property
    def has_chunk(self) -> list[int]:
        """Numbers of those ops that belong to a model chunk."""
        return [*range(self.computes.stop), *range(self.dp_stream.start, self.dp_stream.stop)]


class Parts(NamedTuple):
    """All fields of a stage's program but its op counts; (entry, row), or (entry, 1) if rows agree.

    Arrays are int or bool.

    chunks : model chunks of the ops that have one.
    no_ops : for every op, whether it is a transfer that never moved data.
    worker_order, is_joined, is_beside : as in WorkerOrder.
    """

    compute_order: Ints
    dp_order: Ints
    chunks: Int32s
    loaded_for: Ints
    in_turn: Mask
    no_ops: Mask
    worker_order: Ints
    is_joined: Mask
    is_beside: Mask

    def program(self, counts: tuple[int, ...], row: int) -> StageProgram:
        """Build the program (the ops and their order) of one row."""
        compute_order, dp_order, of_ops, loaded_for, in_turn, no_ops, *_ = (
            part[:, min(row, part.shape[1] - 1)].tolist() for part in self
        )
        chunks = [-1] * sum(counts)
        for op, chunk in zip(Places.of(counts).has_chunk, of_ops, strict=True):
            chunks[op] = chunk
        order = WorkerOrder(self.worker_order, self.is_joined, self.is_beside)
        return StageProgram(
            counts=counts,
            compute_order=tuple(compute_order),
            dp_order=tuple(dp_order),
            chunks=tuple(chunks),
            no_ops=tuple(op for op, is_no_op in enumerate(no_ops) if is_no_op),
            loaded_for=tuple(loaded_for),
            in_turn=tuple(in_turn),
            worker_order=order.turns(row),
            calls=order.calls(row),
        )


class Passes(NamedTuple):
    """Microbatch and model chunk of some ops; int, shape (op, row) or (op, 1)."""

    microbatch: Int32s
    chunk: Int32s


def loaded_for(loads: Passes, forwards: Passes) -> Ints:
    """Find the forward-compute that waits for each load, -1 for none; shape (load, row) or (load, 1).

    This is the compute of the load's microbatch and chunk, or else the first compute of its microbatch.
    """
    rows = max(values.shape[1] for values in (*loads, *forwards))
    found = np.full((len(loads.microbatch), rows), -1, dtype=np.int64)
    for load, (microbatch, chunk) in enumerate(zip(*loads, strict=True)):
        is_own = forwards.microbatch == microbatch
        if is_own.any():
            # Of two alike, argmax takes the first.
            fits = is_own + (is_own & (forwards.chunk == chunk)).astype(np.int8)
            found[load] = np.where(is_own.any(axis=0), fits.argmax(axis=0), -1)
    return common(found)


def run_in_turn(start_s: Floats, duration_s: Floats, places: Places, order: Ints, forwards: Ints) -> Mask:
    """Return whether loads take turns with computes (model, section 2); shape (load, row) or (load, 1).

    start_s, duration_s : float64, shape (op, row). [s]
    order               : computes by start, shape (compute, row), or (compute, 1).
    forwards            : from `loaded_for`.
    """
    loads, rows = len(forwards), start_s.shape[1]
    if not loads or not len(order):
        return np.zeros((loads, 1), dtype=bool)
    order = np.broadcast_to(order, (len(order), rows))
    forwards = np.broadcast_to(forwards, (loads, rows))
    place_of = np.argsort(order, axis=0)
    places_of_forwards = np.take_along_axis(place_of, np.maximum(forwards, 0), axis=0)
    has_compute_before = (forwards >= 0) & (places_of_forwards > 0)
    before = np.take_along_axis(order, np.maximum(places_of_forwards - 1, 0), axis=0)
    computed_s = np.take_along_axis(start_s, before, axis=0) + np.take_along_axis(duration_s, before, axis=0)
    load_start_s = start_s[places.loads]
    loaded_s = load_start_s + duration_s[places.loads]
    is_late = load_start_s >= computed_s - NO_OP_TOLERANCE_S
    is_late[1:] &= loaded_s[:-1] <= computed_s[1:]
    found = has_compute_before & is_late
    if loads > 1:
        found[0] |= (forwards[0] >= 0) & ~has_compute_before[0] & found[1]
    return common(found)


class Times(NamedTuple):
    """Starts relative to the zero of the step, and durations; float64, shape (op, row). [s]"""

    start_s: Floats
    duration_s: Floats


class RowClass(NamedTuple):
    """Rows of one stage with one program, and with ops ordered by (type, start).

    rows       : int, shape (row,); positions among the stage's rows, ascending.
    times      : shape (op, row).
    microbatch : int32, shape (compute op, row), or (compute op, 1) where all rows agree; forward first.
    compute_ns : float64, shape (row,); time of each row's computes, summed in whole nanoseconds: these sums
                 are exact, so that they do not depend on the order in which a line lists its ops.
    """

    program: StageProgram
    rows: Ints
    times: Times
    microbatch: Int32s
    compute_ns: Floats


class LaidRows(NamedTuple):
    """Rows of one stage with equal op counts, before it is chosen which transfers block.

    rows, times, microbatch, compute_ns : as in RowClass, of all these rows.
    parts  : of their programs without blocking.
    common : their program without blocking; None if they have several.
    turns  : returns the order of their computes and transfers for a choice of blocking types.
    """

    counts: tuple[int, ...]
    rows: Ints
    times: Times
    microbatch: Int32s
    compute_ns: Floats
    parts: Parts
    common: StageProgram | None
    turns: WorkerTurns

    def classes(self, blocking: tuple[int, ...] = ()) -> list[RowClass]:
        """Divide the rows into classes, each of which has one program.

        blocking : types of transfers that the worker waits for before it goes on.
        """
        microbatch, order = self.microbatch, self.turns.order(blocking)
        if self.common is not None and all(part.shape[1] == 1 for part in order):
            program = self.common
            if blocking:
                program = program._replace(worker_order=order.turns(0), calls=order.calls(0))
            return [RowClass(program, self.rows, self.times, microbatch, self.compute_ns)]
        parts = Parts(*self.parts[:-3], *order)
        microbatch = np.broadcast_to(microbatch, (len(microbatch), len(self.rows)))
        signatures = np.concatenate([np.broadcast_to(part, (len(part), len(self.rows))) for part in parts])
        classes = []
        for members in alike(signatures.T):
            program = parts.program(self.counts, members[0])
            own_times = Times(*(values[:, members] for values in self.times))
            own = self.rows[members], own_times, microbatch[:, members], self.compute_ns[members]
            classes.append(RowClass(program, *own))
        return classes
