"""Recording of a generated job: rows with the columns of rank_steps, and a manifest."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jobs.synthetic.program import ProgramOp
from jobs.synthetic.shape import GPUS_PER_HOST, JobShape, LineOrder
from jobs.synthetic.simulation import BURST, JobPlan, Simulation
from jobs.synthetic.timeline import Timeline
from schemas.vocabulary import OP_CODES, OP_TYPES
from udfs.op_lists import LISTS

SIZES: Final = ("dp_size", "pp_size", "tp_size", "cp_size", "vpp_size", "world_size")
"""Sizes that the manifest states."""
TICKS_PER_US: Final = 10
"""Logged times are rounded to a tenth of a microsecond."""
ALPHABETICAL: Final = np.argsort(np.argsort(OP_TYPES))
"""By op code, the place of the op type's name in alphabetical order."""
OTHER_RANK_JITTER_US: Final = 3.0
"""The ops of the other ranks of a worker are recorded up to this much later than those of its first rank."""

Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class GeneratedJob:
    """Rows with the columns of rank_steps except ids and source_file, and the manifest."""

    rank_steps: pa.Table
    manifest: dict[str, Any]

    @property
    def ops(self) -> int:
        """Return the number of recorded ops."""
        return int(pc.sum(pc.list_value_length(self.rank_steps["op"])).as_py() or 0)

    def contradicting(self) -> "GeneratedJob":
        """Return the job without one recv of its last rank in each step, so that one send has no recv."""
        records = self.rank_steps.to_pylist()
        for record in records:
            if record["rank"] == records[-1]["rank"]:
                place = record["op"].index(OP_CODES["forward-recv"])
                for name in LISTS:
                    del record[name][place]
        return GeneratedJob(pa.Table.from_pylist(records, self.rank_steps.schema), self.manifest)


def recorded_job(simulation: Simulation, t0_us: Int64s | None = None) -> GeneratedJob:
    """Run a job with all its mechanisms; return the rows of all logs that are not lost, and the manifest.

    t0_us : Unix time at which each recorded step starts, shape (step,); by default as plan.identity says [us]
    returns : a row per step and rank, sorted by pp_rank, step, dp_rank, cp_rank, tp_rank
    """
    plan = simulation.plan
    shape, host_of, rng = plan.shape, plan.identity.host_of, simulation.rng("record")
    timeline = simulation.timeline()
    t0_us = _step_zeros_us(plan, timeline) if t0_us is None else t0_us
    timeline = _by_clocks_of_workers(timeline, simulation, t0_us)
    stages = [
        _stage_rows(shape, [op for op in simulation.place.ops if op.pp_rank == pp_rank], timeline, t0_us, rng)
        for pp_rank in range(shape.pp_size)
    ]
    axes = (shape.pp_size, shape.steps, shape.dp_size, shape.recorded_cp_ranks, shape.recorded_tp_ranks)
    pp_rank, step, dp_rank, cp_rank, tp_rank = (axis.ravel() for axis in np.indices(axes))
    ranks = ((pp_rank * shape.dp_size + dp_rank) * shape.cp_size + cp_rank) * shape.tp_size + tp_rank
    hosts = {int(rank): host_of(int(rank)) for rank in np.unique(ranks)}
    rows = pa.table(
        {
            "step": pa.array(np.asarray(plan.step_numbers)[step], pa.int64()),
            "rank": pa.array(ranks, pa.int32()),
            "dp_rank": pa.array(dp_rank, pa.int32()),
            "pp_rank": pa.array(pp_rank, pa.int32()),
            "tp_rank": pa.array(tp_rank, pa.int32()),
            "cp_rank": pa.array(cp_rank, pa.int32()),
            "host": pa.array([hosts[int(rank)] for rank in ranks], pa.string()),
            "gpu": pa.array(ranks % GPUS_PER_HOST, pa.int32()),
            **{name: pa.concat_arrays([stage[name] for stage in stages]) for name in stages[0]},
        }
    )
    if plan.lost_ranks:
        rows = rows.filter(pc.invert(pc.is_in(rows["rank"], pa.array(sorted(plan.lost_ranks), pa.int32()))))
    ids = {"job_id": plan.identity.job_id, "run_id": plan.identity.run_id}
    sizes = {name: getattr(shape, name) for name in SIZES}
    stated = {name: of for each in plan.mechanisms for name, of in each.fields(simulation.place).items()}
    return GeneratedJob(rows, {**ids, **sizes, **plan.identity.fields, **stated})


