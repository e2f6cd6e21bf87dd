"""Figures as table columns store them: null instead of nan, and 90 % intervals of savings and GPU-hours."""

from collections.abc import Mapping
from math import isnan
from typing import Any

from schemas.job_causes import HOURS_OF

Row = Mapping[str, Any]


def or_null(value: float) -> float | None:
    """Return a figure as a table column stores it: null instead of nan."""
    return None if isnan(value) else float(value)


def half_width(row: Row, name: str) -> float | None:
    """Return half of the width of the interval around a row's column, or None without an interval."""
    low, high = row.get(f"{name}_low"), row.get(f"{name}_high")
    return None if low is None or high is None else max(high - row[name], row[name] - low)


def around(name: str, value: float | None, half: float | None) -> dict[str, float | None]:
    """Return the columns {name}_low and {name}_high: value -/+ half, the upper one at most 1."""
    if value is None or half is None:
        return {f"{name}_low": None, f"{name}_high": None}
    low = value - half
    return {
        f"{name}_low": max(0.0, low) if name == "lost_fraction" else low,
        f"{name}_high": max(value, min(1.0, value + half)),
    }


def in_gpu_hours(row: Row, name: str, gpu_hours: float | None) -> dict[str, float | None]:
    """Return a fraction and its bounds, times the unit's GPU-hours; None if either factor is unknown."""
    ends = {end: row.get(f"{name}{end}") for end in ("", "_low", "_high")}
    return {
        f"{HOURS_OF[name]}{end}": None if gpu_hours is None or fraction is None else gpu_hours * fraction
        for end, fraction in ends.items()
    }
