"""Rows of the result tables; computes slowdowns S = T / T_ideal from the kernel's times."""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.tables import TABLES
from schemas.vocabulary import (
    DP_RANK_SLOWDOWN,
    EXPOSED_COMMUNICATION,
    GPU_TYPE_SLOWDOWN,
    HOST_CLOCK,
    JOB_BASELINE,
    JOB_CAUSES,
    JOB_POWER,
    JOB_SLOWDOWN,
    JOB_TIME,
    MITIGATIONS,
    OP_TYPE_GROUPS,
    OP_TYPE_SLOWDOWN,
    OP_TYPES,
    RESULT_TABLES,
    ROLE_STEP,
    STAGE_SLOWDOWN,
    STEP_SLOWDOWN,
    WORKER_SLOWDOWN,
    Status,
)
from udfs.kernel.arrays import Floats, Int32s
from udfs.kernel.diagnosis.intervals import half_widths, number_of_steps, with_diagnosis
from udfs.kernel.what_if import WhatIf
from udfs.lost import lost_fractions
from udfs.simulate.companion_rows import (
    baseline_row,
    cause_rows,
    clock_columns,
    clock_figures,
)
from udfs.simulate.effective_time import StepTimes, time_rows
from udfs.simulate.gpu_types import WorkerTypes, type_rows
from udfs.simulate.mitigation_rows import mitigation_rows
from udfs.simulate.part_rows import exposed_columns, power_row, role_step_columns
from udfs.simulate.racks import WorkerRacks
from udfs.simulate.rank_rows import ReplayedRows

SIMULATOR_VERSION: Final = "1.11.0"
"""Raised when a result of the same trace changes by more than rounding."""

Row: TypeAlias = dict[str, Any]

Column: TypeAlias = Sequence[object] | npt.NDArray[np.generic] | pa.Array | pa.ChunkedArray
Content: TypeAlias = Mapping[str, Column] | Sequence[Row]
"""Of a result table: its columns, or a few rows."""


class NotFiniteError(ArithmeticError):
    """Raised for a result that is not finite, which a gate would refuse; fails this unit only."""


class Replayed(NamedTuple):
    """A replayed unit: results, rows, name of the ideal, manifest, GPU types and racks."""

    found: WhatIf
    rows: ReplayedRows
    ideal: str
    facts: Mapping[str, object]
    types: WorkerTypes | None
    racks: WorkerRacks | None = None


def job_row(manifest: Mapping[str, object], settings: str, status: str, detail: str | None) -> Row:
    """Columns of job_slowdown that every unit has, replayed or not. settings : as text."""
    world_size, gpu_hours = manifest.get("world_size"), manifest.get("gpu_hours")
    return {
        "status": status,
        "status_detail": detail,
        "failure_traceback": None,
        "world_size": world_size if type(world_size) is int and 0 < world_size < 2**31 else None,
        "gpu_hours": float(gpu_hours)
        if isinstance(gpu_hours, int | float) and math.isfinite(gpu_hours)
        else None,
        "simulator_version": SIMULATOR_VERSION,
        "simulation_settings": settings,
    }


def empty_results(job: Row) -> dict[str, pa.Table]:
    """Result tables of a unit that was not replayed: only its row of job_slowdown."""
    return {name: _table(name, [job] if name == JOB_SLOWDOWN else []) for name in RESULT_TABLES}


