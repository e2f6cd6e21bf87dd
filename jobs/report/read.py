"""What the report is made of, read from the warehouse: views and tables, together."""

from collections.abc import Sequence
from datetime import date
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.reading.conditions import on_units
from jobs.reading.reader import Reader
from jobs.report.host_page import hosts_with_pages
from jobs.report.questions import of_fleet, of_hosts, rejects_of
from jobs.report.rows import FleetTables, UnitTables
from schemas.unit import Unit
from schemas.vocabulary import (
    JOB_CAUSES,
    OP_TYPE_SLOWDOWN,
    STEP_SLOWDOWN,
    UNIT_KEY,
    WORKER_SLOWDOWN,
)

_JOB_DAYS: Final = "job_days"
_OF_UNITS: Final = {
    _JOB_DAYS: (),
    WORKER_SLOWDOWN: ("dp_rank", "pp_rank"),
    STEP_SLOWDOWN: ("step",),
    OP_TYPE_SLOWDOWN: ("op_type",),
    JOB_CAUSES: ("cause",),
}
"""Tables and views of a job's page, and the rest of their keys."""

_Rows = list[dict[str, Any]]


def read_fleet(reader: Reader, first_day: date, last_day: date) -> FleetTables:
    """Rows of the fleet's page, of these days, both included."""
    found = {name: reader.rows(sql) for name, sql in of_fleet(first_day, last_day).items()}
    named = hosts_with_pages(found["fixes"].to_pylist(), found["hosts"].to_pylist())
    return FleetTables(**found, host_units=reader.rows(of_hosts(named or [""], first_day, last_day)))


def straggling_units(fleet: FleetTables, day: date, most: int) -> list[Unit]:
    """Straggling units of one day, those that lose most GPU-hours first, then the slowest."""
    units = fleet.units
    slow = units.filter(pc.and_(pc.equal(units["log_date"], pa.scalar(day)), units["is_straggling"]))
    dearest = slow.sort_by([("lost_gpu_hours", "descending"), ("slowdown", "descending")]).slice(0, most)
    return [Unit(**key) for key in dearest.select(UNIT_KEY).to_pylist()]


def read_units(reader: Reader, units: Sequence[Unit], hosts: pa.Table) -> list[UnitTables]:
    """Rows of the pages of these units.

    hosts : of read_fleet.
    """
    if not units:
        return []
    are_asked_for = on_units([unit.log_date for unit in units], units)
    rows = {}
    for name, key in _OF_UNITS.items():
        rows[name] = _by_unit(_sorted(reader.rows(f"SELECT * FROM {name} WHERE {are_asked_for}"), *key))
    rejects = _by_unit(reader.rows(rejects_of(are_asked_for)))
    record = {row["host"]: row for row in hosts.to_pylist()}
    return [
        UnitTables(
            job=rows[_JOB_DAYS][unit][0],
            workers=rows[WORKER_SLOWDOWN].get(unit, ()),
            steps=rows[STEP_SLOWDOWN].get(unit, ()),
            op_types=rows[OP_TYPE_SLOWDOWN].get(unit, ()),
            causes=rows[JOB_CAUSES].get(unit, ()),
            hosts=record,
            rejects=rejects.get(unit, ()),
        )
        for unit in units
    ]


def _by_unit(table: pa.Table) -> dict[Unit, _Rows]:
    found: dict[Unit, _Rows] = {}
    for row in table.to_pylist(maps_as_pydicts="strict"):
        found.setdefault(Unit(row["log_date"], row["job_id"], row["run_id"]), []).append(row)
    return found


def _sorted(table: pa.Table, *columns: str) -> pa.Table:
    """Rows in a fixed order."""
    return table.sort_by([(name, "ascending") for name in columns]) if columns else table


def days_with_rows(reader: Reader) -> list[date]:
    """Days that have units, analysed or not."""
    found = reader.rows(f"SELECT DISTINCT log_date FROM {_JOB_DAYS}")
    return sorted(found["log_date"].to_pylist())
