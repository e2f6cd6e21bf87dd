"""Computes of a unit, the computes that make their inputs, gaps between the two, and slow computes."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from schemas.vocabulary import OP_TYPES
from udfs.errors import TraceError
from udfs.kernel import op_type as ot
from udfs.kernel.arrays import Floats, Ints, Mask
from udfs.kernel.graph.graph import Layout
from udfs.kernel.recorded.rows import US, StageRows

SLOW: Final = 1.1
"""Computes that take at least this multiple of the usual time are reported."""

PEERS: Final = 3
"""With fewer dp ranks it is unknown which of them is slow."""

MOST_NAMED: Final = 20

Row = dict[str, Any]


class Computes(NamedTuple):
    """Computes of all stages; arrays of shape (compute,), times relative to the step's zero. [us]

    op    : position among the ops of a stage, counted from its first.
    row   : position of (step, dp_rank) among the rows of a stage.
    chunk : position in the model: model chunk x pp_size + stage.
    key   : one number for direction, chunk, microbatch and row; ascending.
    previous_us : end of the previous compute of the worker in the step; -inf for the first.
    next_us : start of the next compute of the worker in the step; inf for the last.
    stride : difference of the keys of one microbatch on neighbouring chunks.
    """

    op: Ints
    row: Ints
    stage: Ints
    direction: Ints
    chunk: Ints
    start_us: Floats
    end_us: Floats
    previous_us: Floats
    next_us: Floats
    key: Ints
    stride: int

    def end_of_source_us(self, chunks: int) -> Floats:
        """Return the end of the compute that makes each compute's input; -inf for the model's input. [us]"""
        return self._of_neighbour(self.end_us, np.where(self.direction == 0, -1, 1), chunks)

    def start_of_target_us(self, chunks: int) -> Floats:
        """Return the start of the compute that takes each compute's output; -inf if no compute does. [us]"""
        return self._of_neighbour(self.start_us, np.where(self.direction == 0, 1, -1), chunks)

    def _of_neighbour(self, values: Floats, step: Ints, chunks: int) -> Floats:
        found = np.full(len(values), -np.inf)
        wanted = np.flatnonzero((self.chunk + step >= 0) & (self.chunk + step < chunks))
        keys = self.key[wanted] + step[wanted] * self.stride
        at = np.minimum(np.searchsorted(self.key, keys), len(self.key) - 1)
        if (self.key[at] != keys).any():
            lost = wanted[int(np.argmax(self.key[at] != keys))]
            raise TraceError(
                f"a compute of stage {self.stage[lost]} has no counterpart on the stage next to it: computes "
                "are missing, or the schedule is dynamic or V-shaped, which cannot be replayed"
            )
        found[wanted] = values[at]
        return found


def computes_of(recorded: Sequence[StageRows], layout: Layout) -> Computes:
    """Collect the computes of all stages, sorted by key.

    raises : TraceError if there is no compute, or a compute of a chunk that the layout does not have.
    """
    each = [_of_stage(own.from_first_op(), stage, layout) for stage, own in enumerate(recorded)]
    microbatch, *columns = map(np.concatenate, zip(*each, strict=True))
    _, row, _, direction, chunk, *_ = columns
    rows, chunks = len(recorded[0].zero_us), layout.pp_size * layout.vpp_size
    if not len(chunk):
        raise TraceError("neither a forward-compute nor a backward-compute was recorded")
    if not 0 <= chunk.min() <= chunk.max() < chunks:
        raise TraceError(f"a model_chunk of a compute lies outside vpp_size {layout.vpp_size}")
    names, which = np.unique(microbatch, return_inverse=True)
    key = ((direction * chunks + chunk) * len(names) + which) * rows + row
    order = np.argsort(key, kind="stable")
    return Computes._make([*(values[order] for values in (*columns, key)), len(names) * rows])


def _of_stage(own: StageRows, stage: int, layout: Layout) -> tuple[npt.NDArray[Any], ...]:
    """Return the microbatches of one stage's computes, followed by the columns of Computes up to next_us."""
    row_of_op = np.repeat(np.arange(len(own.zero_us)), np.diff(own.first_op))
    computes = np.flatnonzero(np.isin(own.op_type, ot.COMPUTE))
    starts_us = own.start_us[computes] + own.zero_us[row_of_op[computes]]
    order = np.lexsort((starts_us, row_of_op[computes]))
    computes, start_us = computes[order], starts_us[order]
    row = row_of_op[computes]
    end_us = start_us + own.duration_us[computes]
    previous_us = np.full(len(row), -np.inf)
    previous_us[1:] = np.where(row[1:] == row[:-1], end_us[:-1], -np.inf)
    next_us = np.full(len(row), np.inf)
    next_us[:-1] = np.where(row[1:] == row[:-1], start_us[1:], np.inf)
    direction = own.op_type[computes].astype(np.int64)
    chunk = own.chunk[computes].astype(np.int64) * layout.pp_size + stage
    stages = np.full(len(row), stage)
    places = computes, row, stages, direction, chunk
    return own.microbatch[computes], *places, start_us, end_us, previous_us, next_us


