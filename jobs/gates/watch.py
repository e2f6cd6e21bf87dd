"""Warnings about a night whose tables are right: they never refuse it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from statistics import median
from typing import Any, Final, NamedTuple

from jobs.gates.audit import warnings
from jobs.runtime.settings_sections import WatchSettings
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import FLEET_DAY, HOST_DAY

RULE_BROKEN: Final = "rule_broken"
"""Kind of a notice that a warning-only rule is broken."""
_MOST_HOSTS: Final = 5
"""Most hosts that are named one by one."""
_OF_HOSTS: Final = ["host", "log_date", "worker_slowdown_max"]
_OF_A_NORMAL: Final = 1.4826
"""Standard deviations per median absolute deviation of a normal distribution."""


_Value = tuple[str, date, float | None]  # name, day, value


class Notice(NamedTuple):
    """One warning: its kind, and the whole sentence."""

    kind: str
    text: str


def night_warnings(
    warehouse: Warehouse, watch: WatchSettings, log_dates: Sequence[date]
) -> dict[date, list[Notice]]:
    """Compare published nights with the settings and their past; returns the notices of each."""
    days = sorted({day - timedelta(days=age) for day in log_dates for age in range(watch.days + 1)})
    fleet = {row["log_date"]: row for row in warehouse.rows(TABLES[FLEET_DAY], days).to_pylist()}
    of_hosts = warehouse.rows(TABLES[HOST_DAY], days).select(_OF_HOSTS)
    hosts: dict[date, list[_Value]] = defaultdict(list)
    for each in zip(*(column.to_pylist() for column in of_hosts.columns), strict=True):
        hosts[each[1]].append(each)
    rules = _of_rules(warehouse, log_dates)
    return {day: of_night(fleet, hosts, watch, day) + rules[day] for day in log_dates}


def of_night(
    fleet: Mapping[date, Mapping[str, Any]],
    hosts: Mapping[date, Sequence[_Value]],
    watch: WatchSettings,
    log_date: date,
) -> list[Notice]:
    """Compare a night with its past.

    fleet : rows of fleet_day, by day. hosts : host, day and its greatest slowdown, by day
    """
    days = [log_date - timedelta(days=age) for age in range(watch.days + 1)]
    rows = {day: fleet[day] for day in days if day in fleet}
    found = _of_coverage(rows, watch, log_date)
    if len(rows) <= watch.minimum_days or log_date not in rows:
        return found
    text = "{}: {:.1%} of what was analysed is lost, usually {:.1%} (median of {} days)"
    losses = (("fleet", day, lost_fraction(row)) for day, row in rows.items())
    found += [Notice("loss_rose", text.format(log_date, *row[1:])) for row in _risen(losses, watch, log_date)]
    text = "{}: host {} slows a job {:.3f}-fold, usually {:.3f}-fold (median of {} days)"
    risen = _risen((each for day in days for each in hosts.get(day, ())), watch, log_date)
    found += [Notice("host_rose", text.format(log_date, *row)) for row in risen[:_MOST_HOSTS]]
    more = len(risen) - _MOST_HOSTS
    return [*found, Notice("host_rose", f"{log_date}: and {more} more hosts")] if more > 0 else found


def lost_fraction(fleet: Mapping[str, Any]) -> float | None:
    """Share that a day lost of its analysed GPU-hours, or of recorded time if no unit states them."""
    for lost, of in (
        (fleet["lost_gpu_hours"], fleet["analysed_gpu_hours"]),
        (fleet["lost_s"], fleet["analysed_s"]),
    ):
        if of and lost is not None:
            return float(lost / of)
    return None


def coverage(fleet: Mapping[str, Any]) -> float | None:
    """Share of a day's units that were analysed; None on a day without units."""
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
        failed = (
            f"{today['failed']} units failed by a defect of this software: "
            "see failure_traceback in job_slowdown"
        )
        found.append(Notice("units_failed", f"{log_date}: {failed}"))
    return found


def _of_rules(warehouse: Warehouse, log_dates: Sequence[date]) -> dict[date, list[Notice]]:
    """Warning-only rules, over tables as published by any run."""
    watched = [table for table in TABLES.values() if any(e.severity == "warns" for e in table.expectations)]
    found: dict[date, list[Notice]] = {day: [] for day in log_dates}
    for broken in warnings([(table, warehouse.read(table, log_dates)) for table in watched]):
        for day in broken.log_dates:
            found[day].append(Notice(RULE_BROKEN, f"{day}: {broken}"))
    return found


def _risen(
    values: Iterable[_Value], watch: WatchSettings, log_date: date
) -> list[tuple[str, float, float, int]]:
    """What rises above its past, the largest first: name, value, median of the past, days of it."""
    now: dict[str, float] = {}
    past: dict[str, list[float]] = defaultdict(list)
    for name, day, value in values:
        if value is not None and day == log_date:
            now[name] = value
        elif value is not None:
            past[name].append(value)
    found = []
    for name, value in now.items():
        if len(past[name]) >= watch.minimum_days:
            usual = median(past[name])
            deviation = median(abs(each - usual) for each in past[name])
            if value > usual + max(watch.rise, watch.deviations * _OF_A_NORMAL * deviation):
                found.append((name, value, usual, len(past[name])))
    return sorted(found, key=lambda row: (-row[1], row[0]))
