"""Change points of a job's step time and losses over its days and runs, for the table job_changes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date, timedelta
from itertools import groupby
from math import expm1, inf, log, sqrt
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from schemas.job_changes import JOB_CHANGES, NO_CAUSE, OF_LOST, OF_STEP
from schemas.unit import Unit
from schemas.vocabulary import CAUSES, JOB_CAUSES, JOBS, STEP_SLOWDOWN, UNIT_KEY, WORKER_SLOWDOWN
from udfs.kernel.arrays import Floats
from udfs.lost import lost_fractions

LEAST_DAYS: Final = 3
"""Fewest units, each one day of a run, in which changes are sought: two do not show the usual scatter."""
MOST_BLOCKS: Final = 10
"""Most blocks whose means give a day's standard error; single steps would not be independent."""
SMALLEST: Final = {OF_STEP: 0.02, OF_LOST: 0.03}
"""Smallest change that is reported: relative for step times, in parts of the step for losses and causes."""
SPREAD: Final = {OF_STEP: 0.005, OF_LOST: 0.01}
"""Least standard deviation between days that is assumed; units as in SMALLEST."""
FEW_DAYS: Final = 5
"""With fewer days than this, the least standard deviation is doubled, because few days measure it badly."""
PENALTY: Final = 12.0
"""A change must reduce the sum of squared standardised errors by this number plus 2 log(days)."""
MAD_TO_SIGMA: Final = 1.4826
MOST_HOSTS: Final = 3
"""Most hosts that a change lists by name as gone, or as new."""
FACTS: Final = (
    *("model", "framework", "gpu_type", "world_size", "dp_size", "pp_size", "tp_size", "cp_size", "vpp_size"),
    "restarts",
)
"""Columns of jobs that are listed with a change if they differ from the day before."""


class Point(NamedTuple):
    """Summary of a unit, that is, of one run of a job on one day.

    step_s  : mean recorded step time. [s]
    error   : standard error of step_s, from the scatter within the day, as a share of step_s.
    lost    : lost_fraction by cause; None where the unit was not replayed.
    facts   : values of FACTS and labels of the run, by name.
    hosts   : of its workers.
    """

    unit: Unit
    step_s: float
    error: float
    lost: Mapping[str, float] | None
    facts: Mapping[str, Any]
    hosts: frozenset[str]


@dataclass(frozen=True)
class Change:
    """A lasting change of a job's step time or of a loss, and the days on which the new value holds.

    since, run_id : first day of the new level, and the run on this day.
    until         : last day of the new level.
    days_before, days : number of units with the old level, and with the new level.
    of            : what changed: OF_STEP, OF_LOST or a cause.
    before, after : old and new level; step times in seconds, losses as parts of the step.
    change        : for a step time (after - before) / before, for a loss after - before.
    cause         : for a step time, the cause of at least half of the change, or NO_CAUSE; for a loss None.
    also          : descriptions of settings, runs and hosts that changed on the same day.
    """

    job_id: str
    since: date
    run_id: str
    until: date
    days_before: int
    days: int
    of: str
    before: float
    after: float
    change: float
    cause: str | None
    also: Sequence[str]


def change_points(values: Floats, errors: Floats, spread: float, smallest: float) -> list[int]:
    """Find the positions in a series from which on the values have another mean.

    Dynamic programming finds the levels that minimise the squared errors plus a penalty for each change. Then
    the smallest change is removed, again and again, until all changes are at least `smallest`.

    values   : in order.
    errors   : standard error of each value.
    spread   : least standard deviation between neighbouring values that their errors do not explain.
    smallest : smallest difference between successive levels that counts.
    """
    number = len(values)
    if number < LEAST_DAYS:
        return []
    weight = 1.0 / (errors**2 + _spread(values, errors, spread) ** 2)
    sums = [np.concatenate([[0.0], np.cumsum(weight * values**power)]) for power in (0, 1, 2)]
    best, start = np.zeros(number + 1), [0] * (number + 1)
    for end in range(1, number + 1):
        of_weight, of_values, of_squares = (each[end] - each[:end] for each in sums)
        left = best[:end] + of_squares - of_values**2 / of_weight
        left[1:] += _price(number)
        start[end] = int(left.argmin())
        best[end] = left[start[end]]
    found: list[int] = []
    while number := start[number]:
        found.insert(0, number)
    while found:
        parts = zip(np.split(values, found), np.split(weight, found), strict=True)
        levels = np.array([np.average(each, weights=of_each) for each, of_each in parts])
        sizes = np.abs(np.diff(levels))
        if sizes.min() >= smallest:
            break
        del found[int(sizes.argmin())]
    return found


