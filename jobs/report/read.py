"""What the report is made of, read from the warehouse: views and tables, together."""

from collections.abc import Sequence
from datetime import date
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.reading.conditions import on_units
from jobs.reading.reader import Reader
from jobs.report.rows import FleetTables, UnitTables
from schemas.queries import QUERIES
from schemas.unit import Unit
from schemas.vocabulary import (
    JOB_CAUSES,
    OP_TYPE_DAY,
    OP_TYPE_SLOWDOWN,
    STEP_SLOWDOWN,
    UNIT_KEY,
    WORKER_SLOWDOWN,
)

_HOSTS: Final = "hosts"
_MOST_HOSTS: Final = 500
_HOST_ORDER: Final = [("p_value", "ascending"), ("jobs_slow", "descending"), ("host", "ascending")]
"""Those first that chance explains least."""
_KEY: Final = ", ".join(UNIT_KEY)
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
    period = f"log_date BETWEEN DATE'{first_day}' AND DATE'{last_day}'"
    asked = {
        "units": f"""
            SELECT {_KEY}, status, status_detail, team, cluster, world_size, slowdown, is_straggling,
                gpu_hours, wasted_gpu_hours, simulated_total_s, ideal_total_s
            FROM job_days WHERE {period}""",
        "parts": f"""
            SELECT {_KEY}, cause, host, is_flagged, time_saved_fraction, attributed_gpu_hours,
                recoverable_gpu_hours
            FROM fix_parts WHERE {period}""",
        "op_types": f"""
            SELECT log_date, op_type, jobs, gpu_hours, wasted_gpu_hours
            FROM {OP_TYPE_DAY} WHERE {period}""",
        "hosts": f"""
            SELECT * FROM ({QUERIES[_HOSTS].over(first_day, last_day)}) WHERE jobs_slow > 0""",
    }
    found = {name: reader.rows(sql) for name, sql in asked.items()}
    return FleetTables(
        units=_sorted(found["units"], *UNIT_KEY),
        parts=_sorted(found["parts"], *UNIT_KEY, "cause", "host"),
        op_types=_sorted(found["op_types"], "log_date", "op_type"),
        hosts=found[_HOSTS].sort_by(_HOST_ORDER).slice(0, _MOST_HOSTS),
    )


def straggling_units(fleet: FleetTables, day: date, most: int) -> list[Unit]:
    """Straggling units of one day, those that waste most GPU-hours first, then the slowest."""
    units = fleet.units
    slow = units.filter(pc.and_(pc.equal(units["log_date"], pa.scalar(day)), units["is_straggling"]))
    dearest = slow.sort_by([("wasted_gpu_hours", "descending"), ("slowdown", "descending")]).slice(0, most)
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
    record = {row["host"]: row for row in hosts.to_pylist()}
    return [
        UnitTables(
            job=rows[_JOB_DAYS][unit][0],
            workers=rows[WORKER_SLOWDOWN].get(unit, ()),
            steps=rows[STEP_SLOWDOWN].get(unit, ()),
            op_types=rows[OP_TYPE_SLOWDOWN].get(unit, ()),
            causes=rows[JOB_CAUSES].get(unit, ()),
            hosts=record,
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
