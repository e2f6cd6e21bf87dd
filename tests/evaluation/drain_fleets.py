"""Generate fleets whose hosts are slow at times, and simulate each day after the drains and changes so far.

The noise of a job repeats every DRAWS days. Units with equal content are therefore simulated only once, which
makes fleets of many jobs over many days cheap.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa

from jobs.reading.database import create_views, needed
from jobs.reading.question import question
from jobs.synthetic.fleet import SEEDS_PER_JOB, SHIFTS, Fleet, FleetJob, SickSpell
from jobs.synthetic.job import recorded_job
from jobs.synthetic.mechanisms.mechanism import ALWAYS, Mechanism, Windowed
from jobs.synthetic.mechanisms.work import UnevenLayers
from jobs.synthetic.sample_faults import log_uniform
from jobs.synthetic.sample_job import sample_job
from jobs.synthetic.shape import GPUS_PER_HOST, JobShape
from jobs.synthetic.simulation import JobPlan, Simulation, child_rng
from jobs.warehouse.dialect import WHOLE
from schemas.tables import TABLES
from schemas.vocabulary import (
    JOB_CAUSES,
    JOB_SLOWDOWN,
    MACHINE_CAUSES,
    MITIGATIONS,
    UNIT_KEY,
    WORKER_SLOWDOWN,
)
from tests.support.examples import table_rows
from udfs.simulate.mitigation_rows import LABEL
from udfs.what_if import simulate_job

SPELLS_PER_JOB: Final = 1.2
LEAST_HOSTS: Final = 4
LEAST_STEPS: Final = 10
DRAWS: Final = 3
"""Period, in days, after which the noise of a job repeats."""
LAYERS: Final = (4, 13)
"""Least number of layers of a chunk of the model, and one more than the most."""
ASKED: Final = (JOB_SLOWDOWN, JOB_CAUSES, WORKER_SLOWDOWN, MITIGATIONS)
VIEWS: Final = ("drain", "fix_first", "host_record")
Rows = list[dict[str, Any]]
Tables = Mapping[str, pa.Table]


@dataclass(frozen=True)
class Unit:
    """A job on one day, with all its faults and its GPU-hours."""

    plan: JobPlan
    gpu_hours: float

    @property
    def alike(self) -> tuple[object, ...]:
        """Return all facts on which a unit's results depend, as a key of a cache."""
        identity = self.plan.identity
        return identity.job_id, self.plan.seed, tuple(self.plan.mechanisms), identity.hosts


class World:
    """A fleet that is simulated after any drains and changes; equal units are simulated only once."""

    def __init__(self, seed: int, jobs: int, days: int, most_ops: int) -> None:
        self.days = days
        self.fleet = fleet_of(seed, jobs, days, most_ops)
        self._step_us: dict[object, float] = {}
        self._results: dict[object, Tables] = {}

    def ran(self, job: FleetJob, day: int) -> Unit:
        """Return the unit that a job, with the changes made so far, runs on a day."""
        plan, draw = self.fleet.plan(job, day), job.days.start + day % DRAWS
        return Unit(
            replace(
                plan,
                seed=SEEDS_PER_JOB * job.plan.seed + day % DRAWS,
                identity=self.fleet.identity(job, draw),
                mechanisms=[_within(each, job.shape.steps) for each in plan.mechanisms],
            ),
            plan.identity.fields["gpu_hours"],
        )

    def step_us(self, unit: Unit) -> float:
        """Mean step time of a unit; equal units are simulated only once. [us]"""
        if unit.alike[:-1] not in self._step_us:
            self._simulated(unit)
        return self._step_us[unit.alike[:-1]]

    def _simulated(self, unit: Unit) -> Simulation:
        """Simulate a unit and cache its step time, also for units that differ only in their hosts."""
        simulation = Simulation(unit.plan)
        self._step_us[unit.alike[:-1]] = float(simulation.step_us(simulation.timeline()).mean())
        return simulation

    def results(self, job: FleetJob, day: int) -> Tables:
        """Return a job's rows on a day, for each table in ASKED."""
        unit = self.ran(job, day)
        if unit.alike not in self._results:
            recorded = recorded_job(self._simulated(unit))
            found = simulate_job(recorded.rank_steps, recorded.manifest)
            self._results[unit.alike] = {name: found[name] for name in ASKED}
        key = dict(zip(UNIT_KEY, (self.fleet.log_date(day), job.job_id, "r1"), strict=True))
        return {name: _keyed(name, rows, key) for name, rows in self._results[unit.alike].items()}

    def is_slow(self, host: str, job: FleetJob, days: range) -> list[bool]:
        """Return, for each of the days, whether the host is slow."""
        spells = [each for each in self.fleet.spells if each.host == host]
        return [any(each.in_job(job, day) is not None for each in spells) for day in days]


