"""Warnings about published nights: their tables passed the gates, but some of their values are unusual."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from statistics import median
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from jobs.gates.audit import warnings
from jobs.gates.owners import owner_changes
from jobs.gates.slow_hosts import Risen, largest_causes, slow_host_texts, slowed_by
from jobs.gates.training_time import training_time_texts
from jobs.runtime.plural import plural
from jobs.runtime.settings_sections import WatchSettings
from jobs.warehouse.tables import Warehouse
from schemas.causes import OF_CAUSE
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import FLEET_DAY, HOST_DAY, JOB_SLOWDOWN, JOBS, SLOWER_THAN_BEFORE, UNIT_KEY, Status

RULE_BROKEN: Final = "rule_broken"
"""Kind of a notice about a broken rule of severity `warns`."""
_MOST_UNITS: Final = 5
"""Limit on the units that are named one by one, for each day and kind of notice."""
_BY_MANIFEST: Final = pa.array([Status.BAD_LAYOUT, Status.TOO_MANY_RESTARTS])
"""Statuses that a manifest alone can cause, and that exclude its unit from all figures."""
_MOST_FAILURES: Final = 20
_OF_A_NORMAL: Final = 1.4826
"""Standard deviations per median absolute deviation of a normal distribution."""


_Value = tuple[str, date, float | None]  # name, day, value


class Notice(NamedTuple):
    """One warning: its kind and text."""

    kind: str
    text: str


def night_warnings(
    warehouse: Warehouse, watch: WatchSettings, log_dates: Sequence[date]
) -> dict[date, list[Notice]]:
    """Compare published nights with the limits in `watch` and with earlier nights; return warnings by day."""
    days = sorted({day - timedelta(days=age) for day in log_dates for age in range(watch.days + 1)})
    fleet = {row["log_date"]: row for row in warehouse.rows(TABLES[FLEET_DAY], days).to_pylist()}
    host_days = warehouse.rows(TABLES[HOST_DAY], days).select(["host", "log_date", "worker_slowdown_max"])
    hosts: dict[date, list[_Value]] = defaultdict(list)
    for each in zip(*(column.to_pylist() for column in host_days.columns), strict=True):
        hosts[each[1]].append(each)
    job_slowdown = warehouse.rows(TABLES[JOB_SLOWDOWN], log_dates)
    slower = slower_of(job_slowdown.select([*UNIT_KEY, "status", "slower_than_usual"]).to_pylist())
    of_units = (
        slower_units(slower, largest_causes(warehouse, log_dates) if slower else {}),
        _of_rules(warehouse, log_dates),
        of_claims(warehouse.rows(TABLES[JOBS], log_dates), job_slowdown),
        _of_failures(job_slowdown),
        _first("owner_changed", owner_changes(warehouse, log_dates)),
        _first("more_training_than_hours", training_time_texts(warehouse, log_dates, job_slowdown)),
    )
    found = {}
    for day in log_dates:
        risen = risen_hosts(fleet, hosts, watch, day)
        slowed = slowed_by(warehouse, day, [name for name, *_ in risen]) if risen else {}
        of_hosts = [Notice("host_rose", text) for text in slow_host_texts(day, risen, slowed)]
        found[day] = [
            *of_night(fleet, watch, day),
            *of_hosts,
            *(each for of in of_units for each in of.get(day, ())),
        ]
    return found


def slower_of(units: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return units that are slower than on earlier days but not analysed. units : rows of job_slowdown."""
    return [
        row
        for row in units
        if row["status"] != Status.ANALYSED and (row["slower_than_usual"] or 0.0) >= SLOWER_THAN_BEFORE
    ]


def _first(kind: str, texts: Mapping[date, Sequence[str]]) -> dict[date, list[Notice]]:
    """Return a notice for each of a day's first _MOST_UNITS units, and one with the number of other units.

    texts : one text for each unit, by day
    """
    found = {}
    for day, of_day in texts.items():
        more = len(of_day) - _MOST_UNITS
        named = [*of_day[:_MOST_UNITS], *([f"{day}: and {plural(more, 'more unit')}"] if more > 0 else [])]
        found[day] = [Notice(kind, text) for text in named]
    return found


