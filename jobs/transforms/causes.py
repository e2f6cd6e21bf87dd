"""Causes of one or more days: what each costs the fleet, and what must hold between the tables of causes."""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from schemas.fields import SAME_SUM
from schemas.tables import TABLES
from schemas.vocabulary import CAUSE_DAY, CAUSES

_HOURS: Final = ("recoverable_gpu_hours", "attributed_gpu_hours")
_COUNTS: Final = ("replayed", "jobs", "flagged_jobs")


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


def miscounted_causes(job_causes: DataFrame, causes: DataFrame, fleet: DataFrame) -> DataFrame:
    """Rows of cause_day that are not what job_causes says, and such that are missing or one too many.

    job_causes, causes, fleet : rows of job_causes, cause_day and fleet_day, of the same days.
    """
    key = ["log_date", "cause"]
    names = F.explode(F.array(*(F.lit(cause) for cause in CAUSES)))
    wanted = (
        fleet.where("replayed > 0")
        .select("log_date", names.alias("cause"), F.col("replayed").alias("replayed_fleet"))
        .join(cause_day(job_causes), key, "full_outer")
    )
    both = wanted.alias("wanted").join(causes.alias("found"), key, "full_outer")
    found_as_wanted = [("replayed", "replayed_fleet"), *((name, name) for name in _COUNTS)]
    agree = [F.col(f"found.{name}").eqNullSafe(F.col(f"wanted.{other}")) for name, other in found_as_wanted]
    agree += [_agree(F.col(f"found.{name}"), F.col(f"wanted.{name}"), SAME_SUM) for name in _HOURS]
    return both.where(~reduce(Column.__and__, agree)).select(*key)


def _agree(left: Column, right: Column, tolerance: float) -> Column:
    """Both null, or equal relative to the larger of 1 and the right one; never null."""
    is_close = F.abs(left - right) <= tolerance * F.greatest(F.lit(1.0), F.abs(right))
    return (left.isNull() & right.isNull()) | F.coalesce(is_close, F.expr("false"))
