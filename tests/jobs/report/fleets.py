"""Rows of the fleet's page as reads would give them, drawn at random, without Spark."""

from datetime import date, timedelta
from typing import Any, Final

import numpy as np
import pyarrow as pa

from jobs.report.rows import FleetTables, Publication
from schemas.vocabulary import CAUSES, STATUSES

LAST: Final = date(2026, 5, 31)
NAUGHTY: Final = "</script><img src=x onerror=\"document.title='owned'\">'; drop"
"""A name that is markup, script, SQL and shell at once."""
_TEAMS: Final = ("speech", "vision", None, "<b>research</b>")


def fleet(runs: int = 40, days: int = 30, seed: int = 1) -> FleetTables:
    """So many runs, each on one to five days; every other one analysed, some states no GPU-hours."""
    rng = np.random.default_rng(seed)
    units: list[dict[str, Any]] = []
    parts: list[dict[str, Any]] = []
    for number in range(runs):
        first = int(rng.integers(days))
        for day in range(first, min(days, first + int(rng.integers(1, 6)))):
            unit = _unit(number, LAST - timedelta(days=days - 1 - day), rng)
            units.append(unit)
            parts += _parts(unit, rng)
    units.sort(key=lambda row: (row["log_date"], row["job_id"]))
    parts.sort(key=lambda row: (row["log_date"], row["job_id"], row["cause"]))
    ops = [
        {
            "log_date": LAST - timedelta(days=day),
            "op_type": name,
            "jobs": 3,
            "gpu_hours": 10.0,
            "wasted_gpu_hours": lost,
        }
        for day in reversed(range(days))
        for name, lost in (("backward-compute", 1.0), ("forward-compute", 0.5), ("gc", 0.0))
    ]
    hosts = [
        {
            "host": f"node-{number:04d}", "jobs": 9, "jobs_slow": 3, "days_slow": 2, "p_value": 0.001,
            "expected_jobs_slow": 0.5, "is_beyond_chance": True, "pattern": "chronic", "first_slow": LAST,
            "last_slow": LAST,
        }
        for number in range(3)
    ]  # fmt: skip
    return FleetTables(*map(pa.Table.from_pylist, (units, parts, ops, hosts)))


def publication(tables: FleetTables, *pages: str) -> Publication:
    """The publication of the last day."""
    return Publication(
        LAST, min(tables.units["log_date"].to_pylist(), default=LAST), set(pages), "a b/warehouse"
    )


def _unit(number: int, day: date, rng: np.random.Generator) -> dict[str, Any]:
    """One unit; every second run is analysed, the others have some other status."""
    status = "analysed" if number % 2 else STATUSES[number // 2 % len(STATUSES)]
    is_replayed = status in {"analysed", "too_few_steps", "high_discrepancy"}
    slowdown = 1 + float(rng.exponential(0.2)) if is_replayed else None
    hours = None if number % 11 == 5 else float(rng.uniform(10, 5000))
    wasted = None if hours is None or slowdown is None else hours * (1 - 1 / slowdown)
    ideal = float(rng.uniform(50, 500)) if is_replayed else None
    return {
        "log_date": day,
        "job_id": NAUGHTY if number == 1 else f"pretrain-{number:04d}",
        "run_id": "r1",
        "status": status,
        "status_detail": None if status == "analysed" else f"facts of {status}",
        "team": _TEAMS[number % len(_TEAMS)],
        "cluster": "north" if number % 3 else "south",
        "world_size": int(2 ** rng.integers(3, 13)),
        "slowdown": slowdown,
        "gpu_hours": hours,
        "wasted_gpu_hours": wasted,
        "simulated_total_s": None if ideal is None or slowdown is None else ideal * slowdown,
        "ideal_total_s": ideal,
    }


def _parts(unit: dict[str, Any], rng: np.random.Generator) -> list[dict[str, Any]]:
    """Causes of a unit that straggles: one or two, some on a host."""
    if unit["slowdown"] is None or unit["slowdown"] < 1.1:
        return []
    causes = rng.choice(CAUSES[:-1], size=int(rng.integers(1, 3)), replace=False)
    found = []
    for cause in causes:
        saved = float(rng.uniform(0.03, 0.2))
        hours = None if unit["gpu_hours"] is None else unit["gpu_hours"] * saved
        found.append(
            {name: unit[name] for name in ("log_date", "job_id", "run_id")}
            | {
                "cause": str(cause),
                "host": f"node-{int(rng.integers(60)):04d}" if cause == "slow_worker" else None,
                "is_flagged": bool(rng.random() < 0.2),
                "time_saved_fraction": saved,
                "attributed_gpu_hours": hours,
                "recoverable_gpu_hours": None if hours is None else 1.2 * hours,
            }
        )
    return found
