"""Causes revised by what the warehouse knows beside each unit: other runs of its model, hosts slow elsewhere.

A few numbers per stage and op type of each unit and day (job_baseline); no ops are looked at again.
"""

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Final, cast

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import DataType

from jobs.transforms.causes import HOURS_OF_FRACTIONS
from schemas.job_causes import UNREVISED
from schemas.tables import TABLES
from schemas.vocabulary import (
    JOB_BASELINE,
    JOB_CAUSES,
    JOB_SLOWDOWN,
    STATUS_ANALYSED,
    UNIT_KEY,
    WORKER_SLOWDOWN,
)
from udfs.revision_batches import CAUSES_TYPE, WORKERS_TYPE, revise_column

MEASURED_TABLES: Final = (JOB_BASELINE, JOB_SLOWDOWN, JOB_CAUSES, WORKER_SLOWDOWN)
"""What a revision looks at: no ops, nothing by step."""

RUNS_A_DAY: Final = 8
"""So many runs of one kind a day are others held against: hundreds of the same model say no more."""

MOST_RUNS: Final = 32
"""So many runs, the latest, is a unit held against."""

_arrow_udf: Final = cast("Callable[[Callable[..., Any], DataType], Callable[[Column], Column]]", arrow_udf)
"""Its stub wants what its own documentation advises against: a type of function beside the type hints."""

_LAYOUT: Final = ("gpu_type", "dp_size", "pp_size", "cp_size", "vpp_size", "world_size")
_MEASURE: Final = ("ideal", "simulator_version")
"""Of another ideal, or another simulator, ideal durations are not the same thing."""

_RUN: Final = (*UNIT_KEY, "ops_per_step", "ideal_step_s", "stages", "op_types")


def measured_results(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per replayed unit, these tables as lists of structs, with causes as before any revision.

    Lists are in the simulation's order, workers by dp_rank and pp_rank: culprits that tie are told in it.
    """
    causes = _unrevised(tables[JOB_CAUSES], tables[JOB_SLOWDOWN])
    frames = {**tables, JOB_CAUSES: causes}
    lists = (_listed(name, frames[name]) for name in MEASURED_TABLES)
    return reduce(lambda left, right: left.join(right, list(UNIT_KEY)), lists)


def _unrevised(job_causes: DataFrame, job_slowdown: DataFrame) -> DataFrame:
    """Rows of job_causes as they were before they were revised; hours follow from their fractions."""
    names = [field.name for field in UNREVISED]
    is_revised = F.col("unrevised").isNotNull()
    before = {name: F.when(is_revised, F.col("unrevised")[name]).otherwise(F.col(name)) for name in names}
    hours = {
        name: F.col("unit_gpu_hours") * before[fraction] for name, fraction in HOURS_OF_FRACTIONS.items()
    }
    units = job_slowdown.select(*UNIT_KEY, F.col("gpu_hours").alias("unit_gpu_hours"))
    nothing = F.lit(None).cast(from_arrow_type(UNREVISED))
    changed = job_causes.join(units, list(UNIT_KEY)).withColumns({**before, **hours, "unrevised": nothing})
    return changed.select(*job_causes.columns)


def _listed(name: str, rows: DataFrame) -> DataFrame:
    """Rows of a table by unit."""
    row = F.struct(*TABLES[name].value_schema.names)
    listed = F.collect_list(row)
    if name == WORKER_SLOWDOWN:  # the one that begins with what orders it
        listed = F.sort_array(listed)
    return rows.groupBy(*UNIT_KEY).agg(listed.alias(name))


def revised_results(results: DataFrame, earlier: DataFrame, days: int, minimum_runs: int) -> DataFrame:
    """Results with their causes revised by what other jobs and earlier days say.

    results : one row per unit, its result tables as lists of structs.
    earlier : rows of job_baseline of other days.
    days    : how many days before its own a unit is held against.
    minimum_runs : of the same model; from fewer nothing is concluded.
    """
    own = F.get(JOB_BASELINE, 0)  # null where the unit was not replayed
    now = results.where(F.size(JOB_BASELINE) > 0).select(*UNIT_KEY, F.inline(JOB_BASELINE))
    known = now.unionByName(earlier.select(*TABLES[JOB_BASELINE].column_names))
    told = (
        results.withColumn("kind", _kind(own.getField))
        .join(runs_by_kind(known), "kind", "left")
        .crossJoin(F.broadcast(slow_hosts(known)))
    )
    unit = F.struct(
        "job_id",
        F.col(JOB_SLOWDOWN)[0]["gpu_hours"].alias("gpu_hours"),
        F.col(JOB_CAUSES).alias("causes"),
        _workers().alias("workers"),
        own.alias("baseline"),
        latest_runs(F.col("pool"), days).alias("runs"),
        F.filter("slow", lambda each: _is_before(each["log_date"], F.col("log_date"), days)).alias(
            "slow_hosts"
        ),
    )
    revise = _arrow_udf(revise_column(minimum_runs), from_arrow_type(CAUSES_TYPE))
    return told.withColumn(JOB_CAUSES, revise(unit)).select(*results.columns)


def runs_by_kind(baselines: DataFrame) -> DataFrame:
    """`kind` and `pool`, all runs of the same model and layout that count, some of each day."""
    analysed = baselines.where(F.col("status") == STATUS_ANALYSED)
    runs = analysed.select(_kind(F.col).alias("kind"), "log_date", F.struct(*_RUN).alias("run"))
    by_day = runs.groupBy("kind", "log_date").agg(F.sort_array(F.collect_list("run")).alias("runs"))
    some = F.collect_list(F.slice("runs", 1, RUNS_A_DAY))
    return by_day.groupBy("kind").agg(F.flatten(some).alias("pool"))


def slow_hosts(baselines: DataFrame) -> DataFrame:
    """One row: `slow`, the slow hosts of every unit and day."""
    slow = baselines.select("log_date", "job_id", F.inline("slow_hosts"))
    return slow.agg(F.collect_list(F.struct("log_date", "job_id", "host", "effect")).alias("slow"))


def latest_runs(pool: Column, days: int) -> Column:
    """Runs of the pool that a unit is held against: not itself, none later, the latest of them."""

    def counts(run: Column) -> Column:
        is_itself = F.lit(col=True)
        for name in UNIT_KEY:
            is_itself &= run[name] == F.col(name)
        return _is_before(run["log_date"], F.col("log_date"), days) & ~is_itself

    return F.slice(F.sort_array(F.filter(pool, counts), asc=False), 1, MOST_RUNS)


def _kind(of: Callable[[str], Column]) -> Column:
    """What must be the same of two units that are compared, as text."""
    fields = [of(name).alias(name) for name in (*_LAYOUT, *_MEASURE)]
    return F.to_json(F.struct(F.coalesce(of("model"), F.col("job_id")).alias("model"), *fields))


def _is_before(day: Column, unit_day: Column, days: int) -> Column:
    """Whether a day is one of those before the unit's own.

    Not its own: the rows of a unit would then hang on which others of its day were late, or corrected.
    """
    return F.date_diff(unit_day, day).between(1, days)


def _workers() -> Column:
    """Who the workers are, without what they cost."""
    names = [field.name for field in WORKERS_TYPE.value_type]
    return F.transform(WORKER_SLOWDOWN, lambda each: F.struct(*(each[name].alias(name) for name in names)))
