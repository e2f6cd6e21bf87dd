"""Causes of one or more days: what each costs the fleet."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from schemas.tables import TABLES
from schemas.vocabulary import CAUSE_DAY

_HOURS: Final = ("recoverable_gpu_hours", "attributed_gpu_hours")


def cause_day(job_causes: DataFrame) -> DataFrame:
    """Units in which each cause holds, and GPU-hours over all replayed units; one row per day and cause."""
    is_flagged = F.col("is_cause") & F.col("flag_reason").isNotNull()
    return (
        job_causes.groupBy("log_date", "cause")
        .agg(
            F.count("*").alias("replayed"),
            F.count_if("is_cause").alias("jobs"),
            F.count_if(is_flagged).alias("flagged_jobs"),
            *(F.sum(name).alias(name) for name in _HOURS),
        )
        .select(*TABLES[CAUSE_DAY].column_names)
    )
