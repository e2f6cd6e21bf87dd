"""Rows of role_step: steps of a unit that is part of a whole, in absolute time."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from udfs.kernel.arrays import Floats, Ints
from udfs.kernel.what_if import WhatIf
from udfs.simulate.rank_rows import ReplayedRows

_DAY_US: Final = 86_400_000_000
_US_IN_S: Final = 1e6
_LAST_US: Final = 2**53
"""In the year 2255; later times are not exact as float64, and those much later overflow. [us]"""


def role_step_columns(
    facts: Mapping[str, object], rows: ReplayedRows, found: WhatIf
) -> Mapping[str, npt.NDArray[np.generic] | pa.Array] | None:
    """Columns of role_step; None if the unit is part of no whole, or its times are not absolute.

    facts : the manifest, as the table jobs or as job.json has it, with log_date where it is known
    """
    part_of, role, iterations = (facts.get(name) for name in ("part_of", "role", "iterations"))
    if not (isinstance(part_of, str) and isinstance(role, str) and isinstance(iterations, Mapping)):
        return None
    began_s, actual_s = found.recorded.began_s, found.recorded.actual_s
    zero_us = _zeros_us(rows, facts.get("log_date"), began_s + actual_s)
    if zero_us is None:
        return None
    given = [iterations.get(step, iterations.get(str(step))) for step in rows.steps.tolist()]
    has_iteration = np.array([iteration is not None for iteration in given])
    every = {
        "step": rows.steps,
        "start_us": zero_us + np.rint(began_s * _US_IN_S).astype(np.int64),
        "end_us": zero_us + np.rint((began_s + actual_s) * _US_IN_S).astype(np.int64),
        "actual_step_s": actual_s,
        "simulated_step_s": found.times.recorded,
        "ideal_step_s": found.times.ideal,
    }
    known = int(has_iteration.sum())
    return {
        **{name: values[has_iteration] for name, values in every.items()},
        "iteration": np.array([each for each in given if each is not None], np.int64),
        **{
            name: pa.array([text] * known, pa.string())
            for name, text in (("part_of", part_of), ("role", role))
        },
    }


def _zeros_us(rows: ReplayedRows, log_date: object, ended_s: Floats) -> Ints | None:
    """Unix time of each step's zero, shape (step,); None if one is missing or far from the log date. [us]

    A zero of 0 is none: producers without a calendar write it. [us]
    ended_s : shape (step,); from its zero to each step's end, which is no further from the log date.
    """
    if "t0_us" not in rows.table.column_names:
        return None
    t0_us = rows.table.column("t0_us").take(pa.array(rows.replayed_row.ravel()))
    if t0_us.null_count:
        return None
    zero_us: Ints = t0_us.to_numpy().reshape(rows.replayed_row.shape).min(axis=(0, 2))
    first_us, last_us = 1, _LAST_US
    if isinstance(log_date, date):
        midnight = datetime(log_date.year, log_date.month, log_date.day, tzinfo=UTC)
        day_us = int(midnight.timestamp()) * 1_000_000
        first_us, last_us = day_us - _DAY_US, day_us + 2 * _DAY_US
    is_absolute = (zero_us >= first_us) & (zero_us + ended_s * _US_IN_S < last_us)
    return zero_us if is_absolute.all() else None
