"""A generated job as its rank_steps rows."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from jobs.synthetic.program import ProgramOp
from jobs.synthetic.shape import JobShape, LineOrder
from jobs.synthetic.timeline import Timeline
from schemas.vocabulary import OP_CODES, OP_TYPES

Int64s = NDArray[np.int64]
TICKS_PER_US = 10
"""Logs keep a tenth of a microsecond."""
ALPHABETICAL = np.argsort(np.argsort(OP_TYPES))
"""Place of an op type's name among the names, by code."""
OTHER_RANK_JITTER_US = 3.0
"""How far the other ranks of a worker differ from the first."""


def rank_rows(
    shape: JobShape,
    ops: Sequence[ProgramOp],
    timeline: Timeline,
    step_numbers: Sequence[int],
    step_t0_us: Sequence[int],
    host_of: Callable[[int], str | None],
    rng: np.random.Generator,
) -> pa.Table:
    """Rows (step, rank), sorted by pp_rank, step, dp_rank, cp_rank, tp_rank; op as codes, times in us.

    step_t0_us : Unix time at which each step starts [us]; every line has a separate zero after that
    host_of    : host of a global rank; a host has eight GPUs
    """
    stages = [
        _stage_rows(shape, [op for op in ops if op.pp_rank == pp_rank], timeline, step_t0_us, rng)
        for pp_rank in range(shape.pp_size)
    ]
    columns = {name: pa.concat_arrays([stage[name] for stage in stages]) for name in stages[0]}
    axes = (shape.pp_size, shape.steps, shape.dp_size, shape.recorded_cp_ranks, shape.recorded_tp_ranks)
    pp_rank, step, dp_rank, cp_rank, tp_rank = (axis.ravel() for axis in np.indices(axes))
    ranks = ((pp_rank * shape.dp_size + dp_rank) * shape.cp_size + cp_rank) * shape.tp_size + tp_rank
    hosts = {int(rank): host_of(int(rank)) for rank in np.unique(ranks)}
    return pa.table(
        {
            "step": pa.array(np.asarray(step_numbers)[step], pa.int64()),
            "rank": pa.array(ranks, pa.int32()),
            "dp_rank": pa.array(dp_rank, pa.int32()),
            "pp_rank": pa.array(pp_rank, pa.int32()),
            "tp_rank": pa.array(tp_rank, pa.int32()),
            "cp_rank": pa.array(cp_rank, pa.int32()),
            "host": pa.array([hosts[int(rank)] for rank in ranks], pa.string()),
            "gpu": pa.array([int(r) % 8 if hosts[int(r)] is not None else None for r in ranks], pa.int32()),
            **columns,
        }
    )


def _stage_rows(
    shape: JobShape,
    ops: Sequence[ProgramOp],
    timeline: Timeline,
    step_t0_us: Sequence[int],
    rng: np.random.Generator,
) -> dict[str, "pa.Array[Any]"]:
    """t0_us and the five list columns of one stage; rows run over (step, dp_rank, cp_rank, tp_rank)."""
    ops = [op for op in ops if op.op_type not in shape.absent]
    numbers = [op.number for op in ops]
    start = _lines(timeline.start_us[numbers], shape)
    end = _lines(timeline.end_us[numbers], shape)
    jitter = rng.random((*start.shape[:-1], 1)) * OTHER_RANK_JITTER_US
    jitter[:, :, 0, 0] = 0.0
    start_ticks = np.rint((start + jitter) * TICKS_PER_US).astype(np.int64)
    end_ticks = np.rint((end + jitter) * TICKS_PER_US).astype(np.int64)
    latest_zero_us = start_ticks.min(axis=-1, keepdims=True) // TICKS_PER_US
    zero_us = (rng.random(latest_zero_us.shape) * (latest_zero_us + 1)).astype(np.int64)
    t0_us = zero_us[..., 0] + np.asarray(step_t0_us, np.int64)[:, None, None, None]
    code = np.array([OP_CODES[op.op_type] for op in ops], np.int8)
    order = _order(shape.line_order, start_ticks, code, rng)
    start_us = np.take_along_axis(start_ticks - zero_us * TICKS_PER_US, order, -1) / TICKS_PER_US
    duration_us = np.take_along_axis(end_ticks - start_ticks, order, -1) / TICKS_PER_US
    return {
        "t0_us": pa.array(t0_us.ravel(), pa.int64()),
        "op": _lists(code[order]),
        "start_us": _lists(start_us),
        "duration_us": _lists(duration_us),
        "microbatch": _lists(np.array([op.microbatch for op in ops], np.int32)[order]),
        "model_chunk": _lists(np.array([op.model_chunk for op in ops], np.int32)[order]),
    }


def _lines(times_us: NDArray[np.float64], shape: JobShape) -> NDArray[np.float64]:
    """Reorder (op, step, dp_rank) to (step, dp_rank, cp_rank, tp_rank, op), alike for recorded ranks."""
    lines = np.moveaxis(times_us, 0, -1)[:, :, None, None, :]
    axes = (shape.steps, shape.dp_size, shape.recorded_cp_ranks, shape.recorded_tp_ranks, len(times_us))
    return np.broadcast_to(lines, axes)


def _order(how: LineOrder, start_ticks: Int64s, code: NDArray[np.int8], rng: np.random.Generator) -> Int64s:
    """Positions of the ops along the last axis in the order in which a line lists them."""
    if how == "schedule":
        return np.broadcast_to(np.arange(len(code)), start_ticks.shape)
    if how == "shuffled":
        return np.argsort(rng.random(start_ticks.shape), axis=-1)
    by_start = np.argsort(start_ticks, axis=-1, kind="stable")
    if how == "start":
        return by_start
    names = ALPHABETICAL[code][by_start]
    by_name = np.argsort(names, axis=-1, kind="stable")
    return np.take_along_axis(by_start, by_name, -1)


def _lists(values: NDArray[np.generic]) -> "pa.ListArray[Any]":
    """Lists of equal length along the last axis."""
    length, rows = values.shape[-1], values.size // max(values.shape[-1], 1)
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * length)
    return pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(values).ravel()))
