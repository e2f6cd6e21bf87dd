"""Changes: since which day does a job take longer or lose more, to which cause, and what else changed?

`straggler changes --job-id gpt-175b` finds the days, over all runs of a job, from which on its step time,
what it loses or a cause is on another level. Without a job, of all. Nothing is written.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple, fields
from itertools import groupby
from typing import Any, Final

import numpy as np

from jobs.entry_points.command import reader_entry_point
from jobs.reading.changes import FEW_DAYS, Change, Point, changes_of
from jobs.reading.side import Day, Side
from jobs.runtime.arguments import AS_LISTS, FORMAT, PERIOD, Arguments, option
from jobs.runtime.nearest import suggestion
from jobs.runtime.printing import Result, write
from jobs.runtime.settings import Settings
from jobs.runtime.terminal import complain
from jobs.warehouse.reader import QuestionError, Reader
from schemas.table import sql_strings
from schemas.unit import Unit
from schemas.vocabulary import JOB_CAUSES, JOBS, STEP_SLOWDOWN, UNIT_KEY, WORKER_SLOWDOWN
from udfs.lost import lost_fractions

_KEY: Final = ", ".join(UNIT_KEY)
_FACTS: Final = (
    *("model", "framework", "gpu_type", "world_size", "dp_size", "pp_size", "tp_size", "cp_size", "vpp_size"),
    "restarts",
)
"""Columns of jobs that say what else changed."""

Rows = dict[Unit, list[dict[str, Any]]]


def run(reader: Reader, args: Arguments) -> list[Change]:
    """Find the changes of one job, or of all. Raises QuestionError for an unknown job."""
    units = _by_unit(reader, args, JOBS, [*_FACTS, "labels"])
    if args.job_id is not None and not units:
        names = reader.rows(f"SELECT DISTINCT job_id FROM {JOBS} ORDER BY job_id")["job_id"].to_pylist()
        if args.job_id not in names:
            raise QuestionError(f"no job {args.job_id}: {suggestion(args.job_id, names)}")
    steps = _by_unit(reader, args, STEP_SLOWDOWN, ["step", "actual_step_s"])
    of_cause = ["cause", "is_cause", "attributed_fraction", "time_saved_fraction"]
    causes = _by_unit(reader, args, JOB_CAUSES, of_cause)
    hosts = _by_unit(reader, args, WORKER_SLOWDOWN, ["host"])
    points = [
        point_of(unit, manifest, steps[unit], causes.get(unit, []), hosts.get(unit, []))
        for unit, (manifest,) in units.items()
        if unit in steps
    ]
    points.sort(key=lambda point: (point.unit.job_id, point.unit))
    found: list[Change] = []
    for _, of_job in groupby(points, key=lambda point: point.unit.job_id):
        found += changes_of(list(of_job))
    return sorted(found, key=lambda change: change.since, reverse=True)


def _by_unit(reader: Reader, args: Arguments, table: str, columns: list[str]) -> Rows:
    """Rows of a table selected by the arguments, grouped by unit."""
    wanted = ["true"] if args.job_id is None else [f"job_id = {sql_strings([args.job_id])}"]
    wanted += [f"log_date >= DATE'{args.first}'"] if args.first is not None else []
    wanted += [f"log_date <= DATE'{args.last}'"] if args.last is not None else []
    sql = f"SELECT {_KEY}, {', '.join(columns)} FROM {table} WHERE {' AND '.join(wanted)}"
    found: Rows = {}
    for row in reader.rows(sql).to_pylist(maps_as_pydicts="strict"):
        found.setdefault(Unit(*(row[name] for name in UNIT_KEY)), []).append(row)
    return found


def point_of(
    unit: Unit,
    manifest: Mapping[str, Any],
    steps: Sequence[Mapping[str, Any]],
    causes: Sequence[Mapping[str, Any]],
    hosts: Sequence[Mapping[str, Any]],
) -> Point:
    """Summarise a unit as one point of a job's history.

    manifest : its row of jobs, or its job.json
    steps, causes, hosts : its rows of step_slowdown, job_causes and worker_slowdown
    """
    times_s = np.array([row["actual_step_s"] for row in sorted(steps, key=lambda row: row["step"])])
    blocks_s = Side("", [Day(unit, {}, times_s)]).blocks_s()
    mean_s = float(times_s.mean())
    error_s = float(np.std(blocks_s, ddof=1)) / len(blocks_s) ** 0.5 if len(blocks_s) > 1 else 0.0
    lost = dict(zip([row["cause"] for row in causes], lost_fractions(causes), strict=True))
    labels = {f"label {name}": value for name, value in sorted((manifest.get("labels") or {}).items())}
    facts = {name: manifest[name] for name in _FACTS if manifest.get(name) is not None} | labels
    on = frozenset(row["host"] for row in hosts if row["host"] is not None)
    return Point(unit, mean_s, error_s / mean_s, lost if causes else None, facts, on)


@reader_entry_point(
    "job_changes",
    option("--job-id JOB", "only this job"),
    *PERIOD,
    FORMAT,
    AS_LISTS,
)
def main(reader: Reader, _settings: Settings, args: Arguments) -> None:
    """Print since which day jobs take longer or lose more, and what else changed then."""
    rows = [astuple(each) for each in run(reader, args)]
    result = Result([field.name for field in fields(Change)], rows)
    write(result, args.format, sys.stdout, as_lists=args.as_lists)
    if not rows:
        complain(
            f"no change found: two days show none, fewer than {FEW_DAYS} only large ones; "
            "diff compares single days"
        )


if __name__ == "__main__":
    sys.exit(main())