def slower_units(units: Iterable[Mapping[str, Any]], causes: Mapping[Unit, str]) -> dict[date, list[Notice]]:
    """Return notices about units that are slower than on earlier days, slowest first, with any known cause.

    units  : rows that slower_of returned
    causes : largest cause of each unit in which a cause holds
    """
    text = (
        "{log_date}: a step of job {job_id}, run {run_id}, takes {slower_than_usual:.2f} times as long as "
        "before, and {known} ({status})"
    )
    texts: dict[date, list[str]] = defaultdict(list)
    for row in sorted(units, key=lambda row: (-row["slower_than_usual"], row["job_id"], row["run_id"])):
        cause = causes.get(Unit.of(row))
        known = "no cause is known" if cause is None else f"its largest cause is {OF_CAUSE[cause].words}"
        texts[row["log_date"]].append(text.format(**row, known=known))
    return _first("slower_than_before", texts)


def _of_failures(job_slowdown: pa.Table) -> dict[date, list[Notice]]:
    """Return a notice with the reason for each of a day's first _MOST_FAILURES failed units."""
    found: defaultdict[date, list[Notice]] = defaultdict(list)
    failed = job_slowdown.filter(pc.equal(job_slowdown["status"], Status.FAILED))
    for row in failed.select([*UNIT_KEY, "status_detail"]).to_pylist():
        day, job_id, run_id, why = row.values()
        if len(found[day]) < _MOST_FAILURES:
            found[day].append(Notice("unit_failed", f"{day}: job {job_id}, run {run_id} failed: {why}"))
    return found


def of_night(fleet: Mapping[date, Mapping[str, Any]], watch: WatchSettings, log_date: date) -> list[Notice]:
    """Return notices about a night's coverage, and about its loss if that is above earlier nights' loss.

    fleet : row of fleet_day of each day
    """
    rows = _with_past(fleet, watch, log_date)
    found = _of_coverage(rows, watch, log_date)
    if len(rows) <= watch.minimum_days or log_date not in rows:
        return found
    text = "{}: {:.1%} of what was analysed is lost, usually {:.1%} (median of {})"
    losses = (("fleet", day, lost_fraction(row)) for day, row in rows.items())
    return found + [
        Notice("loss_rose", text.format(log_date, value, usual, plural(past, "day")))
        for _, value, usual, past in _risen(losses, watch, log_date)
    ]


def _with_past(
    fleet: Mapping[date, Mapping[str, Any]], watch: WatchSettings, log_date: date
) -> dict[date, Mapping[str, Any]]:
    """Return the rows of fleet_day for a night and for the days that the night is compared with."""
    days = [log_date - timedelta(days=age) for age in range(watch.days + 1)]
    return {day: fleet[day] for day in days if day in fleet}


def risen_hosts(
    fleet: Mapping[date, Mapping[str, Any]],
    hosts: Mapping[date, Sequence[_Value]],
    watch: WatchSettings,
    log_date: date,
) -> list[Risen]:
    """Return hosts much slower than on past days, slowest first; empty with fewer days than `watch` needs.

    hosts : (host, day, largest slowdown of a worker on the host), by day
    """
    rows = _with_past(fleet, watch, log_date)
    if len(rows) <= watch.minimum_days or log_date not in rows:
        return []
    return _risen((each for day in rows for each in hosts.get(day, ())), watch, log_date)


def lost_fraction(fleet: Mapping[str, Any]) -> float | None:
    """Return the lost fraction of a day's analysed GPU-hours, or of recorded time if no unit states hours."""
    for lost, of in (
        (fleet["lost_gpu_hours"], fleet["analysed_gpu_hours"]),
        (fleet["lost_s"], fleet["analysed_s"]),
    ):
        if of and lost is not None:
            return float(lost / of)
    return None


def coverage(fleet: Mapping[str, Any]) -> float | None:
    """Return the fraction of a day's units that were analysed; None on a day without units."""
    return fleet["analysed"] / fleet["jobs"] if fleet["jobs"] else None


