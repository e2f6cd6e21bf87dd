"""The fleet's page, rendered from the rows of read.py; in the browser, page/fleet.js filters and sums rows.

At its top are three tiles: what stragglers cost, what to fix first, and how much the figures cover.
"""

from collections.abc import Mapping, Sequence
from textwrap import shorten
from typing import Any, Final

import pyarrow as pa

from jobs.report import links, loss, templates, wording
from jobs.report.links import job_page_path
from jobs.report.loss import waterfall
from jobs.report.news_words import drain_rows, news_texts, outcome_texts, step_change_texts
from jobs.report.rows import FleetTables, Publication
from jobs.warehouse.reader import keys_of
from schemas.causes import OF_CAUSE
from schemas.vocabulary import CAUSE_UNEXPLAINED, NOT_STATED, STRAGGLING_SLOWDOWN, UNIT_KEY, Status

_LONGEST_DETAIL: Final = 200
"""Most characters of a status_detail that the page shows."""
_MOST_NAMED: Final = 8
"""Most jobs that the comparison of weeks names as newly or no longer straggling."""
_WEEK: Final = 7
_SPARKLINE: Final = (140.0, 36.0)
"""Width and height of the chart of losses by day, in units of its SVG."""
_MOST_DRAINS: Final = 10
"""Most hosts in the table of drains."""
_MOST_JOBS: Final = 4
"""Most jobs that the tile on the first fix names."""


def fleet_page(tables: FleetTables, publication: Publication) -> bytes:
    """Render the fleet's page as HTML."""
    measure = loss.measure_of(tables)
    values = {
        "root": ".",
        "title": f"Fleet report, {publication.period}",
        "tiles": tiles(tables, publication),
        "weeks": _weeks(tables),
        "chain": waterfall(tables.waterfall.to_pylist(), measure.amounts),
        "unit": measure.unit,
        "has_outcomes": bool(tables.outcomes.num_rows),
        "news": [
            *news_texts(tables.news.to_pylist()),
            *step_change_texts(tables.changes.to_pylist()),
            *outcome_texts(tables.outcomes.to_pylist()),
        ],
        "has_changes": bool(tables.changes.num_rows),
        "drain": [
            {**row, "page": publication.hosts.get(row["host"])}
            for row in drain_rows(tables.drain.slice(0, _MOST_DRAINS).to_pylist())
        ],
        "coverage": tables.coverage.to_pylist()[::-1],
        "distribution": tables.distribution.to_pylist()[0],
        "straggling_slowdown": STRAGGLING_SLOWDOWN,
        "data": fleet_data(tables, publication),
        "publication": publication,
    }
    return templates.page("fleet.html", values)


def fleet_data(tables: FleetTables, publication: Publication) -> dict[str, Any]:
    """Return the data that the page embeds as JSON for its script."""
    measure = loss.measure_of(tables)
    places = {unit: place for place, unit in enumerate(keys_of(tables.units))}
    unit = pa.array([places[each] for each in keys_of(tables.parts)], pa.int64())
    parts = {name: tables.parts[name] for name in ("cause", "host", "is_flagged")}
    parts |= {
        "unit": unit,
        "lost": tables.parts[measure.lost],
        "half": tables.parts[f"{measure.lost}_half_width"],
        "shared": tables.parts[f"{measure.lost}_shared"],
        "freedom": tables.parts["interval_freedom"],
    }
    op_types = tables.op_types.filter(tables.op_types["analysed_gpu_hours_share"].is_valid())
    waste = pa.table({"op_type": op_types["op_type"], "value": op_types["analysed_gpu_hours_share"]})
    # The latest day of each run, for the path of the run's job page and for its status.
    rows = tables.units.select([*UNIT_KEY, "status", "status_detail"]).to_pylist()
    latest = {(row["job_id"], row["run_id"]): row for row in rows}
    runs = tables.runs.filter(tables.runs["is_analysed"]).select(
        ["job_id", "run_id", "slowdown", "waste_fraction", "world_size"]
    )
    keys = zip(runs["job_id"].to_pylist(), runs["run_id"].to_pylist(), strict=True)
    pages = [publication.page_of(job_page_path(latest[key]["log_date"], *key)) for key in keys]
    return {
        "day": publication.day.isoformat(),
        "first_day": publication.first_day.isoformat(),
        "report_job": links.command("job-page", publication.warehouse),
        "measure": {"unit": measure.unit},
        "causes": {name: {"title": each.title, "advice": each.advice} for name, each in OF_CAUSE.items()},
        "host_pages": dict(publication.hosts),
        "units": templates.columns(_units(tables.units, publication, measure)),
        "parts": templates.columns(pa.table(parts)),
        "runs": templates.columns(runs.append_column("page", pa.array(pages, pa.string()))),
        "left_out": _left_out(tables.runs, latest),
        "slower": _slower(tables.slower, publication),
        "op_types": templates.columns(waste),
        "hosts": [
            {**wording.host_record(row), "page": publication.hosts.get(row["host"])}
            for row in tables.hosts.to_pylist()
        ],
    }


