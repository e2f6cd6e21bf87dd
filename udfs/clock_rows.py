"""What is told of the clocks of a unit: figures of the unit, and a row for each clock."""

from typing import Any

import numpy as np

from udfs.kernel.clocks.estimate import Clocks
from udfs.kernel.program import Floats
from udfs.rank_rows import ReplayedRows

PPM = 1e6
"""Drift in parts per million of seconds per second."""


def clock_figures(clocks: Clocks | None, rows: ReplayedRows) -> dict[str, object]:
    """Columns of job_slowdown; zeros where there is one clock."""
    mean_s = np.zeros(1) if clocks is None else clocks.ahead_s.mean(axis=1)
    return {
        "clocks": len(rows.clock_names),
        "clock_offset_s": _largest(mean_s),
        "clock_drift_ppm": 0.0 if clocks is None else float(np.abs(clocks.drift).max()) * PPM,
        "clock_residual_s": 0.0 if clocks is None else clocks.residual_s,
        "is_clock_corrected": clocks is not None and clocks.is_corrected,
    }


def clock_rows(clocks: Clocks | None, rows: ReplayedRows) -> list[dict[str, Any]]:
    """Rows of host_clock."""
    names = rows.clock_names
    hosts = rows.host_of_clock
    ranks = rows.rank_of_clock.tolist()
    found = []
    for number, name in enumerate(names):
        row: dict[str, Any] = {"clock": name, "host": hosts[number], "rank": ranks[number], "part": number}
        if clocks is None or int((clocks.part == clocks.part[number]).sum()) == 1:
            row |= dict.fromkeys(("offset_s", "largest_offset_s", "drift_ppm", "largest_jump_s"), 0.0)
            row |= {"jumps": 0, "error_s": None, "is_corrected": False}
        else:
            ahead_s = clocks.ahead_s[number]
            row |= {
                "part": int(clocks.part[number]),
                "offset_s": float(ahead_s.mean()),
                "largest_offset_s": _largest(ahead_s),
                "drift_ppm": float(clocks.drift[number]) * PPM,
                "jumps": int(clocks.jumps[number]),
                "largest_jump_s": float(clocks.jump_s[number]),
                "error_s": float(clocks.error_s[number]),
                "is_corrected": clocks.is_corrected,
            }
        found.append(row)
    return found


def _largest(values: Floats) -> float:
    """The value furthest from zero, signed."""
    return float(values[np.abs(values).argmax()])