def result_tables(job: Row, replayed: Replayed) -> dict[str, pa.Table]:
    """Result tables of a replayed unit."""
    found = replayed.found
    times = found.times
    ideal_s = times.ideal.mean()
    stage_slowdown = times.by_stage.mean(axis=1) / ideal_s
    dp_rank_slowdown = times.by_dp_rank.mean(axis=1) / ideal_s
    figures = job | _job_figures(job, replayed)
    is_analysed = job["status"] == Status.ANALYSED
    causes = _causes(job, replayed, is_analysed=is_analysed)
    made: dict[str, Content] = {
        JOB_SLOWDOWN: [figures],
        STEP_SLOWDOWN: {
            "step": replayed.rows.steps,
            "actual_step_s": found.recorded.actual_s,
            "simulated_step_s": times.recorded,
            "ideal_step_s": times.ideal,
            "slowdown": times.recorded / times.ideal,
        },
        OP_TYPE_SLOWDOWN: _by_op_type(times.by_type, ideal_s),
        STAGE_SLOWDOWN: {"pp_rank": _positions(stage_slowdown), "slowdown": stage_slowdown},
        DP_RANK_SLOWDOWN: {"dp_rank": _positions(dp_rank_slowdown), "slowdown": dp_rank_slowdown},
        WORKER_SLOWDOWN: _by_worker(replayed, ideal_s),
        EXPOSED_COMMUNICATION: exposed_columns(found.exposed),
        HOST_CLOCK: clock_columns(found.recorded.clocks, replayed.rows),
        JOB_CAUSES: causes,
        JOB_BASELINE: [figures | _baseline(replayed, causes)],
        GPU_TYPE_SLOWDOWN: _by_gpu_type(figures["gpu_hours"], ideal_s, replayed),
        JOB_TIME: time_rows(
            replayed.facts, job, _step_times(found), math.fsum(lost_fractions(causes)) if causes else None
        ),
        JOB_POWER: [power_row(found.recorded, replayed.rows)],
        ROLE_STEP: role_step_columns(replayed.facts, replayed.rows, found) or {},
        MITIGATIONS: mitigation_rows(found, replayed.rows, replayed.facts, job["gpu_hours"])
        if is_analysed
        else [],
    }
    return {name: _table(name, content) for name, content in made.items()}


def _positions(values: Floats) -> Int32s:
    return np.arange(len(values), dtype=np.int32)


def _causes(job: Row, replayed: Replayed, *, is_analysed: bool) -> list[Row]:
    """Rows of job_causes; none where no diagnosis was wanted."""
    found = replayed.found
    if found.diagnosis is None:
        return []
    return cause_rows(
        found.diagnosis,
        replayed.rows,
        job["gpu_hours"],
        replayed.racks,
        _half_widths(job, replayed),
        is_analysed=is_analysed,
        nobody_late=float(found.recorded.nobody_late.mean()),
    )


def _baseline(replayed: Replayed, causes: list[Row]) -> Row:
    found = replayed.found
    types = None if found.diagnosis is None else found.diagnosis.types
    factor = None if types is None else types.of_workers.mean(axis=1)[:, 0, 0, 0]
    times = found.ideal_duration_s, found.recorded.compute_ns
    return baseline_row(replayed.facts, *times, replayed.rows, causes, replayed.types, factor)


def _by_gpu_type(gpu_hours: float | None, ideal_s: float, replayed: Replayed) -> list[Row]:
    found, types = replayed.found, replayed.types
    if found.types is None or types is None:
        return []
    return type_rows(found.types, types, found.diagnosis, ideal_s, gpu_hours)


def _step_times(found: WhatIf) -> StepTimes:
    times_s = (found.recorded.actual_s, found.times.recorded, found.times.ideal)
    return StepTimes(*(float(each.mean()) for each in times_s))


def _job_figures(job: Row, replayed: Replayed) -> Row:
    found, rows = replayed.found, replayed.rows
    times, recorded = found.times, found.recorded
    steps = len(rows.steps)
    actual_s, replayed_s, ideal_s = _step_times(found)
    slowdown = replayed_s / ideal_s
    waste_fraction = 1.0 - 1.0 / slowdown
    gpu_hours = job["gpu_hours"]
    return {
        "slowdown": slowdown,
        "waste_fraction": waste_fraction,
        "actual_step_s": actual_s,
        "simulated_step_s": replayed_s,
        "ideal_step_s": ideal_s,
        "actual_total_s": float(recorded.actual_s.sum()),
        "simulated_total_s": float(times.recorded.sum()),
        "ideal_total_s": float(times.ideal.sum()),
        "discrepancy": abs(actual_s - replayed_s) / actual_s,
        "launch_slowdown": actual_s / replayed_s,
        "slow_worker_share": _known(found.slow_worker_share),
        "last_stage_share": _known(found.last_stage_share),
        "forward_backward_correlation": _known(found.forward_backward_correlation),
        "ideal": replayed.ideal,
        "steps": steps,
        "steps_dropped": rows.steps_dropped,
        "workers": found.is_slowest.size,
        "ops": rows.ops,
        "graphs": recorded.graphs,
        "blocking": [OP_TYPES[each] for each in recorded.blocking.chosen.types],
        "discrepancy_nonblocking": _known(recorded.blocking.nonblocking),
        "discrepancy_blocking": _known(recorded.blocking.blocking),
        "clamped_transfers": recorded.clamped_transfers,
        "buffered_sends": recorded.buffered_sends,
        "clamped_launch_delays": recorded.clamped_launch_delays,
        "nobody_late_steps": int(recorded.nobody_late.sum()),
        "odd_rank_steps": rows.odd_rank_steps,
        **clock_figures(recorded.clocks, rows),
        "wasted_gpu_hours": None if gpu_hours is None else gpu_hours * waste_fraction,
    }


