"""Causes of one or more days: what each costs the fleet."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from schemas.tables import TABLES
from schemas.vocabulary import CAUSE_DAY, UNIT_KEY

_HOURS: Final = ("recoverable_gpu_hours", "attributed_gpu_hours")


def cause_day(job_causes: DataFrame, job_slowdown: DataFrame) -> DataFrame:
    """Units in which each cause holds, and what it costs; one row per day and cause."""
    units = job_slowdown.select(*UNIT_KEY, "actual_total_s")
    is_flagged = F.col("is_cause") & F.col("flag_reason").isNotNull()
    return (
        job_causes.join(units, list(UNIT_KEY), "left")
        .groupBy("log_date", "cause")
        .agg(
            F.count("*").alias("replayed"),
            F.count_if("is_cause").alias("jobs"),
            F.count_if(is_flagged).alias("flagged_jobs"),
            *(F.sum(name).alias(name) for name in _HOURS),
            F.count_if(F.col("is_cause") & F.col("lost_fraction").isNotNull()).alias("analysed_jobs"),
            F.sum("lost_gpu_hours").alias("lost_gpu_hours"),
            F.sum(F.col("lost_fraction") * F.col("actual_total_s")).alias("lost_s"),
        )
        .select(*TABLES[CAUSE_DAY].column_names)
    )


def with_lost(job_slowdown: DataFrame, job_causes: DataFrame) -> DataFrame:
    """Add to units what they lose, lost_gpu_hours and lost_s: null where a unit is not analysed."""
    lost = job_causes.groupBy(*UNIT_KEY).agg(
        F.sum("lost_fraction").alias("lost_fraction"), F.sum("lost_gpu_hours").alias("lost_gpu_hours")
    )
    lost_s = F.col("lost_fraction") * F.col("actual_total_s")
    return job_slowdown.join(lost, list(UNIT_KEY), "left").withColumn("lost_s", lost_s)
