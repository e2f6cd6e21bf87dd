"""Rows of job_power, exposed_communication, role_step and gpu_type_slowdown for one unit."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from schemas.vocabulary import ALL_OP_TYPES, ALL_STAGES, NOT_STATED, Scope
from udfs.intervals import or_null
from udfs.kernel.arrays import Ints
from udfs.kernel.cause import MIXED_HARDWARE
from udfs.kernel.recorded.first_pass import Recorded
from udfs.kernel.replay.exposed import ALL, Exposed
from udfs.kernel.swing import IN_BEAT, beat, swing
from udfs.kernel.what_if import WhatIf
from udfs.op_lists import GROUPS
from udfs.simulate.odd_records import log_day
from udfs.simulate.rank_rows import ENDLESS_US, ReplayedRows
from udfs.simulate.worker_groups import WorkerGroups

Row = dict[str, Any]

_US: Final = 1e6
"""Microseconds in a second."""


def power_row(recorded: Recorded, rows: ReplayedRows) -> Row:
    """Return the row of job_power; some columns are null for a constant share or a log without clock time."""
    computing, actual_s = recorded.computing, float(recorded.actual_s.mean())
    low, high = float(computing.mean.min()), float(computing.mean.max())
    found = swing(computing.mean)
    columns: Row = {
        "actual_step_s": actual_s,
        "mean_share": float(computing.mean.mean()),
        "low_share": low,
        "high_share": high,
        "swing_share": high - low,
        "step_swing_share": computing.step_swing,
    }
    if found.dominant:
        columns |= {
            "dominant_harmonic": found.dominant,
            "dominant_period_s": actual_s / found.dominant,
            "dominant_amplitude": found.amplitude,
        }
    columns |= _on_the_clock(recorded, rows, found.dominant, found.peak * actual_s)
    lists = {
        "computing_share": computing.mean,
        "computing_share_low": computing.low,
        "computing_share_high": computing.high,
        "harmonic_amplitudes": found.amplitudes,
    }
    return columns | {name: values.astype(np.float32) for name, values in lists.items()}


def _on_the_clock(recorded: Recorded, rows: ReplayedRows, dominant: int, peak_s: float) -> Row:
    """Return the absolute times of step starts and of power peaks; empty if the log has no time of day.

    peak_s : first peak of the dominant component in a step. [s]
    """
    zero_us = rows.step_zero_us
    if zero_us is None:
        return {}
    began_us = zero_us - zero_us[0] + recorded.began_s * _US
    ended_us = began_us[-1] + recorded.actual_s[-1] * _US
    if not np.abs([*began_us, ended_us]).max() < ENDLESS_US:
        return {}

    def at(since_us: float) -> int:
        return int(zero_us[0]) + round(since_us)

    columns: Row = {"first_us": at(began_us[0]), "last_us": at(ended_us)}
    found = beat(rows.steps, began_us / _US)
    if found is None:
        return columns
    columns["step_every_s"] = found.every_s
    if dominant:
        scatter = dominant * found.scatter_s / found.every_s
        columns["beat_scatter"] = scatter
        if scatter <= IN_BEAT:
            columns["peak_us"] = at((found.middle_s + peak_s) * _US)
    return columns


def exposed_columns(found: Sequence[Exposed]) -> dict[str, list[object]]:
    """Return the columns of exposed_communication by name; see schemas.exposed_communication."""
    scenarios = [each.scenario for each in found]
    return {
        "scope": [
            Scope.OP_TYPE if group != ALL else Scope.JOB if stage == ALL else Scope.STAGE
            for group, stage in scenarios
        ],
        "op_type": [ALL_OP_TYPES if group == ALL else GROUPS[group] for group, _ in scenarios],
        "pp_rank": [ALL_STAGES if stage == ALL else stage for _, stage in scenarios],
        "busy_s": [each.exposed_s + each.hidden_s for each in found],
        "exposed_s": [each.exposed_s for each in found],
        "hidden_s": [each.hidden_s for each in found],
        "overlap_saved_s": [each.saved_s for each in found],
    }


_DAY_S: Final = 86_400.0
_LAST_US: Final = 2**53
"""A Unix time in the year 2255; later times are not exact as float64, and those much later overflow. [us]"""


def role_step_columns(
    facts: Mapping[str, object], rows: ReplayedRows, found: WhatIf
) -> Mapping[str, Sequence[object] | npt.NDArray[np.generic]]:
    """Return the columns of role_step; empty for a unit without a role, or without absolute times.

    facts : the manifest, as the table jobs or as job.json has it, with log_date where it is known
    """
    part_of, role, iterations = (facts.get(name) for name in ("part_of", "role", "iterations"))
    if not (isinstance(part_of, str) and isinstance(role, str) and isinstance(iterations, Mapping)):
        return {}
    began_s, actual_s = found.recorded.began_s, found.recorded.actual_s
    if "t0_us" not in rows.table.column_names:
        return {}
    t0_us = rows.table.column("t0_us").take(pa.array(rows.replayed_row.ravel()))
    if t0_us.null_count:
        return {}
    zero_us: Ints = t0_us.to_numpy().reshape(rows.replayed_row.shape).min(axis=(0, 2))
    # Plausible zeros are at most a day from the log date; producers without a calendar write 0.
    first_us, last_us = log_day(facts, _DAY_S) or (1, _LAST_US)
    if not ((zero_us >= first_us) & (zero_us + (began_s + actual_s) * _US < last_us)).all():
        return {}
    given = [iterations.get(step, iterations.get(str(step))) for step in rows.steps.tolist()]
    has_iteration = np.array([iteration is not None for iteration in given])
    every = {
        "step": rows.steps,
        "start_us": zero_us + np.rint(began_s * _US).astype(np.int64),
        "end_us": zero_us + np.rint((began_s + actual_s) * _US).astype(np.int64),
        "actual_step_s": actual_s,
        "simulated_step_s": found.times.recorded,
        "ideal_step_s": found.times.ideal,
    }
    known = [iteration for iteration in given if iteration is not None]
    return {
        **{name: values[has_iteration] for name, values in every.items()},
        "iteration": np.array(known, np.int64),
        "part_of": [part_of] * len(known),
        "role": [role] * len(known),
    }


def type_rows(
    found: WhatIf, rows: ReplayedRows, types: WorkerGroups | None, gpu_hours: float | None
) -> list[Row]:
    """Return a row of gpu_type_slowdown per GPU type if several are known; unknown types share one row.

    gpu_hours : of the unit. [GPU h]
    """
    times, diagnosis = found.types, found.diagnosis
    if times is None or types is None:
        return []
    names, ideal_s = [*types.names, NOT_STATED], found.times.ideal.mean()
    factors, saved = None, None
    if diagnosis is not None and diagnosis.types is not None:
        factors, saved = diagnosis.types, diagnosis.causes[MIXED_HARDWARE].time_saved_fraction
    unit = {
        "time_saved_fraction": saved,
        "saved_gpu_hours": None if saved is None or gpu_hours is None else gpu_hours * saved,
    }
    of_worker = types.number.ravel()
    made = []
    for place, number in enumerate(times.types.tolist()):
        hosts = [host for host, each in zip(rows.hosts, of_worker.tolist(), strict=True) if each == number]
        forward_s, backward_s = times.compute_s[place].tolist()
        of_type: Row = {"factor": None, "forward_factor": None, "backward_factor": None, "is_slower": False}
        if factors is not None and number >= 0 and not np.isnan(factors.measured[number]).any():
            measured = factors.measured[number]
            of_type = {
                "factor": float(np.exp(max(measured.mean(), 0.0))),
                "forward_factor": float(np.exp(measured[0])),
                "backward_factor": float(np.exp(measured[-1])),
                "is_slower": bool(factors.is_slower[number]),
            }
        row = {
            "gpu_type": names[number],
            "workers": len(hosts),
            "hosts": len(set(hosts) - {None}),
            "forward_ideal_s": or_null(forward_s),
            "backward_ideal_s": or_null(backward_s),
            "slowdown": float(times.alone_s[place]) / ideal_s,
            **of_type,
            **unit,
        }
        made.append(row)
    return sorted(made, key=lambda row: names.index(row["gpu_type"]))
