"""Make tables of the fleet's page for random units; DuckDB answers the page's queries from rows in memory."""

from collections import defaultdict
from datetime import date, timedelta
from typing import Any, Final

import duckdb
import numpy as np
import pyarrow as pa

from jobs.reading.database import IN_ORDER, create_views
from jobs.reading.question import question
from jobs.report.host_page import hosts_with_pages
from jobs.report.read import of_fleet, of_hosts
from jobs.report.rows import FleetTables, Publication
from jobs.report.write import publication_of
from jobs.warehouse.dialect import WHOLE
from schemas.drain import DrainTerms
from schemas.tables import TABLES
from schemas.views import VIEWS
from schemas.vocabulary import (
    CAUSE_UNEXPLAINED,
    FIXABLE_CAUSES,
    JOB_CAUSES,
    JOB_SLOWDOWN,
    JOBS,
    OP_TYPE_DAY,
    STATUSES,
    WORKER_SLOWDOWN,
)
from tests.support.examples import culprit, table_rows
from udfs.lost import lost_columns

LAST: Final = date(2026, 5, 31)
NAUGHTY: Final = "</script><img src=x onerror=\"document.title='owned'\">'; drop"
"""A name that a page, a script, a shell or SQL could mistake for code."""
_TEAMS: Final = ("speech", "vision", None, "<b>research</b>")

Rows = list[dict[str, Any]]


def fleet(runs: int = 40, days: int = 30, seed: int = 1, *, with_hours: bool = True) -> FleetTables:
    """Return the tables of a random fleet: runs of one to five days, half of them analysed.

    with_hours : whether most runs state GPU-hours, instead of none
    """
    rng = np.random.default_rng(seed)
    tables: defaultdict[str, Rows] = defaultdict(list)
    for number in range(runs):
        first = int(rng.integers(days))
        for day in range(first, min(days, first + int(rng.integers(1, 6)))):
            _add_unit(tables, number, LAST - timedelta(days=days - 1 - day), rng, with_hours=with_hours)
    for day in range(days):
        for name, lost in (("backward-compute", 1.0), ("forward-compute", 0.5), ("gc", 0.0)):
            tables[OP_TYPE_DAY].append(
                {"log_date": LAST - timedelta(days=day), "op_type": name}
                | {"jobs": 3, "gpu_hours": 10.0, "wasted_gpu_hours": lost}
            )
    return asked(tables, LAST - timedelta(days=days - 1))


def asked(tables: dict[str, Rows], first_day: date, last_day: date = LAST) -> FleetTables:
    """Return the tables of the fleet's page for given rows.

    tables : by table, changes to the good row of tests.support.examples, one mapping for each row
    """
    with duckdb.connect(":memory:") as connection:
        for statement in (IN_ORDER, WHOLE):
            connection.execute(statement)
        for name, table in TABLES.items():
            rows = tables.get(name, [])
            connection.register(name, table_rows(name, rows) if rows else table.arrow_schema.empty_table())
        create_views(connection, VIEWS)

        def answer(sql: str) -> pa.Table:
            return connection.sql(question(sql).for_duckdb).to_arrow_table()

        found = {name: answer(sql) for name, sql in of_fleet(first_day, last_day, DrainTerms()).items()}
        hosts = hosts_with_pages(found["fixes"].to_pylist(), found["hosts"].to_pylist())
        return FleetTables(**found, host_units=answer(of_hosts(hosts or [""], first_day, last_day)))


def publication(tables: FleetTables, *pages: str) -> Publication:
    """Return the publication of the given fleet's report on the last day: its period, and its links.

    pages : paths of the job pages that it contains
    """
    hosts = dict.fromkeys(tables.host_units["host"].to_pylist())
    return publication_of(tables, LAST, pages, hosts, "a b/warehouse")


def _add_unit(
    tables: dict[str, Rows], number: int, day: date, rng: np.random.Generator, *, with_hours: bool
) -> None:
    """Add rows of one unit of a run; runs of odd number are analysed, the others have various statuses."""
    key = {"log_date": day, "job_id": NAUGHTY if number == 1 else f"pretrain-{number:04d}", "run_id": "r1"}
    status = "analysed" if number % 2 else STATUSES[number // 2 % len(STATUSES)]
    is_replayed = status in {"analysed", "too_few_steps", "high_discrepancy"}
    hours = float(rng.uniform(10, 5000)) if with_hours and number % 11 != 5 else None
    slowdown = 1 + float(rng.exponential(0.2))
    ideal_s = float(rng.uniform(50, 500))
    figures = {
        "slowdown": slowdown,
        "waste_fraction": 1 - 1 / slowdown,
        "wasted_gpu_hours": None if hours is None else hours * (1 - 1 / slowdown),
        "ideal_total_s": ideal_s,
        "simulated_total_s": ideal_s * slowdown,
        "actual_total_s": ideal_s * slowdown * 1.01,
    }
    tables[JOBS].append(
        key
        | {"team": _TEAMS[number % len(_TEAMS)], "cluster": "north" if number % 3 else "south"}
        | {"gpu_hours": hours}
    )
    tables[JOB_SLOWDOWN].append(
        key
        | {"status": status, "gpu_hours": hours, "world_size": int(2 ** rng.integers(3, 13))}
        | {"status_detail": None if status == "analysed" else f"facts of {status}"}
        | (figures if is_replayed else dict.fromkeys(figures))
    )
    if is_replayed:
        hosts = [f"node-{int(each):04d}" for each in rng.choice(60, size=2, replace=False)]
        tables[JOB_CAUSES] += _causes(key, hours, hosts, rng, is_analysed=status == "analysed")
        tables[WORKER_SLOWDOWN] += [
            key | {"dp_rank": place, "host": host} for place, host in enumerate(hosts)
        ]


def _causes(
    key: dict[str, Any],
    hours: float | None,
    hosts: list[str],
    rng: np.random.Generator,
    *,
    is_analysed: bool,
) -> Rows:
    """Return rows of one or two causes, and of the unexplained part; a slow worker is on the given hosts."""
    rows: Rows = []
    for cause in [
        *rng.choice(FIXABLE_CAUSES, size=int(rng.integers(1, 3)), replace=False),
        CAUSE_UNEXPLAINED,
    ]:
        holds = cause != CAUSE_UNEXPLAINED and bool(rng.random() < 0.8)
        saved = float(rng.uniform(-0.01, 0.2)) if cause != CAUSE_UNEXPLAINED else 0.0
        culprits = [culprit(0.5, dp_rank=place, rank=place, host=host) for place, host in enumerate(hosts)]
        rows.append(
            key
            | {"cause": str(cause), "is_cause": holds, "time_saved_fraction": saved}
            | {"attributed_fraction": saved, "flag_reason": "few_peers" if rng.random() < 0.2 else None}
            | {"culprits": culprits if cause == "slow_worker" else []}
            | {"recoverable_gpu_hours": None if hours is None else hours * saved}
            | {"attributed_gpu_hours": None if hours is None else hours * saved}
        )
    lost = lost_columns(rows, hours, is_analysed=is_analysed)
    return [row | each for row, each in zip(rows, lost, strict=True)]