def _of_coverage(
    rows: Mapping[date, Mapping[str, Any]], watch: WatchSettings, log_date: date
) -> list[Notice]:
    today, yesterday = (rows.get(day) for day in (log_date, log_date - timedelta(days=1)))
    covered = coverage(today) if today else None
    if today is None or covered is None:
        return [Notice("no_units", f"{log_date}: no units at all")]
    found = []
    of_all = f"{today['analysed']} of {plural(today['jobs'], 'unit')} analysed ({covered:.0%})"
    if covered < watch.minimum_coverage:
        least = f"less than watch.minimum_coverage, {watch.minimum_coverage:.0%}"
        found.append(Notice("coverage_low", f"{log_date}: {of_all}, {least}"))
    before = coverage(yesterday) if yesterday else None
    if before is not None and before - covered > watch.coverage_drop:
        most = f"a drop of more than watch.coverage_drop, {watch.coverage_drop:.0%}"
        found.append(Notice("coverage_fell", f"{log_date}: {of_all}, {before:.0%} the day before, {most}"))
    if today["failed"]:
        failed = (
            f"{plural(today['failed'], 'unit')} failed, by a defect of this software or for lack of memory: "
            "see failure_traceback in job_slowdown"
        )
        found.append(Notice("units_failed", f"{log_date}: {failed}"))
    return found


def of_claims(jobs: pa.Table, job_slowdown: pa.Table) -> dict[date, list[Notice]]:
    """Warn of refused claims, units that their manifest excludes, and log lines with times of other days.

    jobs, job_slowdown : rows of these tables
    """
    refused = jobs.filter(pc.is_valid(jobs["refused_claims"])).sort_by("job_id")
    left_out = job_slowdown.filter(pc.is_in(job_slowdown["status"], _BY_MANIFEST)).sort_by("job_id")
    # Timestamps in a wrong unit of time fall on other days, too, though the folder is right.
    is_elsewhere = pc.and_(
        pc.greater(job_slowdown["other_day_lines"], 0),
        pc.not_equal(job_slowdown["status"], Status.IMPLAUSIBLE_TIMES),
    )
    elsewhere = job_slowdown.filter(is_elsewhere).sort_by("job_id")
    found: dict[date, list[Notice]] = defaultdict(list)
    for kind, claimed, rows, column in (
        ("claim_refused", "states what is not believed", refused, "refused_claims"),
        ("left_out_by_manifest", "is excluded from the figures by its manifest", left_out, "status_detail"),
        ("lines_of_other_days", "may be in the folder of a wrong day", elsewhere, "other_day_lines"),
    ):
        texts: dict[date, list[str]] = defaultdict(list)
        for row in rows.select([*UNIT_KEY, column]).to_pylist():
            day, job_id, run_id, said = row.values()
            texts[day].append(f"{day}: job {job_id}, run {run_id} {claimed}: {_why(said)}")
        for day, notices in _first(kind, texts).items():
            found[day] += notices
    return found


def _why(said: str | list[str] | int) -> str:
    """Return a notice's reason as text: a status detail, refused claims, or a number of other days' lines."""
    if isinstance(said, int):
        return f"lines with times of other days: {said:,} (left out, unless all lines are)"
    return said if isinstance(said, str) else "; ".join(said)


def _of_rules(warehouse: Warehouse, log_dates: Sequence[date]) -> dict[date, list[Notice]]:
    """Return a notice for each rule of severity `warns` that rows of the published tables break."""
    watched = [table for table in TABLES.values() if any(e.severity == "warns" for e in table.expectations)]
    found: dict[date, list[Notice]] = {day: [] for day in log_dates}
    for broken in warnings([(table, warehouse.in_files(table, log_dates)) for table in watched]):
        for day in broken.log_dates:
            found[day].append(Notice(RULE_BROKEN, f"{day}: {broken}"))
    return found


def _risen(values: Iterable[_Value], watch: WatchSettings, log_date: date) -> list[Risen]:
    """Return a day's values that exceed their past median by more than `watch` allows, largest first."""
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
