"""What the report asks the warehouse, as SQL: every figure on its pages is computed there, once."""

from collections.abc import Collection
from datetime import date
from typing import Final

from schemas.queries import QUERIES
from schemas.table import sql_strings
from schemas.vocabulary import FLEET_DAY, REJECTS, UNIT_KEY, WORKER_SLOWDOWN

_KEY: Final = ", ".join(UNIT_KEY)
_NAMED: Final = {
    "totals": "straggling",
    "weeks": "weeks",
    "fixes": "fix_first",
    "runs": "runs",
    "coverage": "coverage",
    "distribution": "waste_distribution",
    "op_types": "waste_by_op_type",
}
"""Tables of the fleet's page that are named queries."""


def of_fleet(first_day: date, last_day: date) -> dict[str, str]:
    """Return the question behind each table of the fleet's page, over these days, both included."""
    period = _period(first_day, last_day)
    named = {table: QUERIES[query].over(first_day, last_day) for table, query in _NAMED.items()}
    return named | {
        "days": f"""
            SELECT log_date, lost_gpu_hours, analysed_s, lost_s,
                CASE WHEN lost_gpu_hours IS NOT NULL THEN analysed_gpu_hours END AS lost_of_gpu_hours
            FROM {FLEET_DAY} WHERE {period} ORDER BY log_date""",
        "units": f"""
            SELECT {_KEY}, status, status_detail, team, cluster, slowdown, is_analysed, is_straggling,
                CASE WHEN lost_gpu_hours IS NOT NULL THEN gpu_hours END AS lost_of_gpu_hours, lost_gpu_hours,
                CASE WHEN lost_s IS NOT NULL THEN actual_total_s END AS analysed_s, lost_s, lost_fraction
            FROM job_days WHERE {period} ORDER BY {_KEY}""",
        "parts": f"""
            SELECT {_KEY}, cause, host, is_flagged, lost_gpu_hours, lost_s
            FROM fix_parts WHERE {period} ORDER BY {_KEY}, cause, host""",
        "hosts": f"""
            SELECT * FROM ({QUERIES["hosts"].over(first_day, last_day)}) WHERE jobs_slow > 0
            ORDER BY p_value, jobs_slow DESC, host""",
    }


def of_hosts(hosts: Collection[str], first_day: date, last_day: date) -> str:
    """Return the question which units these hosts served, and what each loses to them."""
    period = _period(first_day, last_day)
    return f"""
        SELECT * FROM (
            SELECT host, {_KEY}, count(*) AS workers, max(slowdown) AS slowdown
            FROM {WORKER_SLOWDOWN} WHERE {period} AND host IN ({sql_strings(sorted(hosts))})
            GROUP BY host, {_KEY}
        ) LEFT JOIN (
            SELECT host, {_KEY}, sum(lost_fraction) AS lost_fraction, sum(lost_gpu_hours) AS lost_gpu_hours
            FROM fix_parts WHERE {period} GROUP BY host, {_KEY}
        ) USING (host, {_KEY})
        ORDER BY host, {_KEY}"""


def rejects_of(condition: str) -> str:
    """Return the question why lines and files of the units of a condition were rejected, and how many."""
    return f"""
        SELECT {_KEY}, reason, count(*) AS count, min(detail) AS detail
        FROM {REJECTS} WHERE {condition} GROUP BY {_KEY}, reason ORDER BY count DESC, reason"""


def _period(first_day: date, last_day: date) -> str:
    return f"log_date BETWEEN DATE'{first_day}' AND DATE'{last_day}'"