def _within(mechanism: Mechanism, steps: int) -> Mechanism:
    """Return the mechanism, with window ALWAYS if it acts in all steps of a day."""
    if isinstance(mechanism, Windowed) and (mechanism.window.share(steps) == 1.0).all():
        return replace(mechanism, window=ALWAYS)
    return mechanism


def _keyed(name: str, rows: pa.Table, key: Mapping[str, object]) -> pa.Table:
    schema = TABLES[name].arrow_schema
    columns = [
        pa.repeat(pa.scalar(key[field.name], field.type), rows.num_rows)
        if field.name in key
        else rows[field.name]
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def fleet_of(seed: int, jobs: int, days: int, most_ops: int) -> Fleet:
    """Draw jobs of several hosts, and periods in which some of these hosts are slow."""
    rng = child_rng(seed, "drain fleet")
    drawn: list[FleetJob] = []
    while len(drawn) < jobs:
        plan = sample_job(int(rng.integers(2**31)), days=days, has_own_hosts=False, most_ops=most_ops)
        if not _is_asked(plan):
            continue
        # Causes that lie in a machine come only from the spells drawn below, so that draining the host
        # removes them.
        kept = [each for each in plan.mechanisms if each.cause not in MACHINE_CAUSES]
        plan = replace(plan, mechanisms=kept)
        first, end = (
            int(rng.integers(low, high)) for low, high in ((0, days // 3), (2 * days // 3, days + 1))
        )
        names = tuple(f"node-{len(drawn):03}-{place:02}" for place in range(plan.shape.hosts))
        layers = ",".join(f"{each:g}" for each in layers_of(plan, rng))
        fields = {"labels": {LABEL: layers}}
        drawn.append(FleetJob(f"job-{len(drawn)}", first * SHIFTS, end * SHIFTS, plan, fields, names))
    hosts = [host for job in drawn for host in job.hosts]
    sick = rng.choice(hosts, min(round(SPELLS_PER_JOB * jobs), len(hosts)), replace=False)
    return Fleet(drawn, [spell for host in sick for spell in _spells(str(host), days, rng)])


def layers_of(plan: JobPlan, rng: np.random.Generator) -> Sequence[float]:
    """Number of layers in each chunk of a job's model; uneven if a fault of the job makes them so."""
    uneven = [each.layers for each in plan.mechanisms if isinstance(each, UnevenLayers)]
    drawn = int(rng.integers(*LAYERS))
    return uneven[0] if uneven else [drawn] * (plan.shape.last_chunk + 1)


def _is_asked(plan: JobPlan) -> bool:
    """Return whether a job has enough hosts and steps, all ranks logged, and no worker on two hosts."""
    shape = plan.shape
    is_on_one = shape.tp_size * shape.cp_size <= GPUS_PER_HOST
    return is_on_one and shape.hosts >= LEAST_HOSTS and shape.steps >= LEAST_STEPS and not plan.lost_ranks


def gpus_of_host(shape: JobShape) -> int:
    """Number of GPUs that a job has on one host."""
    return min(shape.world_size, GPUS_PER_HOST)


def _spells(host: str, days: int, rng: np.random.Generator) -> list[SickSpell]:
    """Draw when a host is slow: once for 1 to 3 days or 2 to 8 weeks, or repeatedly for 1 to 3 days."""
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


class Warehouse:
    """All days so far in an in-memory database, with the project's views; only tables in ASKED have rows."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(":memory:")
        self._connection.execute(WHOLE)
        names = needed(set(VIEWS))
        for name in names & TABLES.keys():
            self._connection.register("empty", table_rows(name, []))
            self._connection.execute(f"CREATE TABLE {name} AS FROM empty")
        create_views(self._connection, names)

    def add(self, tables: Mapping[str, Sequence[pa.Table]]) -> None:
        """Append rows to tables given by name."""
        for name, parts in tables.items():
            self._connection.register("added", pa.concat_tables(parts))
            self._connection.execute(f"INSERT INTO {name} FROM added")

    def ask(self, sql: str) -> pd.DataFrame:
        """Run a query over the tables and return its rows."""
        return self._connection.execute(question(sql).for_duckdb).df()
