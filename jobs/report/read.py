"""SQL of the report's tables, and functions that read them.

SQL computes each figure once. After that, loss.py only divides sums, and page/fleet.js only adds up rows.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.report.crop import crop_of, crop_question
from jobs.report.host_page import hosts_with_pages
from jobs.report.news_words import news_of, outcomes_of, step_changes_of
from jobs.report.rows import FleetTables, UnitTables
from jobs.warehouse.reader import QuestionError, Reader, keys_of, on_days, on_units, rows_by_unit
from schemas import vocabulary
from schemas.drain import DrainTerms
from schemas.queries import QUERIES
from schemas.table import sql_strings
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.views import drain_by

_KEY: Final = ", ".join(vocabulary.UNIT_KEY)
_NAMED: Final = {
    "totals": "straggling",
    "weeks": "weeks",
    "fixes": "fix_first",
    "runs": "runs",
    "coverage": "coverage",
    "distribution": "waste_distribution",
    "op_types": "waste_by_op_type",
    "waterfall": "waterfall",
}
"""Tables of the fleet's page that are the answers to named queries, with the names of the queries."""
_JOB_DAYS: Final = "job_days"
_HISTORY: Final = "culprit_history"
_WATERFALL: Final = "waterfall"
_FURTHER: Final = (*vocabulary.FURTHER_TABLES, vocabulary.JOB_MEGAWATTS, vocabulary.CAUSE_EVIDENCE)
_OF_UNITS: Final = {
    _JOB_DAYS: (),
    vocabulary.WORKER_SLOWDOWN: ("dp_rank", "pp_rank"),
    vocabulary.STEP_SLOWDOWN: ("step",),
    vocabulary.OP_TYPE_SLOWDOWN: ("op_type",),
    vocabulary.JOB_CAUSES: ("cause",),
    _HISTORY: ("cause", "culprit"),
    _WATERFALL: ("place",),
    **{name: TABLES[name].grain[len(vocabulary.UNIT_KEY) :] for name in _FURTHER},
}
"""Tables and views of a job's page, and the columns of their keys beyond the key of the unit."""

_Rows = list[dict[str, Any]]


def read_fleet(
    reader: Reader, first_day: date, last_day: date, terms: DrainTerms | None = None
) -> FleetTables:
    """Read the tables of the fleet's page for the days from first_day to last_day, both included.

    terms : costs and days for the forecast of drains; by default those of the shipped settings
    """
    questions = of_fleet(first_day, last_day, terms or DrainTerms())
    reader.prepare([*questions.values(), of_hosts([""], first_day, last_day)])
    found = {name: reader.rows(sql) for name, sql in questions.items()}
    named = hosts_with_pages(found["fixes"].to_pylist(), found["hosts"].to_pylist())
    return FleetTables(**found, host_units=reader.rows(of_hosts(named or [""], first_day, last_day)))


def straggling_units(fleet: FleetTables, day: date, most: int) -> list[Unit]:
    """Return the `most` costliest units of a day that straggle or lose as much time as straggling units.

    The latter count because slow ops lengthen the ideal, so that a unit may lose time and still not straggle.
    """
    units = fleet.units
    is_slow = pc.or_kleene(
        units["is_straggling"],
        pc.greater_equal(units["lost_fraction"], 1 - 1 / vocabulary.STRAGGLING_SLOWDOWN),
    )
    slow = units.filter(pc.and_(pc.equal(units["log_date"], pa.scalar(day)), is_slow))
    dearest = slow.sort_by([("lost_gpu_hours", "descending"), ("slowdown", "descending")]).slice(0, most)
    return keys_of(dearest)


