"""Aggregate days: fleet, causes, hosts, groups, op types, coverage, power and roles.

job_slowdown and its companions, job_causes, jobs -> fleet_day, cause_day, host_day, coverage_day, group_day,
op_type_day, job_megawatts, power_day, power_in_phase; role_step, jobs -> role_iteration, role_effect;
host_health, job_causes -> cause_evidence; jobs, step_slowdown, job_causes, worker_slowdown -> job_changes.
"""

from collections.abc import Sequence
from datetime import date
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from jobs.gates.result_rules import ROLE_RULES
from jobs.history.records import days_before
from jobs.night.phase_run import PhaseRun
from jobs.runtime.settings import Settings
from jobs.transforms.fleet import (
    cause_day,
    coverage_day,
    fleet_day,
    group_day,
    host_day,
    op_type_day,
    power_units,
    with_lost,
)
from jobs.warehouse.delta_files import keys_of
from jobs.warehouse.frames import collected
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import (
    CAUSE_DAY,
    CAUSE_EVIDENCE,
    COVERAGE_DAY,
    FLEET_DAY,
    GROUP_DAY,
    HOST_DAY,
    HOST_HEALTH,
    JOB_CAUSES,
    JOB_CHANGES,
    JOB_POWER,
    JOB_SLOWDOWN,
    JOBS,
    OP_TYPE_DAY,
    OP_TYPE_SLOWDOWN,
    ROLE_STEP,
    ROLE_TABLES,
    STEP_SLOWDOWN,
    UNIT_KEY,
    WORKER_SLOWDOWN,
    Phase,
)
from udfs.changes import LEAST_DAYS, job_changes, points_of
from udfs.changes import READ as COMPARED
from udfs.health.evidence import cause_evidence
from udfs.power.days import Watts, power_tables
from udfs.roles.role_tables import role_tables

_PARTS: Final = "parts_of_wholes"
_READ = (JOB_SLOWDOWN, JOB_CAUSES, WORKER_SLOWDOWN, JOBS, OP_TYPE_SLOWDOWN, JOB_POWER)


def run(spark: SparkSession, settings: Settings, log_dates: Sequence[date]) -> dict[str, int]:
    """Aggregate these days and publish; returns rows per table, and the phase's work."""
    phase = PhaseRun(Phase.AGGREGATE, spark, settings, log_dates)
    read = {name: phase.warehouse.read(TABLES[name], log_dates) for name in _READ}
    job_slowdown = read[JOB_SLOWDOWN]
    units = with_lost(job_slowdown, read[JOB_CAUSES])
    frames = {
        FLEET_DAY: fleet_day(units),
        CAUSE_DAY: cause_day(read[JOB_CAUSES], job_slowdown),
        HOST_DAY: host_day(read[WORKER_SLOWDOWN]),
        COVERAGE_DAY: coverage_day(job_slowdown),
        GROUP_DAY: group_day(units, read[JOBS]),
        OP_TYPE_DAY: op_type_day(read[OP_TYPE_SLOWDOWN], job_slowdown),
        _PARTS: read[JOBS].where("part_of IS NOT NULL").select(*UNIT_KEY, "part_of", "role", "gpu_hours"),
    }
    # With the others: every query of Spark's costs more than the rows.
    tables = collected(frames | {JOB_POWER: power_units(read[JOB_POWER], read[JOBS])})
    watts = {gpu_type: Watts(**each.model_dump()) for gpu_type, each in settings.power.watts.items()}
    tables |= power_tables(tables.pop(JOB_POWER), watts)
    roles = tables_of_wholes(phase.warehouse, log_dates, tables.pop(_PARTS))
    evidence = beside_culprits(phase.warehouse, log_dates, tables[HOST_DAY], settings.revision.days)
    changes = changes_so_far(phase.warehouse, log_dates, settings.revision.days)
    return phase.publish(tables | roles | evidence | changes, [rule(roles) for rule in ROLE_RULES if roles])


def tables_of_wholes(warehouse: Warehouse, log_dates: Sequence[date], parts: pa.Table) -> dict[str, pa.Table]:
    """Role tables of these days; empty if they have no whole now and had none before.

    parts : units that are part of a whole
    """
    if parts.num_rows or any(warehouse.rows_by_day(TABLES[name], log_dates) for name in ROLE_TABLES):
        causes = warehouse.rows(TABLES[JOB_CAUSES], log_dates, keys_of(parts))
        lost = causes.group_by(UNIT_KEY).aggregate([("lost_fraction", "sum")])
        parts = parts.join(lost.rename_columns([*UNIT_KEY, "lost_fraction"]), UNIT_KEY)
        return role_tables(warehouse.rows(TABLES[ROLE_STEP], log_dates), parts)
    return {}


def changes_so_far(warehouse: Warehouse, log_dates: Sequence[date], days: int) -> dict[str, pa.Table]:
    """job_changes of these days; no table if too few days have steps, and these had no changes.

    days : how many before a day are compared
    """
    dates = [*days_before(log_dates, days), *log_dates]
    if len(warehouse.rows_by_day(TABLES[STEP_SLOWDOWN], dates)) < LEAST_DAYS and not warehouse.rows_by_day(
        TABLES[JOB_CHANGES], log_dates
    ):
        return {}
    tables = {}
    for name, columns in COMPARED.items():
        few, wanted = warehouse.few_rows(TABLES[name], dates), [*UNIT_KEY, *columns]
        read = warehouse.read(TABLES[name], dates).select(wanted).toArrow() if few is None else few
        tables[name] = read.select(wanted)
    return {JOB_CHANGES: job_changes(points_of(tables), log_dates, days)}


def beside_culprits(
    warehouse: Warehouse, log_dates: Sequence[date], host_day: pa.Table, days: int
) -> dict[str, pa.Table]:
    """cause_evidence; no table if these days and those looked back on have no health, and these had none.

    host_day : rows of these days
    days : how many before a day are looked back on, for checks that go on, culprits that were slow before,
        and how often checks fail by chance
    """
    before = days_before(log_dates, days)
    with_health = warehouse.rows_by_day(TABLES[HOST_HEALTH], [*before, *log_dates])
    if not with_health and not warehouse.rows_by_day(TABLES[CAUSE_EVIDENCE], log_dates):
        return {}
    causes = warehouse.rows(TABLES[JOB_CAUSES], [*before, *log_dates])
    earlier = warehouse.rows(TABLES[HOST_DAY], before)
    columns = ["log_date", "host"]
    hosts = pa.concat_tables([earlier.select(columns), host_day.select(columns)])

    def health(day: date) -> pa.Table:
        table = TABLES[HOST_HEALTH]
        return warehouse.rows(table, [day]) if day in with_health else table.arrow_schema.empty_table()

    return {CAUSE_EVIDENCE: cause_evidence(health, causes, hosts, log_dates, days)}
