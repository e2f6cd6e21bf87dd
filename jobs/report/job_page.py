"""The page of one unit: what it lost, why, which workers and hosts, how far to trust it, what next."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from jobs.report import cause_words, commands, templates, wording
from jobs.report.job_charts import by_step, charts
from jobs.report.patterns import Pattern, name_pattern
from jobs.report.rows import Row, UnitTables
from schemas.vocabulary import NOT_STATED

_SLOWEST: Final = 10
"""Workers whose hosts are listed."""


def job_page(tables: UnitTables, warehouse: str | None = "", *, has_fleet_page: bool = True) -> bytes:
    """Return the page as HTML.

    warehouse      : how a command names the warehouse; empty where it need not; None where there is none.
    has_fleet_page : whether there is a fleet's page of that day to lead back to.
    """
    unit = tables.key
    values: dict[str, Any] = {
        "root": "..",
        "title": f"{unit.job_id}, {unit.log_date}",
        "unit": unit,
        "has_fleet_page": has_fleet_page,
        "about": _about(tables.job),
        "headline": headline(tables.job),
        "traceback": tables.job["failure_traceback"],
        "figures": [],
        "commands": []
        if warehouse is None
        else commands.deeper(unit, tables.causes, tables.op_types, tables.steps, warehouse),
    }
    if tables.workers:
        values |= _replayed(tables)
    return templates.page("job.html", values)


def _replayed(tables: UnitTables) -> dict[str, Any]:
    """What only a replayed unit has."""
    found = _pattern(tables)
    step_map_text, drawn = charts(tables)
    held = [row for row in tables.causes if row["is_cause"]]
    others = [row for row in tables.causes if not row["is_cause"] and row["cause"] != "unexplained"]
    return {
        "causes": [cause_words.told(row) for row in sorted(held, key=_saved)],
        "others": [cause_words.short(row) for row in sorted(others, key=_saved)],
        "pattern": found,
        "step_map_text": step_map_text,
        "slowest": _slowest(tables),
        "figures": _figures(tables.job),
        "trust": trust(tables.job),
        "data": {"charts": drawn},
    }


def _saved(row: Row) -> float:
    return -float(row["time_saved_fraction"])


def _pattern(tables: UnitTables) -> Pattern:
    """Pattern of the map by steps where there is one, else of the mean over them."""
    slowdown = by_step(tables.workers)
    if slowdown is None:
        slowdown = np.array([[row["slowdown"]] for row in tables.workers])
    stages = max(row["pp_rank"] for row in tables.workers) + 1
    return name_pattern(slowdown.T.reshape(slowdown.shape[1], -1, stages))


def _about(job: Row) -> list[tuple[str, object]]:
    """What the manifest says of the job."""
    names = ("team", "cluster", "model", "framework", "gpu_type")
    found: list[tuple[str, object]] = [(name.replace("_", " "), job[name]) for name in names if job[name]]
    return [*found, ("GPUs:", f"{job['world_size']:,}")] if job["world_size"] else found


def headline(job: Row) -> str:
    """Return what the job loses in one sentence, or why it was not analysed."""
    if job["slowdown"] is None:
        why = wording.STATUS_WORDS[job["status"]]
        return f"Not analysed: {why}" + (f" ({job['status_detail']})." if job["status_detail"] else ".")
    told = f"A step takes {wording.ratio(job['slowdown'])} times its ideal time"
    if job["wasted_gpu_hours"] is None:
        told += (
            f": {wording.percent(job['waste_fraction'])} of its time is lost; its GPU-hours are not stated."
        )
    else:
        told += (
            f": {wording.hours(job['wasted_gpu_hours'])} of its {wording.hours(job['gpu_hours'])} GPU-hours "
            f"({wording.percent(job['waste_fraction'])}) are lost."
        )
    return told


def _figures(job: Row) -> list[tuple[str, str, str]]:
    return [
        ("step, recorded", wording.seconds(job["actual_step_s"]), "T_actual, mean over steps"),
        (
            "step, replayed",
            wording.seconds(job["simulated_step_s"]),
            "T, without waits before an op's launch",
        ),
        ("step, ideal", wording.seconds(job["ideal_step_s"]), f"T_ideal: {job['ideal']}"),
        ("slowdown", wording.ratio(job["slowdown"]), "replayed / ideal"),
        ("launch slowdown", wording.ratio(job["launch_slowdown"]), "recorded / replayed"),
        ("slowest 3 % of workers", wording.percent(job["slow_worker_share"]), "of the loss (M_W)"),
        ("last stage", wording.percent(job["last_stage_share"]), "of the loss (M_S)"),
        (
            "forward with backward",
            wording.ratio(job["forward_backward_correlation"]),
            "correlation of their times: from 0.9 on, data of uneven length",
        ),
    ]


def trust(job: Row) -> list[tuple[str, str, str]]:
    """Return what tells how far to trust the figures: name, value, meaning."""
    steps = job["steps"] + job["steps_dropped"]
    whole = wording.percent(job["steps"] / steps)
    return [
        ("status", wording.STATUS_WORDS[job["status"]], job["status_detail"] or ""),
        ("steps replayed", wording.number(job["steps"]), f"{whole} of those recorded; others lack a worker"),
        ("workers", wording.number(job["workers"]), f"{wording.number(job['ops'])} ops"),
        ("discrepancy", wording.percent(job["discrepancy"]), "replayed against recorded step time"),
        (
            "transfers below -10 ms",
            wording.number(job["clamped_transfers"]),
            "taken as 0: clocks of two hosts that differ, or sends that were buffered",
        ),
        (
            "buffered sends",
            wording.number(job["buffered_sends"]),
            "ended 10 ms or more before their recv began, on one host: kept as they are",
        ),
        ("launch delays below -10 ms", wording.number(job["clamped_launch_delays"]), "taken as 0"),
        ("simulator", job["simulator_version"], "version"),
    ]


def _slowest(tables: UnitTables) -> list[dict[str, object]]:
    """Slowest workers with their hosts, and what other jobs say of these."""
    workers = sorted(tables.workers, key=lambda row: (-row["slowdown"], row["rank"]))[:_SLOWEST]
    return [
        dict(row) | {"host": row["host"] or NOT_STATED, "record": _record(row["host"], tables.hosts)}
        for row in workers
    ]


def _record(host: str | None, hosts: Mapping[str, Row]) -> str:
    """What the period's jobs say of a host."""
    if host is None:
        return wording.MISSING
    if host not in hosts:
        return "never slow in the period"
    row = hosts[host]
    told = f"slow in {row['jobs_slow']} of {row['jobs']} jobs, {row['pattern']}"
    return told + (", beyond chance" if row["is_beyond_chance"] else "")
