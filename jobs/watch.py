"""What of a night somebody should hear of though its tables are right: it never refuses, it warns."""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from jobs.settings import WatchSettings
from jobs.transforms.watch import fleet_values, host_values, risen
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import FLEET_DAY, HOST_DAY

_MOST_HOSTS: Final = 5
"""Hosts that are told one by one."""


class Notice(NamedTuple):
    """One thing to tell: which rule, and the whole sentence."""

    kind: str
    text: str


def night_warnings(warehouse: Warehouse, watch: WatchSettings, log_date: date) -> list[Notice]:
    """Hold a published night against the settings and against its own past."""
    past = [log_date - timedelta(days=age) for age in range(1, watch.days + 1)]
    stored = warehouse.read(TABLES[FLEET_DAY], [*past, log_date])
    table = stored.toArrow()
    rows = {row["log_date"]: row for row in table.to_pylist()}
    found = _of_coverage(rows, watch, log_date)
    if len(rows) > watch.minimum_days and log_date in rows:
        found += _of_waste(stored, watch, log_date)
        found += _of_hosts(warehouse.read(TABLES[HOST_DAY], [*past, log_date]), watch, log_date)
    return found


def coverage(fleet: Mapping[str, Any]) -> float | None:
    """Units analysed, of all units of a day; None on a day without units."""
    return fleet["analysed"] / fleet["jobs"] if fleet["jobs"] else None


def _of_coverage(
    rows: Mapping[date, Mapping[str, Any]], watch: WatchSettings, log_date: date
) -> list[Notice]:
    today, yesterday = (rows.get(day) for day in (log_date, log_date - timedelta(days=1)))
    covered = coverage(today) if today else None
    if today is None or covered is None:
        return [Notice("no_units", f"{log_date}: no units at all")]
    found = []
    of_all = f"{today['analysed']} of {today['jobs']} units analysed ({covered:.0%})"
    if covered < watch.minimum_coverage:
        least = f"less than watch.minimum_coverage, {watch.minimum_coverage:.0%}"
        found.append(Notice("coverage_low", f"{log_date}: {of_all}, {least}"))
    before = coverage(yesterday) if yesterday else None
    if before is not None and before - covered > watch.coverage_drop:
        most = f"a drop of more than watch.coverage_drop, {watch.coverage_drop:.0%}"
        found.append(Notice("coverage_fell", f"{log_date}: {of_all}, {before:.0%} the day before, {most}"))
    if today["failed"]:
        failed = f"{today['failed']} units failed by a defect of ours; job_slowdown.status_detail says which"
        found.append(Notice("units_failed", f"{log_date}: {failed}"))
    return found


def _of_waste(fleet: DataFrame, watch: WatchSettings, log_date: date) -> list[Notice]:
    now, past = _split(fleet, log_date)
    rows = _risen(fleet_values(now), fleet_values(past), "what", watch)
    text = "{}: {:.1%} of the analysed GPU-hours wasted, usually {:.1%} (median of {} days)"
    return [Notice("waste_rose", text.format(log_date, *row[1:])) for row in rows]


def _of_hosts(hosts: DataFrame, watch: WatchSettings, log_date: date) -> list[Notice]:
    now, past = _split(hosts, log_date)
    rows = _risen(host_values(now), host_values(past), "host", watch)
    text = "{}: host {} slows a job {:.3f}-fold, usually {:.3f}-fold (median of {} days)"
    found = [Notice("host_rose", text.format(log_date, *row)) for row in rows[:_MOST_HOSTS]]
    more = len(rows) - _MOST_HOSTS
    return [*found, Notice("host_rose", f"{log_date}: and {more} more hosts")] if more > 0 else found


def _risen(now: DataFrame, past: DataFrame, key: str, watch: WatchSettings) -> list[tuple[Any, ...]]:
    found = risen(now, past, [key], watch.minimum_days, watch.deviations, watch.rise)
    return [tuple(row) for row in found.collect()]


def _split(rows: DataFrame, log_date: date) -> tuple[DataFrame, DataFrame]:
    """Rows of the day, and those of the days before it."""
    is_now = F.col("log_date") == F.lit(log_date)
    return rows.where(is_now), rows.where(~is_now)