def _half_widths(job: Row, replayed: Replayed) -> Floats | None:
    """Half width of the interval of each cause's saving over the day, as cause_rows takes them."""
    diagnosis, actual_s = replayed.found.diagnosis, replayed.found.recorded.actual_s
    if diagnosis is None or diagnosis.saved_by_step is None:
        return None
    steps_of_day = number_of_steps(replayed.rows.steps, actual_s, job["gpu_hours"], job["world_size"])
    of_steps = half_widths(diagnosis.saved_by_step, actual_s, replayed.rows.steps, steps_of_day)
    return with_diagnosis(of_steps, diagnosis.causes)


def _known(number: float) -> float | None:
    """Convert nan to None."""
    return None if math.isnan(number) else number


def _by_op_type(by_type_s: dict[int, Floats], ideal_s: float) -> dict[str, Column]:
    names = [OP_TYPE_GROUPS.get(OP_TYPES[group], OP_TYPES[group]) for group in by_type_s]
    slowdown = np.array(list(by_type_s.values())).mean(axis=1) / ideal_s
    return {"op_type": names, "slowdown": slowdown, "waste_fraction": 1.0 - 1.0 / slowdown}


def _by_worker(replayed: Replayed, ideal_s: float) -> dict[str, Column]:
    found, table = replayed.found, replayed.rows.table
    stages, dp_ranks = found.is_slowest.shape
    row = pa.array(replayed.rows.worker_row.T.ravel())
    of_host = replayed.rows.host_row.take(pa.array(np.arange(len(row)).reshape(stages, dp_ranks).T.ravel()))
    by_step = (found.times.by_worker / found.times.ideal).transpose(1, 0, 2).reshape(len(row), -1)
    return {
        "dp_rank": np.repeat(np.arange(dp_ranks, dtype=np.int32), stages),
        "pp_rank": np.tile(np.arange(stages, dtype=np.int32), dp_ranks),
        "rank": table.column("rank").take(row),
        "host": table.column("host").take(of_host),
        "slowdown": (found.times.by_worker.mean(axis=2) / ideal_s).T.ravel(),
        "slowdown_approx": found.worker_slowdown_approx.T.ravel(),
        "is_slowest": found.is_slowest.T.ravel(),
        "step_slowdowns": pa.FixedSizeListArray.from_arrays(by_step.ravel(), by_step.shape[1]),
    }


@cache
def _fields(name: str) -> tuple[tuple[str, pa.DataType], ...]:
    """Columns of a result table, cached, because PyArrow makes new objects on each access."""
    return tuple((field.name, field.type) for field in TABLES[name].value_schema)


@cache
def _no_rows(name: str) -> pa.Table:
    return TABLES[name].value_schema.empty_table()


@cache
def _row_type(name: str) -> pa.DataType:
    return pa.struct(TABLES[name].value_schema)


def _table(name: str, content: Content) -> pa.Table:
    """Result table; missing columns become null."""
    if not isinstance(content, Mapping):
        return _of_rows(name, content) if content else _no_rows(name)
    length = len(next(iter(content.values()), ()))
    if not length:
        return _no_rows(name)
    for field, values in content.items():
        if isinstance(values, np.ndarray) and values.dtype.kind == "f" and not np.isfinite(values).all():
            raise NotFiniteError(f"{field} of {name} is not finite")
    arrays = [
        _column(content[field], wanted) if field in content else pa.nulls(length, wanted)
        for field, wanted in _fields(name)
    ]
    return pa.Table.from_arrays(arrays, schema=TABLES[name].value_schema)


def _of_rows(name: str, rows: Sequence[Row]) -> pa.Table:
    """Rows, converted at once."""
    for row in rows:
        for field, value in row.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise NotFiniteError(f"{field} of {name} is {value}")
    return pa.Table.from_struct_array(pa.array(rows, type=_row_type(name)))


def _column(values: Column, wanted: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values.cast(wanted) if isinstance(values, pa.Array) else pa.array(values, type=wanted)
