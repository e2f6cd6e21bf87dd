"""Reader of the two sides of a comparison: folders of logs, or units of the warehouse."""

from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from jobs.landing.one_run import one_run_in
from jobs.reading.analysis import SHIPPED, Analysis, analysis
from jobs.reading.side import Day, Row, Side
from jobs.reading.unit import Asked, NoSuchUnitError, asked, job_ids, read_unit, units_of
from jobs.runtime.nearest import suggestion
from jobs.runtime.settings import load_settings
from jobs.warehouse.reader import AnswerError, QuestionError, Reader, on_units, rows_by_unit
from schemas.unit import Unit
from schemas.vocabulary import (
    EXPOSED_COMMUNICATION,
    JOB_CAUSES,
    JOB_SLOWDOWN,
    JOBS,
    STEP_SLOWDOWN,
    UNIT_KEY,
    Status,
)
from udfs.errors import NothingToReplayError, TraceError
from udfs.simulate.unit_batches import SIMULATED_COLUMNS
from udfs.two_runs import Divided, ReadRun, divided, read_run
from udfs.what_if import SimulationSettings

MOST_OPS: Final = 20_000_000
"""Most recorded ops of both sides together that are compared one by one; more may not fit into memory."""
_TABLES: Final = (JOB_SLOWDOWN, STEP_SLOWDOWN, JOB_CAUSES, EXPOSED_COMMUNICATION)

ReadOps = Callable[[], ReadRun]


class Sources(NamedTuple):
    """One side of a comparison, readers of its days' recorded ops, and notes on what was left out."""

    side: Side
    ops: Sequence[ReadOps]
    left_out: Sequence[str] = ()


def around(text: str, day: date, days: int) -> tuple[Asked, Asked]:
    """Return a job's or run's units on the `days` days before a date, and on `days` days from the date on.

    text : JOB or JOB/RUN. Raises ValueError if it names days.
    """
    of = asked(text)
    if of.first is not None:
        raise ValueError(f"{text} names days, and so does --date")
    before = of._replace(text=f"{text} before {day}", first=day - timedelta(days), last=day - timedelta(1))
    return before, of._replace(text=f"{text} from {day}", first=day, last=day + timedelta(days - 1))


def folder_side(text: str) -> Sources:
    """Read and simulate the run in a folder. Raises NoRunError if the folder has no run, or several."""
    run = one_run_in(Path(text))
    found = analysis(run)
    rows = {name: found.results[name].to_pylist(maps_as_pydicts="strict") for name in _TABLES}
    day = day_of(found.unit, rows, found.read.account.job or {})
    return _sources(text, [day], [lambda: read_run(*simulated(found, has_day=run.has_day))], ())


def simulated(found: Analysis, *, has_day: bool) -> tuple[pa.Table, dict[str, Any], SimulationSettings]:
    """Return a run's rows of rank_steps, its manifest with its log date if known, and the settings."""
    manifest = dict(found.read.account.job or {}) | {"log_date": found.unit.log_date if has_day else None}
    how = SimulationSettings(**load_settings(SHIPPED).simulation.model_dump())
    return found.read.rows.select(SIMULATED_COLUMNS), manifest, how


def warehouse_side(reader: Reader, of: Asked, how: SimulationSettings) -> Sources:
    """Return a side, made of the stored results of the units that `of` names.

    Raises NoSuchUnitError if there is no such unit, QuestionError if none was simulated.
    """
    units = _units(reader, of)
    are_meant = on_units([unit.log_date for unit in units], units)
    found = {name: rows_by_unit(reader.rows(f"SELECT * FROM {name} WHERE {are_meant}")) for name in _TABLES}
    columns = ", ".join((*UNIT_KEY, "step_times"))
    manifests = rows_by_unit(reader.rows(f"SELECT {columns} FROM {JOBS} WHERE {are_meant}"))
    kept = [unit for unit in units if unit in found[JOB_SLOWDOWN]]
    if not kept:
        raise QuestionError(f"{of.text}: no results: straggler simulate --log-date {units[0].log_date}")
    not_simulated = [
        _note(of.text, unit, f"is left out: no results: straggler simulate --log-date {unit.log_date}")
        for unit in units
        if unit not in found[JOB_SLOWDOWN]
    ]
    days = [
        day_of(unit, {name: rows.get(unit, ()) for name, rows in found.items()}, manifests[unit][0])
        for unit in kept
    ]
    ops = [partial(_ops_of_warehouse, reader, unit, how) for unit in kept]
    return _sources(of.text, days, ops, not_simulated)