def _step_zeros_us(plan: JobPlan, timeline: Timeline) -> Int64s:
    """Return the Unix time at which each recorded step starts, shape (step,). [us]

    Steps follow a beat, or are spread over recorded_s in bursts, or follow each other, as plan.identity says.
    """
    identity, step = plan.identity, np.arange(plan.shape.steps)
    step_us = timeline.end_us.max(axis=(0, 2))
    elapsed_us = np.concatenate([[0.0], np.cumsum(step_us)[:-1]])
    first = step // BURST * BURST  # of the burst
    later = np.asarray(plan.step_numbers) - identity.first_step
    if identity.beat_s is not None:
        since_us = later * identity.beat_s * 1e6
    elif identity.recorded_s is None:
        since_us = elapsed_us + (later - step) * step_us.mean()
    else:
        since_us = elapsed_us - elapsed_us[first] + first / len(step) * identity.recorded_s * 1e6
    t0_us: Int64s = identity.first_t0_us + np.rint(since_us).astype(np.int64)
    return t0_us


def _by_clocks_of_workers(timeline: Timeline, simulation: Simulation, t0_us: Int64s) -> Timeline:
    """Return the times by each worker's clock; all are shifted alike so that none is below zero."""
    conditions = simulation.conditions()
    since_s = (t0_us - t0_us[0])[:, None] * 1e-6
    ahead_s = conditions.clock_s[:, None, :] + conditions.clock_rate[:, None, :] * since_s
    ahead_s += conditions.clock_jump_s
    ahead_s -= min(ahead_s.min(), 0.0)
    ahead_us = ahead_s[simulation.place.pp_rank] * 1e6
    return Timeline(timeline.start_us + ahead_us, timeline.end_us + ahead_us)


def _stage_rows(
    shape: JobShape,
    ops: Sequence[ProgramOp],
    timeline: Timeline,
    step_t0_us: Int64s,
    rng: np.random.Generator,
) -> dict[str, "pa.Array[Any]"]:
    """Return columns t0_us and the five lists for one stage; rows by (step, dp_rank, cp_rank, tp_rank).

    ops : all ops of the stage, including types that the profiler does not record
    step_t0_us : Unix time at which each step starts; a line's t0_us is drawn between it and the first op [us]
    """
    ops = [op for op in ops if op.op_type not in shape.absent]
    numbers = [op.number for op in ops]
    start, end = (_lines(times[numbers], shape) for times in (timeline.start_us, timeline.end_us))
    jitter = rng.random((*start.shape[:-1], 1)) * OTHER_RANK_JITTER_US
    jitter[:, :, 0, 0] = 0.0
    start_ticks = np.rint((start + jitter) * TICKS_PER_US).astype(np.int64)
    end_ticks = np.rint((end + jitter) * TICKS_PER_US).astype(np.int64)
    latest_zero_us = start_ticks.min(axis=-1, keepdims=True) // TICKS_PER_US
    zero_us = (rng.random(latest_zero_us.shape) * (latest_zero_us + 1)).astype(np.int64)
    t0_us = zero_us[..., 0] + step_t0_us[:, None, None, None]
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
    """Reorder (op, step, dp_rank) to (step, dp_rank, cp_rank, tp_rank, op), copied to all recorded ranks."""
    lines = np.moveaxis(times_us, 0, -1)[:, :, None, None, :]
    axes = (shape.steps, shape.dp_size, shape.recorded_cp_ranks, shape.recorded_tp_ranks, len(times_us))
    return np.broadcast_to(lines, axes)


def _order(how: LineOrder, start_ticks: Int64s, code: NDArray[np.int8], rng: np.random.Generator) -> Int64s:
    """Return, along the last axis, the indices of the ops in the order in which each log line lists them."""
    if how == "schedule":
        return np.broadcast_to(np.arange(len(code)), start_ticks.shape)
    if how == "shuffled":
        return np.argsort(rng.random(start_ticks.shape), axis=-1)
    by_start = np.argsort(start_ticks, axis=-1, kind="stable")
    if how == "start":
        return by_start
    by_name = np.argsort(ALPHABETICAL[code][by_start], axis=-1, kind="stable")
    return np.take_along_axis(by_start, by_name, -1)


def _lists(values: NDArray[np.generic]) -> "pa.ListArray[Any]":
    """Return an Arrow array with one list for each row along the last axis."""
    length, rows = values.shape[-1], values.size // max(values.shape[-1], 1)
    offsets = pa.array(np.arange(rows + 1, dtype=np.int32) * length)
    return pa.ListArray.from_arrays(offsets, pa.array(np.ascontiguousarray(values).ravel()))
