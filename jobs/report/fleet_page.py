"""The fleet's page: rows of a period by columns, from which the browser sums whatever is filtered."""

from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from jobs.report import commands, templates, wording
from jobs.report.names import job_page_path
from jobs.report.rows import FleetTables, Publication
from schemas.sql_files import FUNNEL
from schemas.unit import Unit
from schemas.vocabulary import (
    CAUSE_UNEXPLAINED,
    NOT_STATED,
    STATUS_ANALYSED,
    STRAGGLING_SLOWDOWN,
    UNIT_KEY,
)

HEADLINES: Final = {
    "no_jobs": "There are no such jobs in this period.",
    "no_hours": "No analysed job states its GPU-hours: what stragglers cost cannot be said in hours.",
    "lost": (
        "Stragglers cost {lost} of {analysed} analysed GPU-hours ({share}); fixing every cause found would "
        "return {returned}{more}."
    ),
    "more": " (why this can be more than was lost, is told below)",
}
"""Sentences of which the page's script makes the headline of what is filtered."""

_LONGEST_DETAIL: Final = 200
"""Characters of a status_detail that the page shows."""
_SUMMED: Final = ("gpu_hours", "wasted_gpu_hours", "simulated_total_s", "ideal_total_s")
_OF_PARTS: Final = (
    *("cause", "host", "is_flagged"),
    *("time_saved_fraction", "attributed_gpu_hours", "recoverable_gpu_hours"),
)
_OF_HOSTS: Final = (
    *("host", "jobs", "jobs_slow", "expected_jobs_slow", "p_value", "is_beyond_chance", "pattern"),
    *("days_slow", "first_slow", "last_slow"),
)


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
        return HEADLINES["no_jobs"]
    analysed = units.filter(pc.equal(units["status"], STATUS_ANALYSED))
    lost, of = (pc.sum(analysed[name]).as_py() for name in ("wasted_gpu_hours", "gpu_hours"))
    returned = pc.sum(tables.parts["attributed_gpu_hours"]).as_py() or 0.0
    if not of:
        return HEADLINES["no_hours"]
    return HEADLINES["lost"].format(
        lost=wording.hours(lost),
        analysed=wording.hours(of),
        share=wording.percent(lost / of),
        returned=wording.hours(returned),
        more=HEADLINES["more"] if returned > lost else "",
    )


def fleet_data(tables: FleetTables, publication: Publication) -> dict[str, Any]:
    """All that the page's script needs."""
    places = {unit: place for place, unit in enumerate(_keys(tables.units))}
    parts = tables.parts.select(_OF_PARTS)
    return {
        "day": publication.day.isoformat(),
        "first_day": publication.first_day.isoformat(),
        "report_job": commands.command("report_job", publication.warehouse),
        "statuses": {name: wording.STATUS_WORDS[name] for name in FUNNEL},
        "causes": {
            name: {"title": words.title, "fix": words.fix}
            for name, words in wording.CAUSE_WORDS.items()
            if name != CAUSE_UNEXPLAINED
        },
        "straggling_slowdown": STRAGGLING_SLOWDOWN,
        "headlines": HEADLINES,
        "units": templates.columns(_units(tables.units, publication)),
        "parts": templates.columns(
            parts.append_column("unit", pa.array([places[unit] for unit in _keys(tables.parts)], pa.int64()))
        ),
        "op_types": templates.columns(tables.op_types),
        "hosts": templates.columns(tables.hosts.select(_OF_HOSTS)),
    }


def _units(units: pa.Table, publication: Publication) -> pa.Table:
    """Rows of the page; `run` names a run as a command does, `page` leads to the page of the unit, if any."""
    keys = _keys(units)
    paths = [job_page_path(*unit) for unit in keys]
    own = f"{publication.day}/"
    pages = [path.removeprefix(own) if path.startswith(own) else f"../{path}" for path in paths]
    have = set(publication.pages)
    texts = {
        "run": [commands.of_run(unit) for unit in keys],
        "page": [page if path in have else None for path, page in zip(paths, pages, strict=True)],
        **{name: [each or NOT_STATED for each in units[name].to_pylist()] for name in ("team", "cluster")},
    }
    details = pc.utf8_slice_codeunits(units["status_detail"], 0, _LONGEST_DETAIL)
    kept = {name: units[name] for name in (*UNIT_KEY, "status", "world_size", *_SUMMED)}
    return pa.table(
        kept | {"detail": details} | {name: pa.array(each, pa.string()) for name, each in texts.items()}
    )


def _keys(table: pa.Table) -> list[Unit]:
    return [Unit(*key) for key in zip(*(table[name].to_pylist() for name in UNIT_KEY), strict=True)]
