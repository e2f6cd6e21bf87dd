"""Result tables of one unit from the results of the kernel; slowdowns are S = T / T_ideal."""

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas import vocabulary
from schemas.tables import TABLES
from schemas.vocabulary import OP_TYPES, RESULT_TABLES, Status
from udfs.intervals import or_null
from udfs.kernel.arrays import Floats
from udfs.kernel.what_if import WhatIf
from udfs.lost import lost_fractions
from udfs.op_lists import GROUPS
from udfs.simulate.companion_rows import baseline_row, cause_rows, clock_columns, clock_figures
from udfs.simulate.effective_time import StepTimes, time_rows
from udfs.simulate.mitigation_rows import mitigation_rows
from udfs.simulate.part_rows import exposed_columns, power_row, role_step_columns, type_rows
from udfs.simulate.rank_rows import ReplayedRows
from udfs.simulate.worker_groups import worker_racks, worker_types

SIMULATOR_VERSION: Final = "1.13.0"
"""Version of the simulator; it is increased if the same trace gives other results, by more than rounding."""

Row: TypeAlias = dict[str, Any]

Column: TypeAlias = Sequence[object] | npt.NDArray[np.generic] | pa.Array | pa.ChunkedArray
Content: TypeAlias = Mapping[str, Column] | Sequence[Row]
"""Content of a result table: columns by name, or a few rows."""


class NotFiniteError(ArithmeticError):
    """Raised for a result that is not finite, so that its unit fails, and not the night at a gate."""


def job_row(manifest: Mapping[str, object], settings: str, status: str, detail: str | None) -> Row:
    """Return the columns of job_slowdown that every unit has; settings : SimulationSettings.text."""
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
    """Return the result tables of a unit that was not replayed, of which only job_slowdown has a row."""
    return {name: _table(name, [job] if name == vocabulary.JOB_SLOWDOWN else []) for name in RESULT_TABLES}


def result_tables(
    job: Row, found: WhatIf, rows: ReplayedRows, facts: Mapping[str, object], ideal: str
) -> dict[str, pa.Table]:
    """Return the result tables of a replayed unit by name. facts : its manifest; ideal : a name in IDEALS."""
    times, types = found.times, worker_types(rows, facts)
    ideal_s = times.ideal.mean()
    stage_slowdown = times.by_stage.mean(axis=1) / ideal_s
    dp_rank_slowdown = times.by_dp_rank.mean(axis=1) / ideal_s
    figures = job | {"ideal": ideal} | _job_figures(job, found, rows)
    causes = cause_rows(found, rows, job, worker_racks(rows, facts))
    lost_fraction = math.fsum(lost_fractions(causes)) if causes else None
    is_analysed = job["status"] == Status.ANALYSED
    made: dict[str, Content] = {
        vocabulary.JOB_SLOWDOWN: [figures],
        vocabulary.STEP_SLOWDOWN: {
            "step": rows.steps,
            "actual_step_s": found.recorded.actual_s,
            "simulated_step_s": times.recorded,
            "ideal_step_s": times.ideal,
            "slowdown": times.recorded / times.ideal,
        },
        vocabulary.OP_TYPE_SLOWDOWN: _by_op_type(times.by_type, ideal_s),
        vocabulary.STAGE_SLOWDOWN: {"pp_rank": range(len(stage_slowdown)), "slowdown": stage_slowdown},
        vocabulary.DP_RANK_SLOWDOWN: {"dp_rank": range(len(dp_rank_slowdown)), "slowdown": dp_rank_slowdown},
        vocabulary.WORKER_SLOWDOWN: _by_worker(found, rows, ideal_s),
        vocabulary.EXPOSED_COMMUNICATION: exposed_columns(found.exposed),
        vocabulary.HOST_CLOCK: clock_columns(found.recorded.clocks, rows),
        vocabulary.JOB_CAUSES: causes,
        vocabulary.JOB_BASELINE: [figures | baseline_row(facts, found, rows, causes, types)],
        vocabulary.GPU_TYPE_SLOWDOWN: type_rows(found, rows, types, job["gpu_hours"]),
        vocabulary.JOB_TIME: time_rows(facts, job, _step_times(found), lost_fraction),
        vocabulary.JOB_POWER: [power_row(found.recorded, rows)],
        vocabulary.ROLE_STEP: role_step_columns(facts, rows, found),
        vocabulary.MITIGATIONS: mitigation_rows(found, rows, facts, job["gpu_hours"]) if is_analysed else [],
    }
    return {name: _table(name, content) for name, content in made.items()}


def _step_times(found: WhatIf) -> StepTimes:
    times_s = (found.recorded.actual_s, found.times.recorded, found.times.ideal)
    return StepTimes(*(float(each.mean()) for each in times_s))


def _job_figures(job: Row, found: WhatIf, rows: ReplayedRows) -> Row:
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
        "slow_worker_share": or_null(found.slow_worker_share),
        "last_stage_share": or_null(found.last_stage_share),
        "forward_backward_correlation": or_null(found.forward_backward_correlation),
        "steps": steps,
        "steps_dropped": rows.steps_dropped,
        "workers": found.is_slowest.size,
        "ops": rows.ops,
        "graphs": recorded.graphs,
        "blocking": [OP_TYPES[each] for each in recorded.blocking.chosen.types],
        "discrepancy_nonblocking": or_null(recorded.blocking.nonblocking),
        "discrepancy_blocking": or_null(recorded.blocking.blocking),
        "clamped_transfers": recorded.clamped_transfers,
        "buffered_sends": recorded.buffered_sends,
        "clamped_launch_delays": recorded.clamped_launch_delays,
        "nobody_late_steps": int(recorded.nobody_late.sum()),
        "odd_rank_steps": rows.odd_rank_steps,
        **clock_figures(recorded.clocks, rows),
        "wasted_gpu_hours": None if gpu_hours is None else gpu_hours * waste_fraction,
    }


def _by_op_type(by_type_s: dict[int, Floats], ideal_s: float) -> dict[str, Column]:
    slowdown = np.array(list(by_type_s.values())).mean(axis=1) / ideal_s
    return {
        "op_type": [GROUPS[group] for group in by_type_s],
        "slowdown": slowdown,
        "waste_fraction": 1.0 - 1.0 / slowdown,
    }


def _by_worker(found: WhatIf, rows: ReplayedRows, ideal_s: float) -> dict[str, Column]:
    table, (stages, dp_ranks) = rows.table, found.is_slowest.shape
    row = pa.array(rows.worker_row.T.ravel())
    of_host = rows.host_row.take(pa.array(np.arange(len(row)).reshape(stages, dp_ranks).T.ravel()))
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
    """Return names and types of a result table's columns, cached because PyArrow is slow to list them."""
    return tuple((field.name, field.type) for field in TABLES[name].value_schema)


@cache
def _no_rows(name: str) -> pa.Table:
    return TABLES[name].value_schema.empty_table()


@cache
def _row_type(name: str) -> pa.DataType:
    return pa.struct(TABLES[name].value_schema)


def _table(name: str, content: Content) -> pa.Table:
    """Return a result table with the given columns; all others are null."""
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
    for row in rows:
        for field, value in row.items():
            if isinstance(value, float) and not math.isfinite(value):
                raise NotFiniteError(f"{field} of {name} is {value}")
    return pa.Table.from_struct_array(pa.array(rows, type=_row_type(name)))


def _column(values: Column, wanted: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    return values.cast(wanted) if isinstance(values, pa.Array) else pa.array(values, type=wanted)
