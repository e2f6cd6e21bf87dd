"""The page of one unit: losses, causes, slow workers and hosts, how far to trust them, commands to go on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

import numpy as np

from jobs.report import cause_words, loss, templates, wording
from jobs.report.cause_words import latest_change
from jobs.report.crop import crop_picture
from jobs.report.culprit_words import steps_at_onset
from jobs.report.job_charts import by_step, charts, name_pattern, power_section
from jobs.report.links import fix_command, job_page_path, timeline_command
from jobs.report.loss import waterfall
from jobs.report.rows import FleetTables, Publication, Row, UnitTables
from jobs.report.sections import SECTIONS
from schemas.unit import Unit
from schemas.vocabulary import ALL_CAUSES, CAUSE_UNEXPLAINED, NOT_STATED, Status

_LEAST_WASTE: Final = 0.01
"""Least waste of which parts are shown, because parts of a smaller waste are mostly noise."""
_SLOWEST: Final = 10
"""Most workers whose hosts are listed."""


@dataclass(frozen=True)
class Links:
    """Links of a job's page, relative to its folder; empty or None for pages that do not exist.

    fleet, quality : the day's fleet page, and the data docs.
    dictionary     : the data dictionary.
    days           : other days of the run: date, what was lost in words, and the job's page of that day.
    hosts          : page of a host, by host.
    """

    fleet: str = ""
    quality: str = ""
    dictionary: str = ""
    days: Sequence[tuple[date, str, str | None]] = ()
    hosts: Mapping[str, str] = field(default_factory=dict)


def links_of(
    unit: Unit, fleet: FleetTables, publication: Publication, *, has_fleet_page: bool = True
) -> Links:
    """Return the links of a unit's page, to pages of the same publication and of earlier ones.

    has_fleet_page : whether the publication has the fleet's page, which a single job page may lack
    """
    days = []
    for row in fleet.units.to_pylist():
        if (row["job_id"], row["run_id"]) == unit[1:] and row["log_date"] != unit.log_date:
            page = publication.page_of(job_page_path(row["log_date"], *unit[1:]))
            lost = loss.of_unit(row["lost_fraction"], row["lost_gpu_hours"])
            text = f"{lost} lost" if row["is_analysed"] else Status(row["status"]).words
            days.append((row["log_date"], text, f"../{page}" if page else None))
    return Links(
        fleet="../index.html" if has_fleet_page else "",
        quality=f"../{publication.quality}" if publication.quality else "",
        dictionary=f"../{templates.DICTIONARY_NAME}",
        days=days,
        hosts={host: f"../{page}" for host, page in publication.hosts.items()},
    )


def job_page(tables: UnitTables, warehouse: str | None = "", links: Links | None = None) -> bytes:
    """Render the page as HTML.

    warehouse : the warehouse as the page's commands name it, empty for the default warehouse; None for a run
        without a warehouse, whose page shows no commands.
    """
    unit = tables.key
    job, status = tables.job, Status(tables.job["status"])
    about: list[tuple[str, object]] = [
        (name.replace("_", " "), job[name])
        for name in ("team", "cluster", "model", "framework", "gpu_type")
        if job[name]
    ]
    about += [("GPUs:", f"{job['world_size']:,}")] if job["world_size"] else []
    again = "analyse them again" if warehouse is None else "ingest the day again"
    values: dict[str, Any] = {
        "root": "..",
        "title": f"{unit.job_id}, {unit.log_date}",
        "unit": unit,
        "links": links or Links(),
        "about": about,
        "headline": loss.headline(job),
        "is_analysed": status == Status.ANALYSED,
        "status_advice": status.advice.format(again=again),
        "rejects": tables.rejects,
        "traceback": job["failure_traceback"],
        "figures": [],
        "timeline": "",
    }
    if tables.workers:
        values |= _replayed(tables, warehouse, values["links"])
    return templates.page("job.html", values)


def _replayed(tables: UnitTables, warehouse: str | None, links: Links) -> dict[str, Any]:
    """Return the contents of the page that only a replayed unit has, by their names in job.html."""
    slowdown = by_step(tables.workers)
    if slowdown is None:  # slowdowns by step were not stored
        slowdown = np.array([[row["slowdown"]] for row in tables.workers])
    stages = max(row["pp_rank"] for row in tables.workers) + 1
    measure = loss.TIME if tables.job["gpu_hours"] is None else loss.HOURS
    step_map_text, drawn = charts(tables)
    present = sorted(
        (row for row in tables.causes if row["is_cause"] and row["cause"] != CAUSE_UNEXPLAINED), key=_saved
    )
    others = [row for row in tables.causes if not row["is_cause"] and row["cause"] != CAUSE_UNEXPLAINED]
    slowest = max(tables.steps, key=lambda row: (row["slowdown"], -row["step"]))["step"]
    fixes = timeline = ""
    if warehouse is not None:
        fixes = fix_command(tables.key, [row["cause"] for row in present], warehouse)
        timeline = timeline_command(tables.key, warehouse)
    onset = timeline and steps_at_onset(tables.causes, [row["step"] for row in tables.steps])
    return {
        "causes": [cause_words.described(row, links.hosts, tables) for row in present],
        "has_intervals": any(loss.interval(row, "time_saved_fraction") for row in present),
        "change": latest_change(tables.changes),
        "others": [cause_words.short(row) for row in sorted(others, key=_saved)],
        "unexplained": loss.unexplained(tables.causes, tables.job["steps"]),
        "crop": crop_picture(tables),
        "prints": _printed(tables, present),
        "fix_command": fixes,
        "pattern": name_pattern(slowdown.T.reshape(slowdown.shape[1], -1, stages)),
        "step_map_text": step_map_text,
        "slowest": _slowest(tables, links.hosts),
        "has_records": warehouse is not None,  # only a warehouse has the records of hosts in other jobs
        "slowest_step": slowest,
        "timeline": timeline and f"{timeline}{slowest}",
        "onset": onset and [(step, f"{timeline}{step}") for step in onset],
        "figures": figures(tables.job),
        "chain": waterfall(tables.waterfall, measure.amounts),
        "unit_of_chain": measure.unit,
        "sections": [section for of in SECTIONS if (section := of(tables)) is not None],
        "power": power_section(tables),
        "trust": trust(tables.job),
        "data": {"charts": drawn, "timeline": timeline},
    }


def _printed(tables: UnitTables, present: Sequence[Row]) -> list[dict[str, Any]]:
    """Return the rows that the page's what-if command would print: savings by replays of this unit alone."""
    hours = tables.job["gpu_hours"]
    measured = {row["cause"]: row["unrevised"] or row for row in tables.causes}
    alone = {row["cause"]: measured[row["cause"]]["time_saved_fraction"] for row in present}
    together = max(0.0, sum(row["attributed_fraction"] for row in measured.values()))
    revised = {row["cause"] for row in tables.causes if row["unrevised"]}
    return [
        {
            "scenario": scenario,
            "fraction": fraction,
            "hours": None if hours is None else hours * fraction,
            "is_revised": scenario in revised or (scenario == ALL_CAUSES and bool(revised)),
        }
        for scenario, fraction in [*alone.items(), (ALL_CAUSES, together)]
    ]


