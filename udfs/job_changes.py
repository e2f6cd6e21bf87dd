"""The table job_changes: changes of a day's jobs, found in their days up to it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import date, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from schemas.job_changes import JOB_CHANGES
from schemas.unit import Unit
from schemas.vocabulary import JOB_CAUSES, JOBS, STEP_SLOWDOWN, UNIT_KEY, WORKER_SLOWDOWN
from udfs.changes import FACTS, Point, by_job, changes_of, point_of

READ: Final = {
    JOBS: (*FACTS, "labels"),
    STEP_SLOWDOWN: ("step", "actual_step_s"),
    JOB_CAUSES: ("cause", "is_cause", "attributed_fraction", "time_saved_fraction"),
    WORKER_SLOWDOWN: ("host",),
}
"""Columns, beside the unit's, by which its days are compared."""

Row = dict[str, Any]


def points_of(tables: Mapping[str, pa.Table]) -> list[Point]:
    """Points of all units that were replayed; tables : those of READ, of the same units."""
    steps = _lists(tables[STEP_SLOWDOWN].sort_by("step"), "actual_step_s", "list")
    hosts = _lists(tables[WORKER_SLOWDOWN], "host", "distinct")
    causes: dict[Unit, list[Row]] = {}
    for row in tables[JOB_CAUSES].select([*UNIT_KEY, *READ[JOB_CAUSES]]).to_pylist():
        causes.setdefault(_unit(row), []).append(row)
    jobs = tables[JOBS].select([*UNIT_KEY, *READ[JOBS]]).to_pylist(maps_as_pydicts="strict")
    return [
        point_of(unit, row, np.array(steps[unit]), causes.get(unit, []), hosts.get(unit, []))
        for row in jobs
        if (unit := _unit(row)) in steps
    ]


def job_changes(points: Sequence[Point], log_dates: Iterable[date], days: int) -> pa.Table:
    """Rows of job_changes of these days.

    points : of these days and of the days before each; days : how many of those count
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
    """Values of a column by unit, in the order of the rows where that matters."""
    grouped = pa.TableGroupBy(table, UNIT_KEY, use_threads=False).aggregate([(column, how)])
    return {_unit(row): row[f"{column}_{how}"] for row in grouped.to_pylist()}


def _unit(row: Mapping[str, Any]) -> Unit:
    return Unit(*(row[name] for name in UNIT_KEY))