def _price(days: int) -> float:
    """Return the least reduction of a series' squared errors for which a change is accepted."""
    return PENALTY + 2 * log(days)


def least_change(days: int, of: str) -> float:
    """Return the smallest change that can be found in a series of this many days with little scatter.

    returns : relative if `of` is OF_STEP, otherwise in parts of the step; infinite below LEAST_DAYS
    """
    if days < LEAST_DAYS:
        return inf
    spread = SPREAD[of] * (2 if days < FEW_DAYS else 1)
    before = days // 2
    return max(SMALLEST[of], spread * sqrt(_price(days) * days / (before * (days - before))))


def step_differences(points: Sequence[Point]) -> tuple[float, float]:
    """Return the median difference of neighbouring units' step times, and the detection limit for changes.

    points  : at least LEAST_DAYS units of one job, by day.
    returns : both as shares of the step time
    """
    steps = np.log([point.step_s for point in points])
    errors = np.array([point.error for point in points])
    days, spread = len(points), _spread(steps, errors, SPREAD[OF_STEP])
    before = days // 2
    least = sqrt(_price(days) * (spread**2 + float(np.mean(errors**2))) * days / (before * (days - before)))
    between = float(np.median(np.abs(np.diff(steps))))
    return expm1(between), max(SMALLEST[OF_STEP], expm1(least))


