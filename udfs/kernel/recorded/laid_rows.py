"""Rows of one stage as dense arrays, and their classes for a choice of blocking transfers."""

from typing import NamedTuple

import numpy as np

from udfs.kernel.arrays import Floats, Int32s, Ints, alike
from udfs.kernel.graph.graph import StageProgram
from udfs.kernel.recorded.programs import Parts
from udfs.kernel.recorded.worker_order import WorkerTurns


class Times(NamedTuple):
    """Starts relative to the step's zero, and durations; float64, shape (op, row). [s]"""

    start_s: Floats
    duration_s: Floats


class RowClass(NamedTuple):
    """Rows of one stage that share a program, ops ordered by (type, start).

    rows       : int, shape (row,); positions among the stage's rows, ascending.
    times      : shape (op, row).
    microbatch : int32, shape (compute op, row), or (compute op, 1) where all rows agree; forward first.
    compute_ns : float64, shape (row,); what the computes of each row take in whole nanoseconds: such
                 sums are exact, and so the same in whatever order a line lists its ops.
    """

    program: StageProgram
    rows: Ints
    times: Times
    microbatch: Int32s
    compute_ns: Floats


class LaidRows(NamedTuple):
    """Rows of one stage with equal op counts, laid out for any choice of blocking transfers.

    rows, times, microbatch, compute_ns : as in RowClass, of all these rows.
    parts  : of their programs, as if nothing blocked.
    common : their program, as if nothing blocked; None where they have several.
    turns  : what their workers did in turn.
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
        """Split the rows into classes, one per program.

        blocking : types of transfers that the worker waits for before it goes on.
        """
        microbatch, order = self.microbatch, self.turns.order(blocking)
        if self.common is not None and all(part.shape[1] == 1 for part in order):
            program = self.common
            if blocking:
                program = program._replace(worker_order=order.turns(0), calls=order.calls(0))
            return [RowClass(program, self.rows, self.times, microbatch, self.compute_ns)]
        parts = self.parts.held_by(order)
        microbatch = np.broadcast_to(microbatch, (len(microbatch), len(self.rows)))
        classes = []
        for members in alike(parts.signatures(len(self.rows)).T):
            program = parts.program(self.counts, members[0])
            own_times = Times(*(values[:, members] for values in self.times))
            own = self.rows[members], own_times, microbatch[:, members], self.compute_ns[members]
            classes.append(RowClass(program, *own))
        return classes
