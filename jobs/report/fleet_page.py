"""The fleet's page: rows of a period as compact columns, from which the browser sums whatever is filtered."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.report import templates, wording
from jobs.report.names import job_page_path
from jobs.report.rows import FleetTables, Publication
from jobs.report.templates import rounded
from schemas.vocabulary import (
    CAUSES,
    NOT_STATED,
    REPLAYED_STATUSES,
    STATUS_ANALYSED,
    STATUSES,
    STRAGGLING_SLOWDOWN,
)

MORE_THAN_LOST: Final = " (why this can be more than was lost, is told below)"

_LONGEST_DETAIL: Final = 200
"""Characters of a status_detail that the page shows."""


def fleet_page(tables: FleetTables, publication: Publication) -> bytes:
    """Return the page as HTML."""
    values = {
        "root": ".",
        "title": f"Fleet report, {publication.day}",
        "headline": headline(tables),
        "data": fleet_data(tables, publication),
        "publication": publication,
    }
    return templates.page("fleet.html", values)


def headline(tables: FleetTables) -> str:
    """GPU-hours lost and what fixes would return, of the whole period, in one sentence."""
    units = tables.units
    if not units.num_rows:
        return "There are no such jobs in this period."
    analysed = units.filter(pc.equal(units["status"], STATUS_ANALYSED))
    lost, of = (pc.sum(analysed[name]).as_py() for name in ("wasted_gpu_hours", "gpu_hours"))
    returned = pc.sum(tables.parts["attributed_gpu_hours"]).as_py()
    if not of:
        return "No analysed job states its GPU-hours: what stragglers cost cannot be said in hours."
    more = MORE_THAN_LOST if (returned or 0.0) > lost else ""
    return (
        f"Stragglers cost {wording.hours(lost)} of {wording.hours(of)} analysed GPU-hours "
        f"({wording.percent(lost / of)}); fixing every cause found would return "
        f"{wording.hours(returned or 0.0)}{more}."
    )


def fleet_data(tables: FleetTables, publication: Publication) -> dict[str, Any]:
    """All that the page's script needs, in columns; positions stand for names."""
    units, parts = tables.units, tables.parts
    runs = _Codes(zip(units["job_id"].to_pylist(), units["run_id"].to_pylist(), strict=True))
    days = _Codes(value.isoformat() for value in units["log_date"].to_pylist())
    teams, clusters = (
        _Codes(value or NOT_STATED for value in units[name].to_pylist()) for name in ("team", "cluster")
    )
    place = {key: number for number, key in enumerate(zip(days.codes, runs.codes, strict=True))}
    hosts = _Codes(value for value in parts["host"].to_pylist() if value is not None)
    pages = _pages(runs, days, publication)
    return {
        "day": publication.day.isoformat(),
        "first_day": publication.first_day.isoformat(),
        "warehouse": publication.warehouse,
        "runs": runs.names,
        "days": days.names,
        "teams": teams.names,
        "clusters": clusters.names,
        "hosts": hosts.names,
        "statuses": [[name, wording.STATUS_WORDS[name], name in REPLAYED_STATUSES] for name in STATUSES],
        "causes": [[name, *wording.CAUSE_WORDS[name][:2]] for name in CAUSES],
        "straggling_slowdown": STRAGGLING_SLOWDOWN,
        "more_than_lost": MORE_THAN_LOST,
        "page_of_run": {run: name for (_, run), name in pages.items()},
        "units": {
            "day": days.codes,
            "run": runs.codes,
            "team": teams.codes,
            "cluster": clusters.codes,
            "status": [STATUSES.index(value) for value in units["status"].to_pylist()],
            "world": units["world_size"].to_pylist(),
            "hours": rounded(units["gpu_hours"].to_pylist()),
            "wasted": rounded(units["wasted_gpu_hours"].to_pylist()),
            "simulated": rounded(units["simulated_total_s"].to_pylist()),
            "ideal": rounded(units["ideal_total_s"].to_pylist()),
            "detail": [(value or "")[:_LONGEST_DETAIL] for value in units["status_detail"].to_pylist()],
            "paged": [number for key, number in place.items() if key in pages],
        },
        "parts": _parts(parts, place, runs, days, hosts),
        "op_types": _op_types(tables.op_types),
        "host_record": _host_record(tables.hosts),
    }


class _Codes:
    """Distinct values in the order of their first appearance, and the position of each value."""

    def __init__(self, values: Iterable[Any]) -> None:
        position: dict[Any, int] = {}
        self.codes = [position.setdefault(value, len(position)) for value in values]
        self.position: Mapping[Any, int] = position
        self.names = list(position)


def _pages(runs: _Codes, days: _Codes, publication: Publication) -> dict[tuple[int, int], str]:
    """(day, run) -> file name, of units that have a page."""
    have = set(publication.pages)
    found = {}
    for day, run in zip(days.codes, runs.codes, strict=True):
        path = job_page_path(days.names[day], *runs.names[run])
        if path in have:
            found[day, run] = path.rsplit("/", 1)[1]
    return found


def _parts(
    parts: pa.Table, place: Mapping[tuple[int, int], int], runs: _Codes, days: _Codes, hosts: _Codes
) -> dict[str, Sequence[object]]:
    keys = zip(*(parts[name].to_pylist() for name in ("log_date", "job_id", "run_id")), strict=True)
    return {
        "unit": [place[days.position[day.isoformat()], runs.position[job, run]] for day, job, run in keys],
        "cause": [CAUSES.index(value) for value in parts["cause"].to_pylist()],
        "host": [-1 if value is None else hosts.position[value] for value in parts["host"].to_pylist()],
        "flagged": [int(value) for value in parts["is_flagged"].to_pylist()],
        "saved": rounded(parts["time_saved_fraction"].to_pylist(), 4),
        "attributed": rounded(parts["attributed_gpu_hours"].to_pylist()),
        "recoverable": rounded(parts["recoverable_gpu_hours"].to_pylist()),
    }


def _op_types(op_types: pa.Table) -> dict[str, Sequence[object]]:
    days = [value.isoformat() for value in op_types["log_date"].to_pylist()]
    return {
        "day": days,
        "op_type": op_types["op_type"].to_pylist(),
        "jobs": op_types["jobs"].to_pylist(),
        "hours": rounded(op_types["gpu_hours"].to_pylist()),
        "wasted": rounded(op_types["wasted_gpu_hours"].to_pylist()),
    }


def _host_record(hosts: pa.Table) -> list[dict[str, object]]:
    """Record of each slow host over the whole period."""
    names = ("host", "jobs", "jobs_slow", "days_slow", "pattern", "is_beyond_chance")
    record = []
    for row in hosts.to_pylist():
        days = {name: row[name].isoformat() for name in ("first_slow", "last_slow")}
        expected, p_value = rounded([row["expected_jobs_slow"], row["p_value"]], 3)
        record.append({name: row[name] for name in names} | days | {"expected": expected, "p_value": p_value})
    return record
