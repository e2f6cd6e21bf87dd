"""What the report is made of, read from the warehouse: views and tables, together."""

from collections.abc import Collection, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.fingerprints import simulation
from jobs.landing.files import Unit
from jobs.report.rows import FleetTables, Row, UnitTables
from jobs.settings import Settings
from jobs.small_frames import collected
from jobs.unit import read_rank_steps
from jobs.warehouse.conditions import on_units
from jobs.warehouse.tables import Warehouse
from schemas.queries import QUERIES
from schemas.tables import TABLES
from schemas.views import mentioned
from schemas.vocabulary import (
    JOB_CAUSES,
    JOBS,
    OP_TYPE_DAY,
    OP_TYPE_SLOWDOWN,
    STATUS_ANALYSED,
    STEP_SLOWDOWN,
    STRAGGLING_SLOWDOWN,
    UNIT_KEY,
    WORKER_SLOWDOWN,
)
from udfs.step_workers import worker_steps

_HOSTS: Final = "hosts"
_MOST_HOSTS: Final = 500
_HOST_ORDER: Final = [("p_value", "ascending"), ("jobs_slow", "descending"), ("host", "ascending")]
"""Those first that chance explains least."""
_KEY: Final = ", ".join(UNIT_KEY)
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
    hosts = QUERIES[_HOSTS]
    period = f"log_date BETWEEN DATE'{first_day}' AND DATE'{last_day}'"
    names = mentioned(" ".join(("job_days", "fix_parts", OP_TYPE_DAY, *hosts.sources)))
    days = (last_day - first_day).days + 1
    warehouse.register_views(names, [first_day + timedelta(days=day) for day in range(days)])
    asked = {
        "units": f"""
            SELECT {_KEY}, status, status_detail, team, cluster, world_size, slowdown, gpu_hours,
                wasted_gpu_hours, simulated_total_s, ideal_total_s
            FROM job_days WHERE {period}""",
        "parts": f"""
            SELECT {_KEY}, cause, host, is_flagged, time_saved_fraction, attributed_gpu_hours,
                recoverable_gpu_hours
            FROM fix_parts WHERE {period}""",
        "op_types": f"""
            SELECT log_date, op_type, jobs, gpu_hours, wasted_gpu_hours
            FROM {OP_TYPE_DAY} WHERE {period}""",
        "hosts": f"""
            SELECT * FROM ({hosts.over(first_day, last_day)}) WHERE jobs_slow > 0""",
    }
    found = collected({name: warehouse.spark.sql(sql) for name, sql in asked.items()})
    return FleetTables(
        units=_sorted(found["units"], *UNIT_KEY),
        parts=_sorted(found["parts"], *UNIT_KEY, "cause", "host"),
        op_types=_sorted(found["op_types"], "log_date", "op_type"),
        hosts=found[_HOSTS].sort_by(_HOST_ORDER).slice(0, _MOST_HOSTS),
    )


def straggling_units(fleet: FleetTables, day: date, most: int) -> list[Unit]:
    """Straggling units of one day, those that waste most GPU-hours first, then the slowest."""
    units = fleet.units
    found = units.filter(
        pc.and_(pc.equal(units["log_date"], pa.scalar(day)), pc.equal(units["status"], STATUS_ANALYSED))
    ).to_pylist()
    slow = [row for row in found if row["slowdown"] >= STRAGGLING_SLOWDOWN]
    slow.sort(key=lambda row: (-(row["wasted_gpu_hours"] or 0.0), -row["slowdown"]))
    return [(row["log_date"], row["job_id"], row["run_id"]) for row in slow[:most]]


def read_units(
    warehouse: Warehouse, settings: Settings, units: Sequence[Unit], hosts: pa.Table, map_ops: int | None
) -> list[UnitTables]:
    """Rows of the pages of these units, once read_fleet has made its views.

    hosts   : of read_fleet.
    map_ops : maps of workers by steps are replayed for so many ops in all, the first units first; None: all
    """
    if not units:
        return []
    days = sorted({unit[0] for unit in units})
    views = {"jobs": "job_days", WORKER_SLOWDOWN: WORKER_SLOWDOWN, JOB_CAUSES: JOB_CAUSES}
    frames = {name: warehouse.read(TABLES[name], days, units) for name in _OF_UNITS if name not in views}
    frames |= {name: warehouse.spark.table(view).where(on_units(days, units)) for name, view in views.items()}
    found = collected(frames)
    rows = {name: _by_unit(_sorted(table, *_OF_UNITS.get(name, ()))) for name, table in found.items()}
    jobs = {unit: of_unit[0] for unit, of_unit in rows["jobs"].items()}
    afforded = _affordable(jobs, units, map_ops)
    maps = step_maps(warehouse, settings, afforded)
    record = {row["host"]: row for row in hosts.to_pylist()}
    return [
        UnitTables(
            job=jobs[unit],
            workers=rows[WORKER_SLOWDOWN].get(unit, ()),
            steps=rows[STEP_SLOWDOWN].get(unit, ()),
            op_types=rows[OP_TYPE_SLOWDOWN].get(unit, ()),
            causes=rows[JOB_CAUSES].get(unit, ()),
            hosts=record,
            step_map=maps.get(unit),
            has_ops=unit in maps or unit not in afforded,
        )
        for unit in units
    ]


def step_maps(warehouse: Warehouse, settings: Settings, units: Collection[Unit]) -> dict[Unit, pa.Table]:
    """Slowdown of every worker in every step, replayed here, of those units whose recorded ops are kept.

    No more than one unit's rows are held at a time. Manifests are those of the view that read_fleet has made.
    """
    if not units:
        return {}
    days = sorted({unit[0] for unit in units})
    manifests = _by_unit(collected({JOBS: warehouse.spark.table(JOBS).where(on_units(days, units))})[JOBS])
    found = {}
    for unit in units:
        rows = read_rank_steps(warehouse, unit)
        if rows.num_rows:  # else they have expired
            found[unit] = worker_steps(rows, manifests[unit][0], simulation(settings))
    return found


def _affordable(jobs: Mapping[Unit, Row], units: Sequence[Unit], map_ops: int | None) -> list[Unit]:
    """Replayed units whose ops, one after the other, stay within the bound."""
    chosen, ops = [], 0
    for unit in units:
        own = jobs[unit]["ops"]
        if own is not None and (map_ops is None or ops + own <= map_ops):
            chosen.append(unit)
            ops += own
    return chosen


def _by_unit(table: pa.Table) -> dict[Unit, _Rows]:
    found: dict[Unit, _Rows] = {}
    for row in table.to_pylist(maps_as_pydicts="strict"):
        found.setdefault((row["log_date"], row["job_id"], row["run_id"]), []).append(row)
    return found


def _sorted(table: pa.Table, *columns: str) -> pa.Table:
    """Rows in a fixed order: Spark would shuffle them for it."""
    return table.sort_by([(name, "ascending") for name in columns]) if columns else table