def read_units(reader: Reader, units: Sequence[Unit], hosts: pa.Table) -> list[UnitTables]:
    """Read the rows for the pages of these units.

    hosts : the table `hosts` of FleetTables, for the records of hosts.
    Raises QuestionError for a unit without results, as it was ingested but not simulated.
    """
    if not units:
        return []
    are_asked_for = on_units([unit.log_date for unit in units], units)
    questions = {name: f"SELECT * FROM {name} WHERE {are_asked_for}" for name in _OF_UNITS}
    reader.prepare([*questions.values(), rejects_of(are_asked_for), changes_of(units)])
    rows = {
        name: rows_by_unit(sorted_by(reader.rows(questions[name]), *key)) for name, key in _OF_UNITS.items()
    }
    for unit in units:
        if unit not in rows[_JOB_DAYS]:
            todo = f"straggler simulate --log-date {unit.log_date}"
            raise QuestionError(f"job {unit.job_id} has no results of {unit.log_date}: {todo}")
    rejects = rows_by_unit(reader.rows(rejects_of(are_asked_for)))
    record = {row["host"]: row for row in hosts.to_pylist()}
    changes = _grouped(reader.rows(changes_of(units)), "log_date", "job_id")
    roles = _roles(reader, [rows[_JOB_DAYS][unit][0] for unit in units])
    found = [
        UnitTables(
            job=rows[_JOB_DAYS][unit][0],
            workers=rows[vocabulary.WORKER_SLOWDOWN].get(unit, ()),
            steps=rows[vocabulary.STEP_SLOWDOWN].get(unit, ()),
            op_types=rows[vocabulary.OP_TYPE_SLOWDOWN].get(unit, ()),
            causes=rows[vocabulary.JOB_CAUSES].get(unit, ()),
            further={name: rows[name].get(unit, ()) for name in _FURTHER},
            roles=roles.get((unit.log_date, rows[_JOB_DAYS][unit][0]["part_of"]), ()),
            hosts=record,
            history=rows[_HISTORY].get(unit, ()),
            rejects=rejects.get(unit, ()),
            waterfall=rows[_WATERFALL].get(unit, ()),
            changes=changes.get(unit[:2], ()),
        )
        for unit in units
    ]
    # Add the recorded ops that the pages draw, if any page has a culprit to draw.
    crops = {each.key: crop for each in found if (crop := crop_of(each)) is not None}
    lines = rows_by_unit(reader.rows(crop_question(crops))) if crops else {}
    return [replace(each, crop=lines.get(each.key, ())) for each in found]


def _roles(reader: Reader, job_days: _Rows) -> dict[tuple[Any, ...], _Rows]:
    """Return rows of role_effect for the groups of jobs that these units are in, by log date and part_of."""
    wholes = {(row["log_date"], row["part_of"]) for row in job_days if row["part_of"] is not None}
    if not wholes:
        return {}
    are_theirs = " OR ".join(
        f"(log_date = DATE'{day}' AND part_of = {sql_strings([part_of])})" for day, part_of in sorted(wholes)
    )
    roles = reader.rows(f"SELECT * FROM {vocabulary.ROLE_EFFECT} WHERE {are_theirs} ORDER BY role")
    return _grouped(roles, "log_date", "part_of")


def _grouped(table: pa.Table, *key: str) -> dict[tuple[Any, ...], _Rows]:
    """Return lists of rows with equal values in the columns `key`, by these values."""
    found: dict[tuple[Any, ...], _Rows] = {}
    for row in table.to_pylist(maps_as_pydicts="strict"):
        found.setdefault(tuple(row[name] for name in key), []).append(row)
    return found


def sorted_by(table: pa.Table, *columns: str) -> pa.Table:
    """Sort rows by columns, so that equal rows always give equal pages."""
    return table.sort_by([(name, "ascending") for name in columns]) if columns else table


def days_with_rows(reader: Reader) -> list[date]:
    """Return the days that have units, analysed or not."""
    found = reader.rows(f"SELECT DISTINCT log_date FROM {_JOB_DAYS}")
    return sorted(found["log_date"].to_pylist())