def _saved(row: Row) -> float:
    return -float(row["time_saved_fraction"])


def figures(job: Row) -> list[tuple[str, str, str]]:
    """Return figures of the job: name, value, meaning."""
    return [
        ("step, recorded", wording.seconds(job["actual_step_s"]), "mean over steps (T_actual)"),
        (
            "step, replayed",
            wording.seconds(job["simulated_step_s"]),
            "without delays before the launch of ops (T)",
        ),
        ("step, ideal", wording.seconds(job["ideal_step_s"]), f"the paper's ideal, {job['ideal']} (T_ideal)"),
        ("slowdown", wording.ratio(job["slowdown"]), "replayed / ideal step"),
        (
            "waste",
            wording.percent(job["waste_fraction"]),
            "1 - 1/slowdown: the part of the replayed step beyond the paper's ideal",
        ),
        ("launch slowdown", wording.ratio(job["launch_slowdown"]), "recorded / replayed step"),
        ("by the slowest 3 % of workers", *_share(job, "slow_worker_share", "they are ideal (M_W)")),
        ("by the last stage", *_share(job, "last_stage_share", "it is ideal (M_S)")),
        (
            "forward with backward",
            wording.ratio(job["forward_backward_correlation"]),
            "correlation of the forward and backward times of microbatches: from 0.9 on, data are uneven",
        ),
    ]


def _share(job: Row, name: str, when: str) -> tuple[str, str]:
    """Return a part of the waste as text, and its meaning, which explains a part above 1 or below 0."""
    share, waste = job[name], job["waste_fraction"]
    if share is not None and waste is not None and waste < _LEAST_WASTE:
        return wording.MISSING, "not shown, because parts of a waste below 1 % are noise"
    beyond = ""
    if share is not None and not 0 <= share <= 1:
        beyond = f"; {wording.BEYOND_ALL if share > 1 else wording.BELOW_NOTHING}"
    return wording.percent(share), f"part of the waste that would go if {when}{beyond}"


def trust(job: Row) -> list[tuple[str, str, str]]:
    """Return the figures of the section "How far to trust this": name, value, meaning."""
    steps = job["steps"] + job["steps_dropped"]
    whole = f"{wording.percent(job['steps'] / steps)} of the recorded ones"
    whole += "; the others lack a worker" if job["steps_dropped"] else ""
    other = "left out, as their times are of another day than the log date; kept if this holds for all lines"
    return [
        ("status", Status(job["status"]).words, job["status_detail"] or ""),
        ("steps replayed", wording.number(job["steps"]), whole),
        *(
            [("lines of another day", wording.number(job["other_day_lines"]), other)]
            if job["other_day_lines"]
            else []
        ),
        ("workers", wording.number(job["workers"]), f"{wording.number(job['ops'])} ops"),
        ("discrepancy", wording.percent(job["discrepancy"]), "between replayed and recorded step time"),
        (
            "transfers below -10 ms",
            wording.number(job["clamped_transfers"]),
            "taken as 0: clocks of two hosts that differ, or sends that were buffered",
        ),
        (
            "buffered sends",
            wording.number(job["buffered_sends"]),
            "ended 10 ms or more before their receive began on the same host; used as recorded",
        ),
        ("launch delays below -10 ms", wording.number(job["clamped_launch_delays"]), "taken as 0"),
        ("simulator", job["simulator_version"], "version"),
    ]


def _slowest(tables: UnitTables, pages: Mapping[str, str]) -> list[dict[str, object]]:
    """Return the slowest workers, with their hosts and the records of these hosts in other jobs."""
    found = []
    for row in sorted(tables.workers, key=lambda row: (-row["slowdown"], row["rank"]))[:_SLOWEST]:
        host, record = row["host"], wording.MISSING
        if host is not None and host in tables.hosts:
            words = wording.host_record(tables.hosts[host])
            record = f"slow in {words['slow_in']}, {words['pattern']}; {words['recurrence']}"
        elif host is not None:
            record = "never slow in the period"
        found.append(dict(row) | {"host": host or NOT_STATED, "page": pages.get(host), "record": record})
    return found
