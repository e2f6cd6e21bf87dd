"""Rows of gpu_type_slowdown: the slowdown that each type of GPU causes in a unit."""

from typing import Any

import numpy as np

from schemas.vocabulary import NOT_STATED
from udfs.intervals import or_null
from udfs.kernel.cause import MIXED_HARDWARE, TypeFactors
from udfs.kernel.what_if import WhatIf
from udfs.simulate.rank_rows import ReplayedRows
from udfs.simulate.worker_groups import WorkerGroups

Row = dict[str, Any]


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
        row = {
            "gpu_type": names[number],
            "workers": len(hosts),
            "hosts": len(set(hosts) - {None}),
            "forward_ideal_s": or_null(forward_s),
            "backward_ideal_s": or_null(backward_s),
            "slowdown": float(times.alone_s[place]) / ideal_s,
            **_factors(factors, number),
            **unit,
        }
        made.append(row)
    return sorted(made, key=lambda row: names.index(row["gpu_type"]))


def _factors(factors: TypeFactors | None, number: int) -> Row:
    if factors is None or number < 0 or np.isnan(factors.measured[number]).any():
        return {"factor": None, "forward_factor": None, "backward_factor": None, "is_slower": False}
    measured = factors.measured[number]
    return {
        "factor": float(np.exp(max(measured.mean(), 0.0))),
        "forward_factor": float(np.exp(measured[0])),
        "backward_factor": float(np.exp(measured[-1])),
        "is_slower": bool(factors.is_slower[number]),
    }