def _ops_of_warehouse(reader: Reader, unit: Unit, how: SimulationSettings) -> ReadRun:
    rank_steps, manifest = read_unit(reader, unit)
    if not rank_steps.num_rows:
        raise NothingToReplayError("its recorded ops are no longer stored")
    return read_run(rank_steps, manifest, how)


def _units(reader: Reader, of: Asked) -> list[Unit]:
    """Return the named units, sorted by day. Raises NoSuchUnitError if there are none."""
    units = units_of(reader, of.job_id)
    if not units:
        names = job_ids(reader)
        known = suggestion(of.job_id, names) if names else f"{reader.root} has no jobs"
        raise NoSuchUnitError(f"{of.text} is neither a folder nor a job of the warehouse: {known}")
    fitting = [
        unit
        for unit in units
        if of.run_id in (None, unit.run_id)
        and (of.first or date.min) <= unit.log_date <= (of.last or date.max)
    ]
    if not fitting:
        meant = f"run {of.run_id}" if of.run_id else "run"
        if of.first is not None and of.last is not None:
            days = f"the {(of.last - of.first).days + 1} days from {of.first} to {of.last}"
            meant += f" on {of.first if of.first == of.last else days}"
        listed = ", ".join(f"run {unit.run_id} on {unit.log_date}" for unit in units[-5:])
        raise NoSuchUnitError(f"{of.text}: job {of.job_id} has no {meant}; the last that it has are {listed}")
    return fitting


def day_of(unit: Unit, rows: Mapping[str, Sequence[Row]], manifest: Mapping[str, Any]) -> Day:
    """Make a Day from a unit's result tables.

    rows : of job_slowdown, step_slowdown, job_causes and exposed_communication, by table.
    """
    (job,) = rows[JOB_SLOWDOWN]
    steps = sorted(rows[STEP_SLOWDOWN], key=lambda row: row["step"])
    if not steps:
        # The first line of a console log is left out: its time includes the start of the job.
        printed = [line["step_s"] for line in manifest.get("step_times") or ()]
        return Day(unit, job, np.array(printed[1:] if len(printed) > 1 else printed, dtype=np.float64))
    actual_s, replayed_s = (
        np.array([row[f"{name}_step_s"] for row in steps]) for name in ("actual", "simulated")
    )
    return Day(unit, job, actual_s, replayed_s, rows[JOB_CAUSES], rows[EXPOSED_COMMUNICATION])


def _note(side: str, unit: Unit, what: str) -> str:
    return f"{side}: run {unit.run_id} on {unit.log_date} {what}"


def _sources(text: str, days: Sequence[Day], ops: Sequence[ReadOps], not_simulated: Sequence[str]) -> Sources:
    """Return the days with steps, and a note on each other day. Raises AnswerError if no day has steps."""
    left_out = [
        *not_simulated,
        *(
            _note(text, day.unit, f"is left out: {day.job['status']}")
            + (f", {day.job['status_detail']}" if day.job["status_detail"] else "")
            for day in days
            if not len(day.actual_s)
        ),
    ]
    kept = [place for place, day in enumerate(days) if len(day.actual_s)]
    if not kept:
        raise AnswerError(f"no step times to compare: {'; '.join(left_out)}")
    return Sources(Side(text, [days[place] for place in kept]), [ops[place] for place in kept], left_out)


def by_ops(a: Sources, b: Sources) -> tuple[Divided | None, str]:
    """Return the difference by op types, stages and hosts, and ""; or None and why ops cannot be compared."""
    sides = (a.side, b.side)
    not_replayed = [
        _note(side.name, day.unit, f"was not replayed: {Status(day.job['status']).words}")
        for side in sides
        for day in [each for each in side.days if each.replayed_s is None][:1]  # one is enough
    ]
    if not_replayed:
        return None, "; ".join(not_replayed)
    ops = sum(day.job["ops"] for side in sides for day in side.days)
    if ops > MOST_OPS:
        return None, f"{ops:,} ops, more than {MOST_OPS:,}: name fewer days"
    read: list[list[ReadRun]] = []
    for sources in (a, b):
        try:
            read.append([each() for each in sources.ops])
        except (NothingToReplayError, TraceError) as error:
            return None, f"{sources.side.name}: {error}"
        if len({run.layout._replace(blocking=None) for run in read[-1]}) > 1:
            return None, f"{sources.side.name} has runs of several layouts"
    return divided(*read), ""
