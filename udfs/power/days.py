"""Power tables of some days: megawatts of each unit, their sum over the fleet, and units in phase.

udfs/README.md, "Power", has the conditions. Arrays have an axis of units, and no loop visits single pairs.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import JOB_MEGAWATTS, POWER_DAY, POWER_IN_PHASE
from udfs.kernel.arrays import Floats, Ints

MOST_PAIRS: Final = 1000
"""Most pairs stored for a day; the pairs with the largest swings are kept."""

READ: Final = {
    "job_power": (
        *("mean_share", "low_share", "high_share", "swing_share", "dominant_harmonic", "dominant_amplitude"),
        *("first_us", "last_us", "step_every_s", "peak_us"),
    ),
    "jobs": ("gpu_type", "gpu_types", "world_size", "gpu_hours", "started_at", "ended_at"),
}
"""Columns of a unit from which its power is computed."""

_DAY_H: Final = 24.0
_DAY: Final = timedelta(days=1)
_HOUR: Final = timedelta(hours=1)
_W_IN_MW: Final = 1e6
_US: Final = 1e-6
"""Seconds in a microsecond."""

Row = dict[str, Any]


class Watts(NamedTuple):
    """Power of one GPU of a type while it computes, and otherwise. [W]"""

    computing: float
    otherwise: float


def power_tables(units: pa.Table, watts: Mapping[str, Watts]) -> dict[str, pa.Table]:
    """Compute the rows of job_megawatts, power_day and power_in_phase.

    units : for each unit with a row in job_power, its key and the columns READ.
    watts : by gpu_type; units of other, unknown or mixed types have no megawatts.
    """
    rows = []
    for unit in units.to_pylist(maps_as_pydicts="strict"):
        types = {unit["gpu_type"], *(unit["gpu_types"] or {}).values()} - {None}
        row = unit | {"gpu_type": types.pop() if len(types) == 1 else None}
        row["hours"], of_type = _hours(row), watts.get(row["gpu_type"])
        if of_type is not None:
            row |= {"computing_w": of_type.computing, "otherwise_w": of_type.otherwise}
            for name in ("mean", "low", "high"):
                share = row[f"{name}_share"]
                watts_a_gpu = of_type.otherwise + share * (of_type.computing - of_type.otherwise)
                row[f"{name}_mw"] = float(row["world_size"] * watts_a_gpu / _W_IN_MW)
            row["swing_mw"] = row["high_mw"] - row["low_mw"]
            if row["hours"] is not None:
                row["energy_mwh"] = row["mean_mw"] * row["hours"]
        rows.append(row)
    rows.sort(key=Unit.of)
    days, pairs = [], []
    for day, of_day in groupby(rows, key=itemgetter("log_date")):
        some = list(of_day)
        count, found = _pairs(some)
        days.append({"log_date": day, "in_phase_pairs": count, **_sums(some)})
        pairs += found
    made = {JOB_MEGAWATTS: rows, POWER_DAY: days, POWER_IN_PHASE: pairs}
    return {name: pa.Table.from_pylist(each, TABLES[name].arrow_schema) for name, each in made.items()}


def _hours(row: Row) -> float | None:
    """Return the hours that a unit ran on its log date (UTC), by GPU-hours or else by its start and end."""
    if row["gpu_hours"] is not None:
        return min(float(row["gpu_hours"] / row["world_size"]), _DAY_H)
    if row["started_at"] is None or row["ended_at"] is None:
        return None
    begins = datetime.combine(row["log_date"], time(tzinfo=UTC))
    ran = min(row["ended_at"] - begins, _DAY) - max(row["started_at"] - begins, timedelta())
    return max(float(ran / _HOUR), 0.0)


def _sums(rows: list[Row]) -> Row:
    """Return columns of power_day, which are expected values at a random moment of the day."""
    timed = [row for row in rows if row["hours"] is not None]
    part = _column(timed, "hours") / _DAY_H
    gpus = _column(timed, "world_size")
    swing_gpus = gpus * _column(timed, "swing_share")
    found: Row = {
        "jobs": len(rows),
        "timed_jobs": len(timed),
        "gpus": float((part * gpus).sum()),
        "computing_gpus": float((part * gpus * _column(timed, "mean_share")).sum()),
        "swing_gpus": float((part * swing_gpus).sum()),
        "independent_swing_gpus": _root_of_squares(part, swing_gpus),
    }
    powered = [row for row in timed if "mean_mw" in row]
    found["powered_jobs"] = len(powered)
    if powered:
        part = _column(powered, "hours") / _DAY_H
        for name in ("mean_mw", "low_mw", "high_mw", "swing_mw"):
            found[name] = float((part * _column(powered, name)).sum())
        found["independent_swing_mw"] = _root_of_squares(part, _column(powered, "swing_mw"))
        found["energy_mwh"] = float(_column(powered, "energy_mwh").sum())
    return found


def _root_of_squares(part: Floats, swing: Floats) -> float:
    return float(np.sqrt((part * swing * swing).sum()))


def _column(rows: list[Row], name: str) -> Floats:
    return np.array([row[name] for row in rows], dtype=np.float64)


def _pairs(rows: list[Row]) -> tuple[int, list[Row]]:
    """Count the pairs of units in phase on a day, and return power_in_phase rows of the largest swings."""
    rows = [row for row in rows if row["peak_us"] is not None]
    if not rows:
        return 0, []
    zero_us = min(row["first_us"] for row in rows)
    at_s = {
        name: np.array([(row[name] - zero_us) * _US for row in rows])
        for name in ("peak_us", "first_us", "last_us")
    }
    period_s = _column(rows, "step_every_s") / _column(rows, "dominant_harmonic")
    swing_gpus = 2 * _column(rows, "world_size") * _column(rows, "dominant_amplitude")
    swings = Swings(period_s, at_s["peak_us"], at_s["first_us"], at_s["last_us"])
    count, found = in_phase(swings, swing_gpus, MOST_PAIRS)
    per_gpu = [row["computing_w"] - row["otherwise_w"] if "mean_mw" in row else np.nan for row in rows]
    swing_mw = swing_gpus * np.array(per_gpu) / _W_IN_MW
    columns: dict[str, list[Any]] = {
        "period_s": period_s[found.one].tolist(),
        "other_period_s": period_s[found.other].tolist(),
        "common_s": found.common_s.tolist(),
        "drift": found.drift.tolist(),
        "phase_difference": found.phase_difference.tolist(),
        "swing_gpus": (swing_gpus[found.one] + swing_gpus[found.other]).tolist(),
        "swing_mw": [
            None if np.isnan(value) else value
            for value in (swing_mw[found.one] + swing_mw[found.other]).tolist()
        ],
    }
    for prefix, units in (("", found.one), ("other_", found.other)):
        for name in ("job_id", "run_id"):
            columns[prefix + name] = [rows[unit][name] for unit in units.tolist()]
    day = rows[0]["log_date"]
    return count, [
        {"log_date": day, **dict(zip(columns, values, strict=True))}
        for values in zip(*columns.values(), strict=True)
    ]


MOST_APART: Final = 1 / 8
"""Largest phase difference of units in phase, in periods; equal swings then add up to 92 % of their sum."""
MOST_DRIFT: Final = 1 / 4
"""Largest change of the phase difference over the common time, in periods; half of it lies on either side of
the middle, at which the phase difference is measured."""
LEAST_PERIODS: Final = 10
"""Shortest common time, in periods; in a shorter time almost any two periods look equal."""
PAIRS_TOGETHER: Final = 1_000_000
"""Most pairs that are compared at a time."""


class Swings(NamedTuple):
    """Swings of the units whose phase is known; float64, shape (unit,); times of all units share one zero.

    period_s        : of the dominant component.
    peak_s          : time of one of its peaks.
    first_s, last_s : first and last recorded time.
    """

    period_s: Floats
    peak_s: Floats
    first_s: Floats
    last_s: Floats


class Pairs(NamedTuple):
    """Pairs of units whose power swings in phase; arrays of shape (pair,).

    one, other       : positions of the units.
    common_s         : time in which both were recorded.
    drift            : change of the phase difference over common_s, in periods.
    phase_difference : how much later `other` peaks than `one` in the middle of common_s, in periods, between
                       -1/2 and 1/2.
    """

    one: Ints
    other: Ints
    common_s: Floats
    drift: Floats
    phase_difference: Floats


def in_phase(swings: Swings, weight: Floats, most: int) -> tuple[int, Pairs]:
    """Count the pairs of units that swing in phase, and return the pairs of the largest weight.

    weight : float64, shape (unit,); the weight of a pair is the sum of its units' weights.
    most   : most pairs that are returned, by descending weight, then by units. Only these pairs, and those
             that are compared at a time, are in memory.
    """
    count = 0
    kept: list[Pairs] = []
    rate = 1 / swings.period_s
    order = np.argsort(rate, kind="stable")
    rising = rate[order]
    # Only these partners drift at most MOST_DRIFT in LEAST_PERIODS.
    last = np.searchsorted(rising, rising * (1 + MOST_DRIFT / LEAST_PERIODS), side="right")
    partners = last - np.arange(len(rate)) - 1
    part = np.cumsum(partners) // PAIRS_TOGETHER
    for units in np.split(np.arange(len(rate)), np.flatnonzero(np.diff(part)) + 1):
        number = partners[units]
        one = np.repeat(units, number)
        other = one + 1 + np.arange(len(one)) - np.repeat(np.cumsum(number) - number, number)
        pair = order[one], order[other]
        found = _of(swings, np.minimum(*pair), np.maximum(*pair))
        count += len(found.one)
        joined = Pairs._make(np.concatenate(parts) for parts in zip(*kept, found, strict=True))
        heaviest = np.lexsort((joined.other, joined.one, -(weight[joined.one] + weight[joined.other])))
        kept = [Pairs._make(values[heaviest[:most]] for values in joined)]
    return count, kept[0]


def _of(swings: Swings, one: Ints, other: Ints) -> Pairs:
    """Select those candidate pairs of units that swing in phase."""
    first_s = np.maximum(swings.first_s[one], swings.first_s[other])
    common_s = np.minimum(swings.last_s[one], swings.last_s[other]) - first_s
    period_s = swings.period_s
    drift = np.abs(1 / period_s[one] - 1 / period_s[other]) * common_s
    middle_s = first_s + common_s / 2
    ahead = [(middle_s - swings.peak_s[unit]) / period_s[unit] for unit in (one, other)]
    difference = ahead[0] - ahead[1]
    difference -= np.rint(difference)
    are = (
        (common_s >= LEAST_PERIODS * np.maximum(period_s[one], period_s[other]))
        & (drift <= MOST_DRIFT)
        & (np.abs(difference) <= MOST_APART)
    )
    return Pairs._make(values[are] for values in (one, other, common_s, drift, difference))
