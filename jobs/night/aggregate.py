"""Aggregate days: compute figures of fleet, causes, hosts, groups, op types, coverage, power and roles.

job_slowdown and its companions, job_causes, jobs -> fleet_day, cause_day, host_day, coverage_day, group_day,
op_type_day, job_megawatts, power_day, power_in_phase; role_step, jobs -> role_iteration, role_effect;
host_health, job_causes -> cause_evidence; jobs, step_slowdown, job_causes, worker_slowdown -> job_changes.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import date
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from jobs.gates.result_rules import ROLE_RULES
from jobs.history.records import days_before
from jobs.night.phase_run import PhaseRun
from jobs.runtime.settings import Settings
from jobs.transforms import fleet
from jobs.warehouse.frames import collected
from jobs.warehouse.reader import keys_of
from jobs.warehouse.tables import Warehouse
from schemas import vocabulary as words
from schemas.tables import TABLES
from udfs.changes import LEAST_DAYS, job_changes, points_of
from udfs.changes import READ as COMPARED
from udfs.health.evidence import cause_evidence
from udfs.power.days import Watts, power_tables
from udfs.roles.role_tables import role_tables

_PARTS: Final = "parts_of_wholes"


def run(spark: SparkSession, settings: Settings, log_dates: Sequence[date]) -> dict[str, int]:
    """Aggregate these days and publish; return the rows per table, and the work of the phase."""
    phase = PhaseRun(words.Phase.AGGREGATE, spark, settings, log_dates)

    def read(name: str) -> DataFrame:
        return phase.warehouse.read(TABLES[name], log_dates)

    job_slowdown, job_causes, jobs = map(read, (words.JOB_SLOWDOWN, words.JOB_CAUSES, words.JOBS))
    units = fleet.with_lost(job_slowdown, job_causes)
    frames = {
        words.FLEET_DAY: fleet.fleet_day(units),
        words.CAUSE_DAY: fleet.cause_day(job_causes, job_slowdown),
        words.HOST_DAY: fleet.host_day(read(words.WORKER_SLOWDOWN)),
        words.COVERAGE_DAY: fleet.coverage_day(job_slowdown),
        words.GROUP_DAY: fleet.group_day(units, jobs),
        words.OP_TYPE_DAY: fleet.op_type_day(read(words.OP_TYPE_SLOWDOWN), job_slowdown),
        words.JOB_POWER: fleet.power_units(read(words.JOB_POWER), jobs),
        _PARTS: jobs.where("part_of IS NOT NULL").select(*words.UNIT_KEY, "part_of", "role", "gpu_hours"),
    }
    tables = collected(frames)  # in one query: starting a query takes Spark longer than these rows
    watts = {gpu_type: Watts(**each.model_dump()) for gpu_type, each in settings.power.watts.items()}
    tables |= power_tables(tables.pop(words.JOB_POWER), watts)
    roles = tables_of_wholes(phase.warehouse, log_dates, tables.pop(_PARTS))
    evidence = beside_culprits(phase.warehouse, log_dates, tables[words.HOST_DAY], settings.revision.days)
    changes = changes_so_far(phase.warehouse, log_dates, settings.revision.days)
    return phase.publish(tables | roles | evidence | changes, [rule(roles) for rule in ROLE_RULES if roles])


def tables_of_wholes(warehouse: Warehouse, log_dates: Sequence[date], parts: pa.Table) -> dict[str, pa.Table]:
    """Return the role tables of these days; {} if no run states `part_of` and no earlier rows are stored.

    parts : units whose manifests state `part_of`
    """
    if parts.num_rows or any(warehouse.rows_by_day(TABLES[name], log_dates) for name in words.ROLE_TABLES):
        causes = warehouse.rows(TABLES[words.JOB_CAUSES], log_dates, keys_of(parts))
        lost = causes.group_by(words.UNIT_KEY).aggregate([("lost_fraction", "sum")])
        parts = parts.join(lost.rename_columns([*words.UNIT_KEY, "lost_fraction"]), words.UNIT_KEY)
        return role_tables(warehouse.rows(TABLES[words.ROLE_STEP], log_dates), parts)
    return {}


def changes_so_far(warehouse: Warehouse, log_dates: Sequence[date], days: int) -> dict[str, pa.Table]:
    """Return job_changes of these days; {} if every job has too few units and no rows are stored.

    Units of a job are counted instead of its days, because a day may have several runs of the job.

    days : number of days before a day with which the day is compared
    """
    dates = [*days_before(log_dates, days), *log_dates]

    def read(name: str) -> pa.Table:
        few, wanted = warehouse.few_rows(TABLES[name], dates), [*words.UNIT_KEY, *COMPARED[name]]
        rows = warehouse.read(TABLES[name], dates).select(wanted).toArrow() if few is None else few
        return rows.select(wanted)

    jobs = read(words.JOBS)
    most_units = max(Counter(jobs["job_id"].to_pylist()).values(), default=0)
    if most_units < LEAST_DAYS and not warehouse.rows_by_day(TABLES[words.JOB_CHANGES], log_dates):
        return {}
    tables = {name: jobs if name == words.JOBS else read(name) for name in COMPARED}
    return {words.JOB_CHANGES: job_changes(points_of(tables), log_dates, days)}


def beside_culprits(
    warehouse: Warehouse, log_dates: Sequence[date], host_day: pa.Table, days: int
) -> dict[str, pa.Table]:
    """Return the rows of cause_evidence for these days.

    {} if no health is stored for these days and the `days` days before, and no evidence for these days.

    host_day : rows of these days
    days : number of earlier days that are read, to find checks that still fail and hosts that were slow
        before, and to count how often checks fail by chance
    """
    before = days_before(log_dates, days)
    with_health = warehouse.rows_by_day(TABLES[words.HOST_HEALTH], [*before, *log_dates])
    if not with_health and not warehouse.rows_by_day(TABLES[words.CAUSE_EVIDENCE], log_dates):
        return {}
    causes = warehouse.rows(TABLES[words.JOB_CAUSES], [*before, *log_dates])
    earlier = warehouse.rows(TABLES[words.HOST_DAY], before)
    columns = ["log_date", "host"]
    hosts = pa.concat_tables([earlier.select(columns), host_day.select(columns)])

    def health(day: date) -> pa.Table:
        table = TABLES[words.HOST_HEALTH]
        return warehouse.rows(table, [day]) if day in with_health else table.arrow_schema.empty_table()

    return {words.CAUSE_EVIDENCE: cause_evidence(health, causes, hosts, log_dates, days)}
