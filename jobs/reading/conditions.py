"""Which rows are meant, as SQL that both engines read."""

from collections.abc import Collection
from datetime import date
from itertools import groupby

from schemas.table import sql_strings
from schemas.unit import Unit


def on_days(log_dates: Collection[date]) -> str:
    """SQL that holds for rows of these days."""
    days = ", ".join(f"DATE'{day.isoformat()}'" for day in sorted(set(log_dates)))
    return f"log_date IN ({days})" if days else "false"


def on_units(log_dates: Collection[date], units: Collection[Unit] | None) -> str:
    """SQL that is true for rows of these days, or of these units alone.

    Days, jobs and runs also stand by themselves: files and row groups that have none of them are skipped.
    """
    days = on_days(log_dates)
    if units is None:
        return days
    among = []
    for day, of_day in groupby(sorted(units), key=lambda unit: unit[0]):
        pairs = ", ".join(f"({sql_strings(unit[1:])})" for unit in of_day)
        among.append(f"(log_date = DATE'{day.isoformat()}' AND (job_id, run_id) IN ({pairs}))")
    if not among:
        return "false"
    jobs, runs = (sql_strings(sorted({str(unit[place]) for unit in units})) for place in (1, 2))
    return f"{days} AND job_id IN ({jobs}) AND run_id IN ({runs}) AND ({' OR '.join(among)})"
