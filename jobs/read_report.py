"""What the report is made of, read from the warehouse: views and tables, together."""

from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.landing.files import Unit
from jobs.report.host_page import hosts_with_pages
from jobs.report.questions import of_fleet, of_hosts
from jobs.report.rows import FleetTables, UnitTables
from jobs.small_frames import collected
from jobs.warehouse.conditions import on_units
from jobs.warehouse.local_tables import keys_of
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.views import mentioned
from schemas.vocabulary import (
    JOB_CAUSES,
    OP_TYPE_SLOWDOWN,
    STEP_SLOWDOWN,
    WORKER_SLOWDOWN,
)

_OF_UNITS: Final = {
    WORKER_SLOWDOWN: ("dp_rank", "pp_rank"),
    STEP_SLOWDOWN: ("step",),
    OP_TYPE_SLOWDOWN: ("op_type",),
    JOB_CAUSES: ("cause",),
}
"""Tables of a job's page and the rest of their keys."""

_Rows = list[dict[str, Any]]


def read_fleet(warehouse: Warehouse, first_day: date, last_day: date) -> FleetTables:
    """Rows of the fleet's page, of these days, both included."""
    asked = of_fleet(first_day, last_day)
    days = (last_day - first_day).days + 1
    names = mentioned(" ".join((*asked.values(), WORKER_SLOWDOWN)))
    warehouse.register_views(names, [first_day + timedelta(days=day) for day in range(days)])
    found = collected({name: warehouse.spark.sql(sql) for name, sql in asked.items()})
    named = hosts_with_pages(found["fixes"].to_pylist(), found["hosts"].to_pylist())
    served = collected({"host_units": warehouse.spark.sql(of_hosts(named or [""], first_day, last_day))})
    return FleetTables(**found, **served)


def straggling_units(fleet: FleetTables, day: date, most: int) -> list[Unit]:
    """Straggling units of one day, those that lose most GPU-hours first, then the slowest."""
    units = fleet.units
    slow = units.filter(pc.and_(pc.equal(units["log_date"], pa.scalar(day)), units["is_straggling"]))
    dearest = slow.sort_by([("lost_gpu_hours", "descending"), ("slowdown", "descending")]).slice(0, most)
    return keys_of(dearest)


def read_units(warehouse: Warehouse, units: Sequence[Unit], hosts: pa.Table) -> list[UnitTables]:
    """Rows of the pages of these units, once read_fleet has made its views.

    hosts : of read_fleet.
    """
    if not units:
        return []
    days = sorted({unit[0] for unit in units})
    views = {"jobs": "job_days", WORKER_SLOWDOWN: WORKER_SLOWDOWN, JOB_CAUSES: JOB_CAUSES}
    frames = {name: warehouse.read(TABLES[name], days, units) for name in _OF_UNITS if name not in views}
    frames |= {name: warehouse.spark.table(view).where(on_units(days, units)) for name, view in views.items()}
    found = collected(frames)
    rows = {name: _by_unit(_sorted(table, *_OF_UNITS.get(name, ()))) for name, table in found.items()}
    record = {row["host"]: row for row in hosts.to_pylist()}
    return [
        UnitTables(
            job=rows["jobs"][unit][0],
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
        found.setdefault((row["log_date"], row["job_id"], row["run_id"]), []).append(row)
    return found


def _sorted(table: pa.Table, *columns: str) -> pa.Table:
    """Rows in a fixed order: Spark would shuffle them for it."""
    return table.sort_by([(name, "ascending") for name in columns]) if columns else table
