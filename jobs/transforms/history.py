"""What the warehouse knows beside each unit: other runs of its model, hosts that were slow in other jobs.

A few numbers per stage and op type of each unit and day; no ops are looked at again.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

from schemas.vocabulary import (
    CULPRIT_PATTERNS,
    JOB_CAUSES,
    JOB_SLOWDOWN,
    JOBS,
    OP_TYPE_SLOWDOWN,
    STAGE_SLOWDOWN,
    STATUS_ANALYSED,
    UNIT_KEY,
    WORKER_SLOWDOWN,
)
from udfs.kernel.cause import ALWAYS
from udfs.revise_causes import SLOW_WORKER
from udfs.revision_batches import CAUSES_TYPE, RUN_TYPE, WORKERS_TYPE, revise_column

HISTORY_TABLES: Final = (JOBS, JOB_SLOWDOWN, STAGE_SLOWDOWN, OP_TYPE_SLOWDOWN, JOB_CAUSES)
"""Tables of other units and days that the revision looks at."""

RUNS_A_DAY: Final = 8
"""So many runs of one kind a day are others held against: hundreds of the same model say no more."""

MOST_RUNS: Final = 32
"""So many runs, the latest, is a unit held against."""

_OF_JOB: Final = ("actual_step_s", "ideal_step_s", "gpu_hours", "ops_per_step")
_COMPARED: Final = ("ideal", "simulator_version")
"""Of another ideal, or another simulator, ideal durations are not the same thing."""

_LAYOUT: Final = ("dp_size", "pp_size", "tp_size", "cp_size", "vpp_size", "gpu_type")


def revised_results(
    results: DataFrame, tables: Mapping[str, DataFrame], days: int, minimum_runs: int
) -> DataFrame:
    """Results with their causes revised by what other jobs and earlier days say.

    results : one row per unit, its result tables as lists of structs.
    tables  : HISTORY_TABLES of these units, not revised yet, and of all units of the days before.
    days    : how many days before its own a unit is held against.
    """
    runs = runs_of_units(tables)
    alike = units_with_runs(runs, results.select(*UNIT_KEY), days)
    known = units_with_slow_hosts(alike, slow_workers(tables[JOB_CAUSES]), days)
    revise = arrow_udf(revise_column(minimum_runs), from_arrow_type(CAUSES_TYPE))
    names = [field.name for field in WORKERS_TYPE.value_type]
    workers = F.transform(WORKER_SLOWDOWN, lambda each: F.struct(*(each[name].alias(name) for name in names)))
    joined = results.join(known, [*UNIT_KEY], "left")
    told = F.when(F.col("unit").isNotNull(), workers)
    revised = joined.withColumn(JOB_CAUSES, revise(JOB_CAUSES, told, "unit", "runs", "slow_hosts"))
    return revised.select(*results.columns)


def runs_of_units(tables: Mapping[str, DataFrame]) -> DataFrame:
    """Every replayed unit as history keeps it: its key, kind, `is_analysed`, `run`.

    One shuffle for all tables together: each brings its own columns of the unit, the others are null.
    """
    model = F.coalesce("model", "job_id").alias("model")
    replayed = tables[JOB_SLOWDOWN].where("slowdown IS NOT NULL")
    measured = replayed.withColumn("ops_per_step", F.col("ops") / F.col("steps"))
    parts = (
        tables[JOBS].select(*UNIT_KEY, F.struct(model, *_LAYOUT).alias("kind")),
        measured.select(*UNIT_KEY, F.struct("status", *_COMPARED, *_OF_JOB).alias("job")),
        _of_struct(tables[STAGE_SLOWDOWN].where("usual_compute_s > 0"), "stages"),
        _of_struct(tables[OP_TYPE_SLOWDOWN].where("ideal_duration_s IS NOT NULL"), "op_types"),
    )
    together = parts[0]
    for part in parts[1:]:
        together = together.unionByName(part, allowMissingColumns=True)
    units = together.groupBy(*UNIT_KEY).agg(
        *(F.first(name, ignorenulls=True).alias(name) for name in ("kind", "job")),
        *(F.collect_list(name).alias(name) for name in ("stages", "op_types")),
    )
    known = units.where(F.col("kind").isNotNull() & (F.size("stages") == F.col("kind.pp_size")))
    fields = {name: F.col(name) for name in (*UNIT_KEY, "stages", "op_types")}
    fields |= {"dp_size": F.col("kind.dp_size")}
    fields |= {name: F.col(f"job.{name}") for name in _OF_JOB}
    return known.where(F.col("job").isNotNull()).select(
        *UNIT_KEY,
        F.to_json(F.struct("kind.*", *(f"job.{name}" for name in _COMPARED))).alias("kind"),
        (F.col("job.status") == STATUS_ANALYSED).alias("is_analysed"),
        F.struct(*(fields[field.name].alias(field.name) for field in RUN_TYPE)).alias("run"),
    )


def units_with_runs(runs: DataFrame, units: DataFrame, days: int) -> DataFrame:
    """Key, `unit` and the latest `runs` of the same kind, of each of the units."""
    wanted = F.broadcast(units.select("log_date").distinct().withColumn("is_wanted", F.lit(col=True)))
    by_day = (
        runs.join(wanted, "log_date", "left")
        .groupBy("kind", "log_date")
        .agg(
            F.collect_list(F.when(F.col("is_wanted"), F.col("run"))).alias("units"),
            F.sort_array(F.collect_list(F.when(F.col("is_analysed"), F.col("run")))).alias("runs"),
        )
    )
    of_kind = by_day.groupBy("kind").agg(
        F.flatten(F.collect_list("units")).alias("units"),
        F.flatten(F.collect_list(F.slice("runs", 1, RUNS_A_DAY))).alias("pool"),
    )
    found = of_kind.select(F.explode("units").alias("unit"), "pool")
    others = F.filter(
        "pool", lambda run: _is_before(run, F.col("unit"), days) & ~_is_same(run, F.col("unit"))
    )
    latest = F.slice(F.sort_array(others, asc=False), 1, MOST_RUNS)
    return found.select(
        *(F.col(f"unit.{name}").alias(name) for name in UNIT_KEY), "unit", latest.alias("runs")
    )


def slow_workers(job_causes: DataFrame) -> DataFrame:
    """Hosts of always slow workers, as units found them themselves: host, log_date, job_id, effect."""
    said = {
        name: F.when(F.col("unrevised").isNull(), F.col(name))
        .otherwise(F.col(f"unrevised.{name}"))
        .alias(name)
        for name in ("is_cause", "flag_reason", "culprits")
    }
    slow = job_causes.where(F.col("cause") == SLOW_WORKER).select("log_date", "job_id", *said.values())
    culprits = slow.where("is_cause AND flag_reason IS NULL").select(
        "log_date", "job_id", F.inline("culprits")
    )
    always = culprits.where(F.col("host").isNotNull() & (F.col("pattern") == CULPRIT_PATTERNS[ALWAYS]))
    return always.groupBy("host", "log_date", "job_id").agg(F.max("effect").alias("effect"))


def units_with_slow_hosts(units: DataFrame, slow: DataFrame, days: int) -> DataFrame:
    """Add `slow_hosts`: what other jobs found of hosts that hold a stage of the unit alone.

    units : key, unit, runs.
    slow  : host, log_date, job_id, effect.
    """
    alone = F.filter("unit.stages", lambda stage: F.size(stage["hosts"]) == 1)
    hosts = F.array_distinct(F.transform(alone, lambda stage: stage["hosts"][0]))
    at = units.select(*UNIT_KEY, F.explode(hosts).alias("host"))
    other = slow.select("host", F.col("log_date").alias("day"), F.col("job_id").alias("job"), "effect")
    age = F.date_diff("log_date", "day")
    met = at.join(other, "host").where((F.col("job") != F.col("job_id")) & age.between(0, days))
    found = met.groupBy(*UNIT_KEY).agg(
        F.collect_list(F.struct("host", F.col("job").alias("job_id"), "effect")).alias("slow_hosts")
    )
    return units.join(found, [*UNIT_KEY], "left")


def _of_struct(rows: DataFrame, name: str) -> DataFrame:
    """Key and one struct of the fields that a run keeps of such rows."""
    fields = [field.name for field in RUN_TYPE.field(name).type.value_type]
    return rows.select(*UNIT_KEY, F.struct(*fields).alias(name))


def _is_before(run: Column, unit: Column, days: int) -> Column:
    """Whether the run is of the unit's day or of one of the days before."""
    return F.date_diff(unit["log_date"], run["log_date"]).between(0, days)


def _is_same(run: Column, unit: Column) -> Column:
    same = run["log_date"] == unit["log_date"]
    return same & (run["job_id"] == unit["job_id"]) & (run["run_id"] == unit["run_id"])
