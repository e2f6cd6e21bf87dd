"""What has risen out of its own past: the fleet's waste, and hosts."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

WASTE: Final = "try_divide(wasted_gpu_hours, analysed_gpu_hours)"
"""SQL, of a row of fleet_day; null where no analysed unit states its GPU-hours."""

_OF_A_NORMAL: Final = 1.4826
"""Standard deviations in a median absolute deviation, were the past normal."""


def risen(
    now: DataFrame, past: DataFrame, key: Sequence[str], minimum_days: int, deviations: float, rise: float
) -> DataFrame:
    """Rows of `now` whose `value` stands out above that of the same key in the past.

    Columns beside the key: value, usual (the median of the past) and days (of the past).
    """
    known = past.where("value IS NOT NULL")
    usual = known.groupBy(*key).agg(F.median("value").alias("usual"), F.count("*").alias("days"))
    spread = known.join(usual, list(key)).groupBy(*key)
    deviation = spread.agg(F.median(F.abs(F.col("value") - F.col("usual"))).alias("deviation"))
    limit = F.col("usual") + F.greatest(F.lit(rise), deviations * _OF_A_NORMAL * F.col("deviation"))
    held = now.join(usual, list(key)).join(deviation, list(key))
    found = held.where((F.col("days") >= minimum_days) & (F.col("value") > limit))
    return found.select(*key, "value", "usual", "days").orderBy(F.desc("value"), *key)


def fleet_values(fleet: DataFrame) -> DataFrame:
    """The fleet's waste, one row per day: one key for all of them."""
    return fleet.select(F.lit("fleet").alias("what"), F.expr(WASTE).alias("value"))


def host_values(hosts: DataFrame) -> DataFrame:
    """How slow each host's slowest worker was, one row per day and host."""
    slowest: Column = F.col("worker_slowdown_max")
    return hosts.select("host", slowest.alias("value"))
