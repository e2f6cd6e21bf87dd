"""Aggregates per day, of the fleet, causes, hosts, groups, op types and coverage.

Sums are stored and ratios left to the reader, so that days and groups add up.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from schemas import groups
from schemas import vocabulary as words
from schemas.intervals import half_of_sum, variance
from schemas.job_causes import SUMS_OF_HOURS
from schemas.table import sql_strings
from schemas.tables import TABLES
from schemas.vocabulary import Status
from udfs.power.days import READ

_STATED: Final = tuple(name for name in groups.DIMENSIONS if name not in {groups.FLEET, "size_bucket"})
"""Dimensions of groups that are columns of the table jobs."""


def _sum_where(condition: str, name: str) -> str:
    return f"sum(CASE WHEN {condition} THEN {name} END)"


_OF_UNITS: Final = {
    "jobs": "count(*)",
    "replayed": f"count_if(status IN ({sql_strings(words.REPLAYED_STATUSES)}))",
    "analysed": f"count_if({groups.IS_ANALYSED})",
    "straggling": f"count_if({groups.IS_STRAGGLING})",
    "gpu_hours": "sum(gpu_hours)",
    "analysed_gpu_hours": _sum_where(groups.IS_ANALYSED, "gpu_hours"),
    "wasted_gpu_hours": _sum_where(groups.IS_ANALYSED, "wasted_gpu_hours"),
    "lost_gpu_hours": "sum(lost_gpu_hours)",
    "analysed_s": _sum_where(groups.IS_ANALYSED, "actual_total_s"),
    "lost_s": "sum(lost_s)",
}
"""SQL of the figures of the fleet and of each group, by column."""


def with_lost(job_slowdown: DataFrame, job_causes: DataFrame) -> DataFrame:
    """Add lost_gpu_hours and lost_s to units; both are null if a unit is not analysed."""
    lost = job_causes.groupBy(*words.UNIT_KEY).agg(
        F.sum("lost_fraction").alias("lost_fraction"), F.sum("lost_gpu_hours").alias("lost_gpu_hours")
    )
    lost_s = F.expr("lost_fraction * actual_total_s")
    return job_slowdown.join(lost, list(words.UNIT_KEY), "left").withColumn("lost_s", lost_s)


def fleet_day(units: DataFrame) -> DataFrame:
    """Return counts of units by status, GPU-hours, losses, and the distribution of waste; one row per day.

    units : rows of `with_lost`
    """
    waste = f"CASE WHEN {groups.IS_ANALYSED} THEN waste_fraction END"
    figures = {status: f"count_if(status = '{status}')" for status in words.STATUSES} | _OF_UNITS
    figures |= {f"waste_p{percent}": f"percentile({waste}, {percent / 100})" for percent in (50, 90, 99)}
    return _by_day(words.FLEET_DAY, units, figures)


def _sum_of_intervals(name: str, least: str) -> dict[str, str]:
    """Return SQL for both bounds of a sum of SUMS_OF_HOURS; null if any unit's bounds are unknown.

    The errors of different units are taken as independent.

    name : one of SUMS_OF_HOURS
    least : SQL of the lowest value that the sum may have; NULL if there is no such value
    """
    half = f"greatest({name}_high - {name}, {name} - {name}_low)"
    # SQL's least() ignores nulls, but a unit that is not in the sum must not add to the sum's error.
    unsure = "coalesce(diagnosis_error_fraction * gpu_hours, 0)"
    shared = f"CASE WHEN {half} IS NOT NULL THEN least({unsure}, {half}) END"
    own = variance(half, shared)
    is_known = f"{SUMS_OF_HOURS[name]} IS NOT NULL AND count({name}) = count({name}_high)"
    error = half_of_sum(f"sum({own})", f"sum({own} * {own} / interval_freedom)", f"sum({shared} * {shared})")
    ends = {"low": f"greatest({least}, sum({name}) - {error})", "high": f"sum({name}) + {error}"}
    return {f"{name}_{end}": f"CASE WHEN {is_known} THEN {sql} END" for end, sql in ends.items()}


def cause_day(job_causes: DataFrame, job_slowdown: DataFrame) -> DataFrame:
    """Return how many units have each cause, and what the cause costs; one row per day and cause."""
    figures = {
        "replayed": "count(*)",
        "jobs": "count_if(is_cause)",
        "flagged_jobs": "count_if(is_cause AND flag_reason IS NOT NULL)",
        "analysed_jobs": "count_if(is_cause AND lost_fraction IS NOT NULL)",
        "lost_s": "sum(lost_fraction * actual_total_s)",
    } | SUMS_OF_HOURS
    for name in SUMS_OF_HOURS:
        figures |= _sum_of_intervals(name, "0D" if name == "lost_gpu_hours" else "CAST(NULL AS DOUBLE)")
    units = job_slowdown.select(*words.UNIT_KEY, "actual_total_s", "gpu_hours")
    return _by_day(words.CAUSE_DAY, job_causes.join(units, list(words.UNIT_KEY), "left"), figures, "cause")


def host_day(worker_slowdown: DataFrame) -> DataFrame:
    """Return numbers of workers and units, and slowdowns, of each logged host; one row per day and host."""
    figures = {
        "workers": "count(*)",
        "worker_slowdown_max": "max(slowdown)",
        "worker_slowdown_median": "percentile(slowdown, 0.5)",
        "times_slowest": "count_if(is_slowest)",
        "jobs": "count(DISTINCT job_id, run_id)",
    }
    return _by_day(words.HOST_DAY, worker_slowdown.where("host IS NOT NULL"), figures, "host")


def coverage_day(job_slowdown: DataFrame) -> DataFrame:
    """Return the number and GPU-hours of units with each status; one row per day and status that occurs."""
    figures = {name: _OF_UNITS[name] for name in ("jobs", "gpu_hours")}
    return _by_day(words.COVERAGE_DAY, job_slowdown, figures, "status")


def group_day(units: DataFrame, jobs: DataFrame) -> DataFrame:
    """Return counts, GPU-hours and losses per group; one row per day, dimension and group that occurs.

    units : rows of `with_lost`
    """
    drivers = {
        "worker_driven": groups.IS_WORKER_DRIVEN,
        "stage_driven": groups.IS_STAGE_DRIVEN,
        "sequence_driven": groups.IS_SEQUENCE_DRIVEN,
    }
    figures = {name: f"count_if({groups.IS_STRAGGLING} AND {sql})" for name, sql in drivers.items()}
    figures |= _OF_UNITS | {"straggling_gpu_hours": _sum_where(groups.IS_STRAGGLING, "gpu_hours")}
    stated = units.join(jobs.select(*words.UNIT_KEY, *_STATED), list(words.UNIT_KEY), "left")
    of_groups = stated.withColumn("one", F.explode(F.expr(groups.GROUPS))).select("*", "one.*")
    return _by_day(words.GROUP_DAY, of_groups, figures, "dimension", "value")


def op_type_day(op_type_slowdown: DataFrame, job_slowdown: DataFrame) -> DataFrame:
    """Return the GPU-hours that each op type alone wastes in analysed units; a row per day and op type."""
    figures = {
        "jobs": "count(*)",
        "slowed": f"count_if(slowdown >= {words.STRAGGLING_SLOWDOWN})",
        "gpu_hours": "sum(gpu_hours)",
        "wasted_gpu_hours": "sum(gpu_hours * waste_fraction)",
    }
    analysed = job_slowdown.where(f"status = '{Status.ANALYSED}'").select(*words.UNIT_KEY, "gpu_hours")
    return _by_day(
        words.OP_TYPE_DAY, op_type_slowdown.join(analysed, list(words.UNIT_KEY)), figures, "op_type"
    )


def power_units(job_power: DataFrame, jobs: DataFrame) -> DataFrame:
    """Return the columns of each unit that power_tables needs."""
    stated = jobs.select(*words.UNIT_KEY, *READ[words.JOBS])
    return job_power.select(*words.UNIT_KEY, *READ[words.JOB_POWER]).join(stated, list(words.UNIT_KEY))


def _by_day(name: str, rows: DataFrame, figures: Mapping[str, str], *by: str) -> DataFrame:
    """Aggregate rows by day and the columns `by`; figures : SQL expression by column"""
    found = rows.groupBy("log_date", *by).agg(*(F.expr(sql).alias(each) for each, sql in figures.items()))
    return found.select(*TABLES[name].column_names)
