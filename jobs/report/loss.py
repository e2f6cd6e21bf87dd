"""What is lost, as a page says it: in GPU-hours where jobs state them, in per cent of time elsewhere."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from jobs.report import wording
from jobs.report.rows import FleetTables


class Measure(NamedTuple):
    """In which columns a fleet's loss is counted.

    lost, of : what is lost, and of what; both may be summed.
    unit     : its name, behind a number; empty where shares alone speak.
    """

    lost: str
    of: str
    unit: str


HOURS: Final = Measure("lost_gpu_hours", "lost_of_gpu_hours", "GPU-hours")
TIME: Final = Measure("lost_s", "analysed_s", "")


def measure_of(tables: FleetTables) -> Measure:
    """GPU-hours, unless no analysed unit of the period states them."""
    totals = tables.totals.to_pylist()
    return TIME if not totals or totals[0]["analysed_gpu_hours"] is None else HOURS


def amount(lost: float | None, of: float | None, measure: Measure) -> str:
    """Return what is lost of something, with its unit."""
    if measure is HOURS or lost is None:
        return f"{wording.hours(lost)} GPU-hours" if measure is HOURS else wording.MISSING
    return f"{wording.percent(lost / of)} of the time" if of else wording.MISSING


def of_unit(fraction: float | None, gpu_hours: float | None) -> str:
    """Return what a unit, or a part of it, loses: hours with their share, or the share alone."""
    if fraction is None:
        return wording.MISSING
    share = wording.percent(fraction)
    return f"{share} of the time" if gpu_hours is None else f"{wording.hours(gpu_hours)} GPU-hours ({share})"


def share(row: Mapping[str, Any], measure: Measure) -> float | None:
    """Part of what was analysed that is lost."""
    lost, of = row[measure.lost], row[measure.of]
    return lost / of if of and lost is not None else None
