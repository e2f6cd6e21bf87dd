"""Aggregates of one or more days: the fleet, its hosts, and how much of it the figures cover.

Sums are stored and ratios left to the reader, so that days add up to months.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from schemas import groups
from schemas.tables import TABLES
from schemas.vocabulary import (
    COVERAGE_DAY,
    FLEET_DAY,
    HOST_DAY,
    REPLAYED_STATUSES,
    STATUSES,
)

_PERCENTILES = (50, 90, 99)


def fleet_day(units: DataFrame) -> DataFrame:
    """Units by status, GPU-hours, what is lost, and the distribution of waste; one row per day.

    units : of job_slowdown, with what they lose.
    """
    is_analysed = F.expr(groups.IS_ANALYSED)
    is_replayed = F.col("status").isin(*REPLAYED_STATUSES)
    waste = F.when(is_analysed, F.col("waste_fraction"))
    return (
        units.groupBy("log_date")
        .agg(
            F.count("*").alias("jobs"),
            *(F.count_if(F.col("status") == status).alias(status) for status in STATUSES),
            F.count_if(is_replayed).alias("replayed"),
            F.count_if(F.expr(groups.IS_STRAGGLING)).alias("straggling"),
            F.sum("gpu_hours").alias("gpu_hours"),
            F.sum(F.when(is_analysed, F.col("gpu_hours"))).alias("analysed_gpu_hours"),
            F.sum(F.when(is_analysed, F.col("wasted_gpu_hours"))).alias("wasted_gpu_hours"),
            F.sum("lost_gpu_hours").alias("lost_gpu_hours"),
            F.sum(F.when(is_analysed, F.col("actual_total_s"))).alias("analysed_s"),
            F.sum("lost_s").alias("lost_s"),
            *(F.percentile(waste, percent / 100).alias(f"waste_p{percent}") for percent in _PERCENTILES),
        )
        .select(*TABLES[FLEET_DAY].column_names)
    )


def host_day(worker_slowdown: DataFrame) -> DataFrame:
    """Workers, units and slowdowns of every host that a log names; one row per day and host."""
    return (
        worker_slowdown.where(F.col("host").isNotNull())
        .groupBy("log_date", "host")
        .agg(
            F.count("*").alias("workers"),
            F.max("slowdown").alias("worker_slowdown_max"),
            F.percentile("slowdown", 0.5).alias("worker_slowdown_median"),
            F.count_if("is_slowest").alias("times_slowest"),
            F.count_distinct("job_id", "run_id").alias("jobs"),
        )
        .select(*TABLES[HOST_DAY].column_names)
    )


def coverage_day(job_slowdown: DataFrame) -> DataFrame:
    """Units and GPU-hours of every status; one row per day and status that occurs."""
    return (
        job_slowdown.groupBy("log_date", "status")
        .agg(F.count("*").alias("jobs"), F.sum("gpu_hours").alias("gpu_hours"))
        .select(*TABLES[COVERAGE_DAY].column_names)
    )
