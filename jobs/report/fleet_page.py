"""The fleet's page: figures of a period, and rows of which the browser sums what filters leave."""

from typing import Any, Final

import pyarrow as pa

from jobs.report import links, loss, templates, wording
from jobs.report.links import job_page_path
from jobs.report.rows import FleetTables, Publication
from jobs.report.tiles import tiles
from schemas.unit import Unit
from schemas.vocabulary import NOT_STATED, STATUS_ANALYSED, STRAGGLING_SLOWDOWN, UNIT_KEY

_LONGEST_DETAIL: Final = 200
"""Characters of a status_detail that the page shows."""
_MOST_NAMED: Final = 8
"""Jobs that the comparison of weeks names."""


def fleet_page(tables: FleetTables, publication: Publication) -> bytes:
    """Return the page as HTML."""
    values = {
        "root": ".",
        "title": f"Fleet report, {publication.period}",
        "tiles": tiles(tables, publication),
        "weeks": _weeks(tables),
        "coverage": tables.coverage.to_pylist()[::-1],
        "distribution": tables.distribution.to_pylist()[0],
        "straggling_slowdown": STRAGGLING_SLOWDOWN,
        "data": fleet_data(tables, publication),
        "publication": publication,
    }
    return templates.page("fleet.html", values)


def fleet_data(tables: FleetTables, publication: Publication) -> dict[str, Any]:
    """All that the page's script needs."""
    measure = loss.measure_of(tables)
    places = {unit: place for place, unit in enumerate(_keys(tables.units))}
    unit = pa.array([places[each] for each in _keys(tables.parts)], pa.int64())
    parts = {name: tables.parts[name] for name in ("cause", "host", "is_flagged")}
    return {
        "day": publication.day.isoformat(),
        "first_day": publication.first_day.isoformat(),
        "report_job": links.command("job-page", publication.warehouse),
        "measure": {"unit": measure.unit},
        "causes": {
            name: {"title": words.title, "fix": words.fix} for name, words in wording.CAUSE_WORDS.items()
        },
        "host_pages": dict(publication.hosts),
        "units": templates.columns(_units(tables.units, publication, measure)),
        "parts": templates.columns(pa.table({**parts, "unit": unit, "lost": tables.parts[measure.lost]})),
        "runs": templates.columns(_runs(tables.runs, publication, _latest(tables.units))),
        "left_out": _left_out(tables),
        "op_types": templates.columns(_op_types(tables.op_types)),
        "hosts": [
            {**wording.host_record(row), "page": publication.hosts.get(row["host"])}
            for row in tables.hosts.to_pylist()
        ],
    }


def _units(units: pa.Table, publication: Publication, measure: loss.Measure) -> pa.Table:
    """Rows of the page: what may be summed of a unit, and the page of the unit, if any."""
    keys = _keys(units)
    texts = {
        "page": [publication.page_of(job_page_path(*unit)) for unit in keys],
        "run": [links.of_run(unit) for unit in keys],
        **{name: [each or NOT_STATED for each in units[name].to_pylist()] for name in ("team", "cluster")},
    }
    key = {name: units[name] for name in UNIT_KEY}
    figures = {"lost": units[measure.lost], "of": units[measure.of]}
    return pa.table(key | figures | {name: pa.array(each, pa.string()) for name, each in texts.items()})


def _runs(
    runs: pa.Table, publication: Publication, latest: dict[tuple[str, str], dict[str, Any]]
) -> pa.Table:
    """Analysed runs, each with the page of its latest day."""
    analysed = runs.filter(runs["is_analysed"]).select(
        ["job_id", "run_id", "slowdown", "waste_fraction", "world_size"]
    )
    keys = zip(analysed["job_id"].to_pylist(), analysed["run_id"].to_pylist(), strict=True)
    pages = [publication.page_of(job_page_path(latest[key]["log_date"], *key)) for key in keys]
    return analysed.append_column("page", pa.array(pages, pa.string()))


def _latest(units: pa.Table) -> dict[tuple[str, str], dict[str, Any]]:
    """Each run's latest unit."""
    rows = units.select([*UNIT_KEY, "status", "status_detail"]).to_pylist()
    return {(row["job_id"], row["run_id"]): row for row in rows}


def _left_out(tables: FleetTables) -> list[dict[str, Any]]:
    """Runs without an analysed day, and what their latest one lacked."""
    latest = _latest(tables.units)
    return [
        {
            "job_id": row["job_id"],
            "run_id": row["run_id"],
            "gpu_hours": row["gpu_hours"],
            "why": wording.STATUS_WORDS[row["status"]],
            "facts": (latest[row["job_id"], row["run_id"]]["status_detail"] or "")[:_LONGEST_DETAIL],
        }
        for row in tables.runs.to_pylist()
        if row["status"] != STATUS_ANALYSED
    ]


def _op_types(op_types: pa.Table) -> pa.Table:
    stated = op_types.filter(op_types["wasted_gpu_hours_share"].is_valid())
    return pa.table({"op_type": stated["op_type"], "value": stated["wasted_gpu_hours_share"]})


def _weeks(tables: FleetTables) -> dict[str, Any]:
    """The last seven days beside the seven before, and whose jobs straggle anew or no longer."""
    weeks = {week["weeks_ago"]: week for week in tables.weeks.to_pylist()}
    if len(weeks) < 2:  # nothing to compare with
        return {}
    now, before = weeks[0], weeks[1]
    slow, was_slow = (set(week["straggling_jobs"] or ()) for week in (now, before))
    gone = sorted(was_slow.intersection(now["analysed_jobs"] or ()) - slow)
    shown = (
        ("job-days", "job_days", wording.number),
        ("analysed job-days", "analysed_job_days", wording.number),
        ("straggling job-days", "straggling_job_days", wording.number),
        ("GPU-hours lost", "lost_gpu_hours", wording.hours),
        ("share lost of what was analysed", "lost_share", wording.percent),
    )
    return {
        "rows": [(name, as_text(now[key]), as_text(before[key])) for name, key, as_text in shown],
        "newly": _listed(sorted(slow - was_slow)),
        "no_longer": _listed(gone),
    }


def _listed(names: list[str]) -> str:
    more = [f"{len(names) - _MOST_NAMED} more"] if len(names) > _MOST_NAMED else []
    return ", ".join([*names[:_MOST_NAMED], *more]) or "none"


def _keys(table: pa.Table) -> list[Unit]:
    return [Unit(*key) for key in zip(*(table[name].to_pylist() for name in UNIT_KEY), strict=True)]