def _spread(values: Floats, errors: Floats, least: float) -> float:
    """Return the scatter (1 sigma) between neighbouring days that their errors do not explain."""
    least = least * 2 if len(values) < FEW_DAYS else least
    steps = np.sort(np.abs(np.diff(values)))
    squared = (MAD_TO_SIGMA * float(steps[(len(steps) - 1) // 2])) ** 2 / 2 - float(np.mean(errors**2))
    return max(least, squared**0.5 if squared > 0.0 else 0.0)


def point_of(
    unit: Unit,
    manifest: Mapping[str, Any],
    times_s: Floats,
    causes: Sequence[Mapping[str, Any]],
    hosts: Iterable[str | None],
) -> Point:
    """Summarise a unit as one point of a job's history.

    manifest : its row of jobs, or its job.json
    times_s  : its recorded step times, in order. [s]
    causes   : its rows of job_causes
    hosts    : of its workers; None where the log names none
    """
    number = max(1, min(MOST_BLOCKS, len(times_s) // 2))
    blocks_s = [float(each.mean()) for each in np.array_split(times_s, number)]
    mean_s = float(times_s.mean())
    error_s = float(np.std(blocks_s, ddof=1)) / len(blocks_s) ** 0.5 if len(blocks_s) > 1 else 0.0
    lost = dict(zip([row["cause"] for row in causes], lost_fractions(causes), strict=True))
    labels = {f"label {name}": value for name, value in sorted((manifest.get("labels") or {}).items())}
    facts = {name: manifest[name] for name in FACTS if manifest.get(name) is not None} | labels
    on = frozenset(host for host in hosts if host is not None)
    return Point(unit, mean_s, error_s / mean_s, lost if causes else None, facts, on)


def by_job(points: Iterable[Point]) -> Iterator[list[Point]]:
    """Yield the points of each job, ordered by day."""
    ordered = sorted(points, key=lambda point: (point.unit.job_id, point.unit))
    for _, of_job in groupby(ordered, key=lambda point: point.unit.job_id):
        yield list(of_job)


def changes_of(points: Sequence[Point]) -> list[Change]:
    """Return all changes of a job's step time, loss and causes, the latest first.

    points : its units by day.
    """
    steps = np.log([point.step_s for point in points])
    errors = np.array([point.error for point in points])
    found = list(_changes(points, OF_STEP, steps, errors))
    replayed = [point for point in points if point.lost is not None]
    # Losses get the errors of the step time: a disturbance during the day makes both equally uncertain.
    for name in (OF_LOST, *CAUSES):
        lost = np.array([_part(point, name) for point in replayed])
        if lost.any():
            found += _changes(replayed, name, lost, np.array([point.error for point in replayed]))
    return sorted(found, key=lambda change: change.since, reverse=True)


def _part(point: Point, name: str) -> float:
    lost = point.lost or {}
    return sum(lost.values()) if name == OF_LOST else lost.get(name, 0.0)


def _changes(points: Sequence[Point], of: str, values: Floats, errors: Floats) -> Iterator[Change]:
    kind = OF_STEP if of == OF_STEP else OF_LOST
    found = change_points(values, errors, SPREAD[kind], SMALLEST[kind])
    edges = [0, *found, len(points)]
    for first, middle, end in zip(edges, edges[1:], edges[2:], strict=False):
        before, after = points[first:middle], points[middle:end]
        if of == OF_STEP:
            levels = [float(np.mean([point.step_s for point in side])) for side in (before, after)]
            size, cause = levels[1] / levels[0] - 1, _cause(before, after, levels[1] - levels[0])
        else:
            levels = [float(values[first:middle].mean()), float(values[middle:end].mean())]
            size, cause = levels[1] - levels[0], None
        new = after[0].unit
        yield Change(
            job_id=new.job_id,
            since=new.log_date,
            run_id=new.run_id,
            until=after[-1].unit.log_date,
            days_before=len(before),
            days=len(after),
            of=of,
            before=levels[0],
            after=levels[1],
            change=size,
            cause=cause,
            also=list(also_changed(before[-1], after[0])),
        )


def _cause(before: Sequence[Point], after: Sequence[Point], difference_s: float) -> str:
    """Return the cause that explains at least half of a change in step time, or NO_CAUSE."""

    def lost_s(points: Sequence[Point], cause: str) -> float:
        return float(np.mean([_part(point, cause) * point.step_s for point in points]))

    if any(point.lost is None for point in (*before, *after)):
        return NO_CAUSE
    shares = {cause: (lost_s(after, cause) - lost_s(before, cause)) / difference_s for cause in CAUSES}
    largest = max(shares, key=shares.__getitem__)
    return largest if shares[largest] >= 0.5 else NO_CAUSE


def also_changed(before: Point, after: Point) -> Iterator[str]:
    """Yield a description of each setting, label, run or host that differs between two days of the job."""
    if before.unit.run_id != after.unit.run_id:
        yield f"run {before.unit.run_id} -> {after.unit.run_id}"
    for name in (*before.facts, *(name for name in after.facts if name not in before.facts)):
        old, new = before.facts.get(name), after.facts.get(name)
        if old != new:
            yield f"{name} {old} -> {new}"
    for word, hosts in (("gone", before.hosts - after.hosts), ("new", after.hosts - before.hosts)):
        if hosts:
            named = ", ".join(sorted(hosts)[:MOST_HOSTS])
            more = f" and {len(hosts) - MOST_HOSTS} more" if len(hosts) > MOST_HOSTS else ""
            yield f"hosts {word}: {named}{more}"


READ: Final = {
    JOBS: (*FACTS, "labels"),
    STEP_SLOWDOWN: ("step", "actual_step_s"),
    JOB_CAUSES: ("cause", "is_cause", "attributed_fraction", "time_saved_fraction"),
    WORKER_SLOWDOWN: ("host",),
}
"""Columns that points_of reads from each table, in addition to the unit's key."""

Row = dict[str, Any]


def points_of(tables: Mapping[str, pa.Table]) -> list[Point]:
    """Return one point for each replayed unit, from the tables that READ names."""
    steps = _lists(tables[STEP_SLOWDOWN].sort_by("step"), "actual_step_s", "list")
    hosts = _lists(tables[WORKER_SLOWDOWN], "host", "distinct")
    causes: dict[Unit, list[Row]] = {}
    for row in tables[JOB_CAUSES].select([*UNIT_KEY, *READ[JOB_CAUSES]]).to_pylist():
        causes.setdefault(Unit.of(row), []).append(row)
    jobs = tables[JOBS].select([*UNIT_KEY, *READ[JOBS]]).to_pylist(maps_as_pydicts="strict")
    return [
        point_of(unit, row, np.array(steps[unit]), causes.get(unit, []), hosts.get(unit, []))
        for row in jobs
        if (unit := Unit.of(row)) in steps
    ]


def job_changes(points: Sequence[Point], log_dates: Iterable[date], days: int) -> pa.Table:
    """Return the rows of job_changes for the given days.

    points : of these days and of the days before them
    days   : changes of a day are sought in the points of this day and of this many days before it
    """
    rows = [
        {"log_date": day, **asdict(change)}
        for of_job in by_job(points)
        for day in log_dates
        if any(point.unit.log_date == day for point in of_job)
        for change in changes_of(
            [point for point in of_job if timedelta(0) <= day - point.unit.log_date <= timedelta(days)]
        )
    ]
    return pa.Table.from_pylist(rows, JOB_CHANGES.arrow_schema)


def _lists(table: pa.Table, column: str, how: str) -> dict[Unit, list[Any]]:
    """Return a column's values by unit; how : "list" in the order of rows, "distinct" without repeats."""
    grouped = pa.TableGroupBy(table, UNIT_KEY, use_threads=False).aggregate([(column, how)])
    return {Unit.of(row): row[f"{column}_{how}"] for row in grouped.to_pylist()}
