"""Aggregates of groups of units, and of op types: sums, so that any days and groups add up."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from schemas import groups
from schemas.tables import TABLES
from schemas.vocabulary import (
    GROUP_DAY,
    OP_TYPE_DAY,
    REPLAYED_STATUSES,
    STATUS_ANALYSED,
    STRAGGLING_SLOWDOWN,
    UNIT_KEY,
)

_STATED = tuple(name for name in groups.DIMENSIONS if name not in {groups.FLEET, "size_bucket"})
"""Dimensions that are columns of jobs."""


def group_day(units: DataFrame, jobs: DataFrame) -> DataFrame:
    """Counts, GPU-hours and losses of every group; one row per day, dimension and group that occurs.

    units : of job_slowdown, with what they lose.
    """
    is_analysed, is_straggling = F.expr(groups.IS_ANALYSED), F.expr(groups.IS_STRAGGLING)
    drivers = {
        "worker_driven": groups.IS_WORKER_DRIVEN,
        "stage_driven": groups.IS_STAGE_DRIVEN,
        "sequence_driven": groups.IS_SEQUENCE_DRIVEN,
    }
    stated = units.join(jobs.select(*UNIT_KEY, *_STATED), list(UNIT_KEY), "left")
    return (
        stated.withColumn("one", F.explode(F.expr(groups.GROUPS)))
        .groupBy("log_date", F.col("one.dimension").alias("dimension"), F.col("one.value").alias("value"))
        .agg(
            F.count("*").alias("jobs"),
            F.count_if(F.col("status").isin(*REPLAYED_STATUSES)).alias("replayed"),
            F.count_if(is_analysed).alias("analysed"),
            F.count_if(is_straggling).alias("straggling"),
            *(
                F.count_if(is_straggling & F.expr(condition)).alias(name)
                for name, condition in drivers.items()
            ),
            F.sum("gpu_hours").alias("gpu_hours"),
            _sum_where(is_analysed, "gpu_hours").alias("analysed_gpu_hours"),
            _sum_where(is_straggling, "gpu_hours").alias("straggling_gpu_hours"),
            _sum_where(is_analysed, "wasted_gpu_hours").alias("wasted_gpu_hours"),
            F.sum("lost_gpu_hours").alias("lost_gpu_hours"),
            _sum_where(is_analysed, "actual_total_s").alias("analysed_s"),
            F.sum("lost_s").alias("lost_s"),
        )
        .select(*TABLES[GROUP_DAY].column_names)
    )


def op_type_day(op_type_slowdown: DataFrame, job_slowdown: DataFrame) -> DataFrame:
    """What each op type alone costs the analysed units; one row per day and op type that occurs."""
    analysed = job_slowdown.where(F.col("status") == STATUS_ANALYSED).select(*UNIT_KEY, "gpu_hours")
    return (
        op_type_slowdown.join(analysed, list(UNIT_KEY))
        .groupBy("log_date", "op_type")
        .agg(
            F.count("*").alias("jobs"),
            F.count_if(F.col("slowdown") >= STRAGGLING_SLOWDOWN).alias("slowed"),
            F.sum("gpu_hours").alias("gpu_hours"),
            F.sum(F.col("gpu_hours") * F.col("waste_fraction")).alias("wasted_gpu_hours"),
        )
        .select(*TABLES[OP_TYPE_DAY].column_names)
    )


def _sum_where(condition: Column, name: str) -> Column:
    return F.sum(F.when(condition, F.col(name)))