def slow_computes(computes: Computes, layout: Layout) -> list[Row]:
    """Find stages, or single dp ranks of a stage, whose computes take longer than usual, the worst first.

    A stage is compared with the lower median of all stages and chunks, and a dp rank with the lower median of
    all dp ranks of its stage. Times are medians over steps and microbatches.
    """
    chunks = layout.pp_size * layout.vpp_size
    cell = (computes.direction * chunks + computes.chunk) * layout.dp_size + computes.row % layout.dp_size
    own_s = np.full(2 * chunks * layout.dp_size, np.nan)
    order = np.argsort(cell, kind="stable")
    cells, first = np.unique(cell[order], return_index=True)
    lengths_s = (computes.end_us - computes.start_us)[order] * US
    own_s[cells] = [np.median(some) for some in np.split(lengths_s, first[1:])]
    by_cell = own_s.reshape(2, chunks, layout.dp_size)
    by_stage = _lower_median(by_cell)
    found = [
        _slow(way, chunk, None, float(by_stage[way, chunk]), float(usual), layout)
        for way, usual in enumerate(_lower_median(by_stage))
        for chunk in np.flatnonzero(by_stage[way] >= SLOW * usual).tolist()
    ]
    if layout.dp_size >= PEERS:
        found += [
            _slow(way, chunk, dp, float(by_cell[way, chunk, dp]), float(by_stage[way, chunk]), layout)
            for way, chunk, dp in np.argwhere(by_cell >= SLOW * by_stage[:, :, None]).tolist()
        ]
    found.sort(key=lambda each: each["usual_s"] - each["duration_s"])
    return found[:MOST_NAMED]


def _lower_median(values: Floats) -> Floats:
    lower: Floats = np.sort(values, axis=-1)[..., (values.shape[-1] - 1) // 2]
    return lower


def _slow(way: int, chunk: int, dp_rank: int | None, own_s: float, usual_s: float, layout: Layout) -> Row:
    return {
        "op_type": OP_TYPES[ot.COMPUTE[way]],
        "pp_rank": chunk % layout.pp_size,
        "model_chunk": chunk // layout.pp_size,
        "dp_rank": dp_rank,
        "duration_s": own_s,
        "usual_s": usual_s,
    }


DIRECTIONS: Final = ("forward", "backward")


def sender_of(direction: int, receiver: int, layout: Layout) -> int:
    """Return the stage from which a stage receives in a direction, modulo the length of the pipeline."""
    return (receiver + (1 if direction else -1)) % layout.pp_size


def least_gaps_us(computes: Computes, layout: Layout, rows: int) -> Floats:
    """Return the shortest time from the end of a compute to the start of the one that takes its output. [us]

    The shortest time is taken because most computes also wait until their worker is free; some find it idle.

    rows    : number of (step, dp_rank).
    returns : float64, shape (direction, receiving stage, row); inf where nothing is passed on. [us]
    """
    source_us = computes.end_of_source_us(layout.pp_size * layout.vpp_size)
    least_us = np.full((2, layout.pp_size, rows), np.inf)
    np.minimum.at(least_us, (computes.direction, computes.stage, computes.row), computes.start_us - source_us)
    return least_us


def gap_rows(least_us: Floats, layout: Layout) -> list[Row]:
    """Return the mean gap of each stage boundary and direction as rows, the largest gap first.

    least_us : from least_gaps_us, on one clock. [us]
    """
    joined: Mask = np.all(np.isfinite(least_us), axis=2)
    gap_s = np.where(joined[:, :, None], np.maximum(least_us, 0.0), 0.0).mean(axis=2) * US
    found: list[Row] = [
        {
            "direction": DIRECTIONS[direction],
            "pp_rank": sender_of(direction, receiver, layout),
            "next_pp_rank": receiver,
            "gap_s": float(gap_s[direction, receiver]),
            "usual_s": float(_lower_median(gap_s[joined])),
        }
        for direction, receiver in np.argwhere(joined).tolist()
    ]
    found.sort(key=lambda each: -each["gap_s"])
    return found[:MOST_NAMED]
