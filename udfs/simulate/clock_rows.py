"""What the results say of the clocks of a unit: figures of the unit, and a row for each clock."""

from typing import Any

import numpy as np
import pyarrow as pa

from udfs.kernel.arrays import Floats
from udfs.kernel.clocks.estimate import Clocks
from udfs.simulate.rank_rows import ReplayedRows

PPM = 1e6
"""Drift in parts per million of seconds per second."""


def clock_figures(clocks: Clocks | None, rows: ReplayedRows) -> dict[str, object]:
    """Columns of job_slowdown; zeros with one clock."""
    mean_s = np.zeros(1) if clocks is None else clocks.ahead_s.mean(axis=1)
    return {
        "clocks": len(rows.clock_names),
        "clock_offset_s": _largest(mean_s),
        "clock_drift_ppm": 0.0 if clocks is None else float(np.abs(clocks.drift).max()) * PPM,
        "clock_residual_s": 0.0 if clocks is None else clocks.residual_s,
        "is_clock_corrected": clocks is not None and clocks.is_corrected,
    }


def clock_columns(clocks: Clocks | None, rows: ReplayedRows) -> dict[str, Any]:
    """Columns of host_clock: of a clock that nothing joins with another, zeros and no error."""
    number = np.arange(len(rows.clock_names))
    names = {"clock": rows.clock_names, "host": rows.host_of_clock, "rank": rows.rank_of_clock}
    if clocks is None:
        zero_s, unknown = np.zeros(len(number)), pa.nulls(len(number), pa.float64())
        figures = ("offset_s", "largest_offset_s", "drift_ppm", "largest_jump_s")
        none = {"part": number, "jumps": 0 * number, "error_s": unknown, "is_corrected": number < 0}
        return names | dict.fromkeys(figures, zero_s) | none
    # A part of one is its median: its offset and drift are zero as they are.
    is_joined = np.bincount(clocks.part, minlength=len(number))[clocks.part] > 1
    furthest = np.abs(clocks.ahead_s).argmax(axis=1)
    return names | {
        "part": clocks.part,
        "offset_s": clocks.ahead_s.mean(axis=1),
        "largest_offset_s": clocks.ahead_s[number, furthest],
        "drift_ppm": clocks.drift * PPM,
        "jumps": clocks.jumps,
        "largest_jump_s": clocks.jump_s,
        "error_s": pa.array(clocks.error_s, mask=~is_joined),
        "is_corrected": is_joined & clocks.is_corrected,
    }


def _largest(values: Floats) -> float:
    """The value furthest from zero, signed."""
    return float(values[np.abs(values).argmax()])
