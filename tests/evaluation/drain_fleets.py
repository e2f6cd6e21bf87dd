"""Fleets whose hosts are slow for a while and may be drained: what runs then, and each day's results."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

import duckdb
import numpy as np
import pandas as pd

from jobs.reading.database import create_views, needed
from jobs.reading.question import question
from jobs.synthetic.fleet import SHIFTS, Fleet, FleetJob, SickSpell
from jobs.synthetic.sample_faults import log_uniform
from jobs.synthetic.sample_job import sample_job
from jobs.synthetic.shape import GPUS_PER_HOST
from jobs.synthetic.simulation import JobPlan, child_rng
from jobs.warehouse.dialect import WHOLE
from schemas.tables import TABLES
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN, MACHINE_CAUSES, UNIT_KEY, WORKER_SLOWDOWN
from tests.support.examples import table_rows
from udfs.what_if import simulate_job

SPELLS_PER_JOB: Final = 1.2
LEAST_HOSTS: Final = 4
LEAST_STEPS: Final = 10
ASKED: Final = (JOB_SLOWDOWN, JOB_CAUSES, WORKER_SLOWDOWN)
Rows = list[dict[str, Any]]
Asks = Callable[[str], pd.DataFrame]


@dataclass(frozen=True)
class Unit:
    """A job on a day as it ran: rows of ASKED, its mean step and its GPU-hours."""

    rows: Mapping[str, Rows]
    step_us: float
    gpu_hours: float


class World:
    """One fleet, whatever is drained from it; units that run alike are simulated once."""

    def __init__(self, seed: int, jobs: int, days: int, most_ops: int) -> None:
        self.days = days
        self.fleet = fleet_of(seed, jobs, days, most_ops)
        self.unit = lru_cache(maxsize=None)(self._unit)

    def ran(self, job: FleetJob, day: int, drained: Mapping[str, int]) -> Unit:
        """Run a job on a day. drained : hosts, by the first day on which a spare serves instead."""
        out = {host for host, since in drained.items() if since <= day and host in job.hosts}
        struck = tuple(each for each in self.spells_of(job, day) if each.host not in out)
        unit = self.unit(job.job_id, day, struck)
        return replace(unit, rows={name: _renamed(rows, out) for name, rows in unit.rows.items()})

    def spells_of(self, job: FleetJob, day: int) -> list[SickSpell]:
        """Spells that strike a job on a day."""
        return [each for each in self.fleet.spells if each.in_job(job, day) is not None]

    def _unit(self, job_id: str, day: int, struck: tuple[SickSpell, ...]) -> Unit:
        job = next(each for each in self.fleet.jobs if each.job_id == job_id)
        recorded, simulation = replace(self.fleet, spells=struck).recorded(job, day)
        key = dict(zip(UNIT_KEY, (self.fleet.log_date(day), job_id, "r1"), strict=True))
        found = simulate_job(recorded.rank_steps, recorded.manifest)
        rows = {
            name: [key | row for row in found[name].to_pylist(maps_as_pydicts="strict")] for name in ASKED
        }
        step_us = float(simulation.step_us(simulation.timeline()).mean())
        return Unit(rows, step_us, recorded.manifest["gpu_hours"])


def fleet_of(seed: int, jobs: int, days: int, most_ops: int) -> Fleet:
    """Draw jobs of several hosts, and hosts that are slow in one of three ways."""
    rng = child_rng(seed, "drain fleet")
    drawn: list[FleetJob] = []
    while len(drawn) < jobs:
        plan = sample_job(int(rng.integers(2**31)), days=days, has_own_hosts=False, most_ops=most_ops)
        if not _is_asked(plan):
            continue
        # What lies in a machine strikes by the spells below alone: there it goes with the host.
        kept = [each for each in plan.mechanisms if each.cause not in MACHINE_CAUSES]
        plan = replace(plan, mechanisms=kept)
        first, end = (
            int(rng.integers(low, high)) for low, high in ((0, days // 3), (2 * days // 3, days + 1))
        )
        names = tuple(f"node-{len(drawn):02}-{place:02}" for place in range(plan.shape.hosts))
        drawn.append(FleetJob(f"job-{len(drawn)}", first * SHIFTS, end * SHIFTS, plan, hosts=names))
    hosts = [host for job in drawn for host in job.hosts]
    sick = rng.choice(hosts, min(round(SPELLS_PER_JOB * jobs), len(hosts)), replace=False)
    return Fleet(drawn, [spell for host in sick for spell in _spells(str(host), days, rng)])


def _is_asked(plan: JobPlan) -> bool:
    """Whether a job has other hosts, results, and no worker on two hosts, of which its log shows one."""
    shape = plan.shape
    is_on_one = shape.tp_size * shape.cp_size <= GPUS_PER_HOST
    return is_on_one and shape.hosts >= LEAST_HOSTS and shape.steps >= LEAST_STEPS and not plan.lost_ranks


def _spells(host: str, days: int, rng: np.random.Generator) -> list[SickSpell]:
    """Slow for one to three days, for two to eight weeks, or repeatedly for days."""
    kind = rng.choice(["passing", "lasting", "coming back"], p=[0.5, 0.25, 0.25])
    factor, day = 1 + log_uniform(rng, 0.1, 0.6), int(rng.integers(days - 4))
    found = []
    while day < days:
        length = int(rng.integers(14, 57)) if kind == "lasting" else int(rng.integers(1, 4))
        found.append(SickSpell(host, factor, day * SHIFTS, (day + length) * SHIFTS))
        day += length + int(rng.integers(2, 7))
        if kind != "coming back":
            break
    return found


def _renamed(rows: Rows, out: set[str]) -> Rows:
    """Give the spares that stand in names of their own."""
    if not out:
        return rows

    def named(row: dict[str, Any]) -> dict[str, Any]:
        return {
            name: f"spare of {value}" if name in {"host", "slow_host"} and value in out else value
            for name, value in row.items()
        }

    return [
        named(row) | ({"culprits": [named(each) for each in row["culprits"]]} if row.get("culprits") else {})
        for row in rows
    ]


def asks(rows: Mapping[str, Rows]) -> Asks:
    """Answer questions over rows of ASKED; other tables are empty."""
    connection = duckdb.connect(":memory:")
    connection.execute(WHOLE)
    names = needed({"drain", "fix_first", "host_record"})
    for name in names & TABLES.keys():
        connection.register(name, table_rows(name, rows.get(name, [])))
    create_views(connection, names)
    return lambda sql: connection.execute(question(sql).for_duckdb).df()