def _units(units: pa.Table, publication: Publication, measure: loss.Measure) -> pa.Table:
    """Return the units' rows for the script: figures to be summed, and paths of the job pages that exist."""
    keys = keys_of(units)
    texts = {
        "page": [publication.page_of(job_page_path(*unit)) for unit in keys],
        "run": [links.of_run(unit) for unit in keys],
        **{name: [each or NOT_STATED for each in units[name].to_pylist()] for name in ("team", "cluster")},
    }
    key = {name: units[name] for name in UNIT_KEY}
    figures: dict[str, Any] = {"lost": units[measure.lost], "of": units[measure.of]}
    figures["is_counted"] = units["analysed_s"].is_valid()  # also units that do not state GPU-hours
    return pa.table(key | figures | {name: pa.array(each, pa.string()) for name, each in texts.items()})


def _left_out(runs: pa.Table, latest: Mapping[tuple[str, str], Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the runs without an analysed day, with the status of their latest day."""
    return [
        {
            "job_id": row["job_id"],
            "run_id": row["run_id"],
            "gpu_hours": row["gpu_hours"],
            "why": Status(row["status"]).words,
            "facts": shorten(
                latest[row["job_id"], row["run_id"]]["status_detail"] or "", _LONGEST_DETAIL, placeholder=" …"
            ),
        }
        for row in runs.to_pylist()
        if row["status"] != Status.ANALYSED
    ]


def _slower(slower: pa.Table, publication: Publication) -> list[dict[str, Any]]:
    """Return the units that were not analysed but are slower than on earlier days, slowest first."""
    return [
        {
            "log_date": unit.log_date.isoformat(),
            "job_id": unit.job_id,
            "run_id": unit.run_id,
            "page": publication.page_of(job_page_path(*unit)),
            "times": row["slower_than_usual"],
            "step_s": row["actual_step_s"],
            "usual_s": row["usual_step_s"],
            "gpu_hours": row["slower_gpu_hours"],
            "cause": OF_CAUSE[row["cause"]].words if row["cause"] else "not known",
            "why": Status(row["status"]).words,
        }
        for unit, row in zip(keys_of(slower), slower.to_pylist(), strict=True)
    ]


def _weeks(tables: FleetTables) -> dict[str, Any]:
    """Return the figures of the last seven days and of the seven before; empty if the latter are unknown."""
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
        "newly": wording.listed(sorted(slow - was_slow), _MOST_NAMED) or "none",
        "no_longer": wording.listed(gone, _MOST_NAMED) or "none",
    }


def headline(tables: FleetTables, publication: Publication) -> str:
    """Return a sentence on the loss over the whole period, or on why the loss is not known."""
    return f"{publication.period}: {_of_period(tables)}"


def _of_period(tables: FleetTables) -> str:
    (totals,) = tables.totals.to_pylist()
    if not totals["jobs"]:
        return "No jobs in this period."
    if not totals["analysed"]:
        return f"None of {wording.counted(totals['jobs'], 'run')} could be analysed."
    measure = loss.measure_of(tables)
    share = wording.percent(loss.share(totals, measure))
    if totals[measure.lost] is None:
        return "What stragglers cost is not known, because an earlier version simulated these days."
    if measure is loss.TIME:
        return f"Stragglers cost {share} of the time; no analysed run states its GPU-hours."
    lost, of = wording.hours(totals[measure.lost]), wording.hours(totals[measure.of])
    return f"Stragglers cost {lost} of {of} analysed GPU-hours ({share})."


def tiles(tables: FleetTables, publication: Publication) -> dict[str, Any]:
    """Return the contents of the page's three tiles, by their names in fleet.html."""
    (totals,) = tables.totals.to_pylist()
    measure = loss.measure_of(tables)
    days = tables.days.to_pylist()[-_WEEK:]
    analysed = wording.counted(totals["analysed"], "analysed run")
    weeks = {week["weeks_ago"]: week["lost_share"] for week in tables.weeks.to_pylist()}
    change = ""
    if weeks.get(0) is not None:
        before = "; no figures of the seven before"
        if weeks.get(1) is not None:
            before = f", {wording.percent(weeks[1])} in the seven before"
        change = f"{wording.percent(weeks[0])} in the last seven days{before}"
    return {
        "lost": loss.amount(totals[measure.lost], totals[measure.of], measure),
        "of": f"{wording.percent(loss.share(totals, measure))} of {wording.hours(totals[measure.of])} "
        "analysed GPU-hours"
        if measure is loss.HOURS
        else "No analysed run states its GPU-hours.",
        "sparkline": _sparkline([loss.share(day, measure) for day in days]),
        "days": f"{days[0]['log_date']} to {days[-1]['log_date']}" if days else "",
        "change": change,
        "waste": wording.percent(totals["wasted_gpu_hours_share"]) if measure is loss.HOURS else "",
        "fix": _first(tables, publication, measure),
        "covered": f"{wording.number(totals['analysed'])} of {wording.counted(totals['jobs'], 'run')}",
        "covered_hours": wording.percent(totals["analysed_gpu_hours_share"]) if measure is loss.HOURS else "",
        "straggling": f"{wording.number(totals['straggling'])} of {analysed}",
        "analysed": totals["analysed"],
        "unknown": tables.units.filter(tables.units["is_analysed"])["lost_fraction"].null_count,
        "left_out": totals["jobs"] - totals["analysed"],
        "without_hours": tables.runs.filter(tables.runs["is_analysed"])["gpu_hours"].null_count
        if measure is loss.HOURS
        else 0,
    }


def _first(tables: FleetTables, publication: Publication, measure: loss.Measure) -> dict[str, Any] | None:
    """Return the contents of the tile on the fix that saves most; None if no cause was found."""
    (totals,) = tables.totals.to_pylist()
    rows = tables.fixes.slice(0, 1).to_pylist()
    if not rows or rows[0]["cause"] == CAUSE_UNEXPLAINED:
        return None
    row = rows[0]
    cause = OF_CAUSE[row["cause"]]
    verdicts = {host["host"]: wording.recurrence(host) for host in tables.hosts.to_pylist()}
    return {
        "title": cause.title,
        "advice": cause.advice,
        "host": row["host"],
        "page": publication.hosts.get(row["host"]),
        "jobs": wording.listed(row["job_ids"], _MOST_JOBS) or "none",
        "verdict": verdicts.get(row["host"], ""),
        "explained_by": row["explained_by"],
        "last_day": row["last_day"],
        "without": row["days_without"] and wording.counted(row["days_without"], "day"),
        "lost": loss.amount(row[measure.lost], totals[measure.of], measure),
    }


def _sparkline(shares: Sequence[float | None]) -> dict[str, Any] | None:
    """Return a line over days as points of an SVG, and in words; None with fewer than two known days.

    shares : lost fraction of each day; None if unknown. The axis begins at 0
    """
    known = [(place, share) for place, share in enumerate(shares) if share is not None]
    if len(known) < 2:
        return None
    width, height = _SPARKLINE
    most = max(share for _, share in known) or 1.0
    points = [
        (4 + place * (width - 8) / (len(shares) - 1), height - 4 - share / most * (height - 8))
        for place, share in known
    ]
    return {
        "width": width,
        "height": height,
        "points": " ".join(f"{x:.1f},{y:.1f}" for x, y in points),
        "last": points[-1],
        "text": "Share lost by day: " + ", ".join(wording.percent(share) for _, share in known),
    }
