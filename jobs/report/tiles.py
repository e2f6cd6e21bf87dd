"""The first look at the fleet: what it costs, what to fix first, and what the figures cover."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from jobs.report import loss, wording
from jobs.report.rows import FleetTables, Publication
from schemas.vocabulary import CAUSE_UNEXPLAINED

_WEEK: Final = 7
_SPARKLINE: Final = (140.0, 36.0)
"""Its width and height, in the units of the drawing."""
_MOST_NAMED: Final = 4


def headline(tables: FleetTables, publication: Publication) -> str:
    """What the whole period lost, in one sentence."""
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
        return "What stragglers cost is not known: an earlier version simulated these days."
    if measure is loss.TIME:
        return f"Stragglers cost {share} of the time; no analysed run states its GPU-hours."
    lost, of = wording.hours(totals[measure.lost]), wording.hours(totals[measure.of])
    return f"Stragglers cost {lost} of {of} analysed GPU-hours ({share})."


def tiles(tables: FleetTables, publication: Publication) -> dict[str, Any]:
    """What the three tiles show."""
    (totals,) = tables.totals.to_pylist()
    measure = loss.measure_of(tables)
    days = tables.days.to_pylist()[-_WEEK:]
    analysed = wording.counted(totals["analysed"], "analysed run")
    return {
        "lost": loss.amount(totals[measure.lost], totals[measure.of], measure),
        "of": f"{wording.percent(loss.share(totals, measure))} of {wording.hours(totals[measure.of])} "
        "analysed GPU-hours"
        if measure is loss.HOURS
        else "No analysed run states its GPU-hours.",
        "sparkline": _sparkline([loss.share(day, measure) for day in days]),
        "days": f"{days[0]['log_date']} to {days[-1]['log_date']}" if days else "",
        "change": _change(tables.weeks.to_pylist()),
        "waste": f"{wording.hours(totals['wasted_gpu_hours'])} GPU-hours "
        f"({wording.percent(totals['wasted_gpu_hours_share'])})"
        if measure is loss.HOURS
        else "",
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
    """The fix that returns most; None where no cause holds."""
    (totals,) = tables.totals.to_pylist()
    rows = tables.fixes.slice(0, 1).to_pylist()
    if not rows or rows[0]["cause"] == CAUSE_UNEXPLAINED:
        return None
    row = rows[0]
    words = wording.CAUSE_WORDS[row["cause"]]
    jobs = row["job_ids"]
    more = [f"{len(jobs) - _MOST_NAMED} more"] if len(jobs) > _MOST_NAMED else []
    return {
        "title": words.title,
        "fix": words.fix,
        "host": row["host"],
        "page": publication.hosts.get(row["host"]),
        "jobs": ", ".join([*jobs[:_MOST_NAMED], *more]),
        "lost": loss.amount(row[measure.lost], totals[measure.of], measure),
    }


def _change(weeks: Sequence[Mapping[str, Any]]) -> str:
    """Share lost in the last seven days, beside the seven before."""
    shares = {week["weeks_ago"]: week["lost_share"] for week in weeks}
    if shares.get(0) is None:
        return ""
    now = wording.percent(shares[0])
    if shares.get(1) is None:
        return f"{now} in the last seven days; no figures of the seven before"
    return f"{now} in the last seven days, {wording.percent(shares[1])} in the seven before"


def _sparkline(shares: Sequence[float | None]) -> dict[str, Any] | None:
    """Points of a line over days, from 0 up; None of fewer than two days."""
    known = [(place, share) for place, share in enumerate(shares) if share is not None]
    if len(known) < 2:  # a line has two ends
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