def of_fleet(first_day: date, last_day: date, terms: DrainTerms) -> dict[str, str]:
    """Return SQL for each table of the fleet's page over these days, both included."""
    period = _period(first_day, last_day)
    named = {table: QUERIES[query].over(first_day, last_day) for table, query in _NAMED.items()}
    return named | {
        "days": f"""
            SELECT log_date, sum(lost_gpu_hours) AS lost_gpu_hours, sum(lost_s) AS lost_s,
                sum(gpu_hours) FILTER (WHERE lost_gpu_hours IS NOT NULL) AS lost_of_gpu_hours,
                sum(actual_total_s) FILTER (WHERE lost_s IS NOT NULL) AS analysed_s
            FROM job_days WHERE {period} GROUP BY log_date ORDER BY log_date""",
        "units": f"""
            SELECT {_KEY}, status, status_detail, team, cluster, slowdown, is_analysed, is_straggling,
                CASE WHEN lost_gpu_hours IS NOT NULL THEN gpu_hours END AS lost_of_gpu_hours, lost_gpu_hours,
                CASE WHEN lost_s IS NOT NULL THEN actual_total_s END AS analysed_s, lost_s, lost_fraction
            FROM job_days WHERE {period} ORDER BY {_KEY}""",
        "slower": f"""
            SELECT {_KEY}, status, cause, slower_than_usual, actual_step_s, usual_step_s, slower_gpu_hours
            FROM slower_than_before WHERE {period} ORDER BY slower_than_usual DESC, {_KEY}""",
        "parts": f"""
            SELECT {_KEY}, cause, host, is_flagged, lost_gpu_hours, lost_s,
                lost_gpu_hours_half_width, lost_s_half_width, lost_gpu_hours_shared, lost_s_shared,
                interval_freedom
            FROM fix_parts WHERE {period} ORDER BY {_KEY}, cause, host""",
        "news": news_of(last_day),
        "changes": step_changes_of(last_day),
        "outcomes": outcomes_of(last_day),
        "drain": drain_by(terms, last_day),
        "hosts": f"""
            SELECT * FROM ({QUERIES["hosts"].over(first_day, last_day)}) WHERE jobs_slow > 0
            ORDER BY p_value, jobs_slow DESC, host""",
    }


def of_hosts(hosts: Collection[str], first_day: date, last_day: date) -> str:
    """Return SQL for the units that ran on these hosts, with the time that each unit lost to each host."""
    period = _period(first_day, last_day)
    return f"""
        SELECT * FROM (
            SELECT host, {_KEY}, count(*) AS workers, max(slowdown) AS slowdown
            FROM {vocabulary.WORKER_SLOWDOWN} WHERE {period} AND host IN ({sql_strings(sorted(hosts))})
            GROUP BY host, {_KEY}
        ) LEFT JOIN (
            SELECT host, {_KEY}, sum(lost_fraction) AS lost_fraction, sum(lost_gpu_hours) AS lost_gpu_hours
            FROM fix_parts WHERE {period} GROUP BY host, {_KEY}
        ) USING (host, {_KEY})
        ORDER BY host, {_KEY}"""


def rejects_of(condition: str) -> str:
    """Return SQL for the number of rejects by unit and reason, for the rejects that meet a condition."""
    return f"""
        SELECT {_KEY}, reason, count(*) AS count, min(detail) AS detail
        FROM {vocabulary.REJECTS} WHERE {condition} GROUP BY {_KEY}, reason ORDER BY count DESC, reason"""


def changes_of(units: Sequence[Unit]) -> str:
    """Return SQL for the changes of these units' jobs, as known on the units' days."""
    days = on_days([unit.log_date for unit in units])
    jobs = sql_strings(sorted({unit.job_id for unit in units}))
    return f"SELECT * FROM {vocabulary.JOB_CHANGES} WHERE {days} AND job_id IN ({jobs})"


def _period(first_day: date, last_day: date) -> str:
    return f"log_date BETWEEN DATE'{first_day}' AND DATE'{last_day}'"
