"""Row of job_power: how the share of computing workers swings over a step, and when it peaks."""

from typing import Any, Final

import numpy as np

from udfs.kernel.recorded.first_pass import Recorded
from udfs.kernel.swing import IN_BEAT, beat, swing
from udfs.simulate.rank_rows import ENDLESS_US, ReplayedRows

_US: Final = 1e6
"""Microseconds in a second."""


def power_row(recorded: Recorded, rows: ReplayedRows) -> dict[str, Any]:
    """Row of job_power; null where the share does not swing, or the log has no time of day."""
    computing, actual_s = recorded.computing, float(recorded.actual_s.mean())
    low, high = float(computing.mean.min()), float(computing.mean.max())
    found = swing(computing.mean)
    columns: dict[str, Any] = {
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


def _on_the_clock(recorded: Recorded, rows: ReplayedRows, dominant: int, peak_s: float) -> dict[str, Any]:
    """Absolute times at which steps began and peaked; empty if the log has no time of day.

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

    columns: dict[str, Any] = {"first_us": at(began_us[0]), "last_us": at(ended_us)}
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
