"""Two sets of results of the same units held against each other: a version before it becomes current."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from schemas.vocabulary import UNIT_KEY

ONLY_CURRENT: Final = "only in current"
ONLY_NEW: Final = "only in new"
_FACTS: Final = (
    "simulator_version",
    "simulation_settings",
    "status",
    "slowdown",
    "wasted_gpu_hours",
    "causes",
)


def results_with_causes(job_slowdown: DataFrame, job_causes: DataFrame) -> DataFrame:
    """One row per unit: its key, what is compared of it, and the causes that hold, by name."""
    held = job_causes.where("is_cause").groupBy(*UNIT_KEY)
    causes = held.agg(F.sort_array(F.collect_list("cause")).alias("causes"))
    both = job_slowdown.join(causes, list(UNIT_KEY), "left")
    none = F.array().cast("array<string>")
    return both.withColumn("causes", F.coalesce("causes", none)).select(*UNIT_KEY, *_FACTS)


def changed_units(current: DataFrame, new: DataFrame, tolerance: float) -> DataFrame:
    """Units that the new results see otherwise, one row each, the largest change of slowdown first.

    current, new : as results_with_causes returns them
    tolerance : up to this difference, relative to the larger of 1 and the current one, slowdowns are equal
    """
    renamed = new.select(*UNIT_KEY, *(F.col(name).alias(f"new_{name}") for name in _FACTS))
    both = current.join(renamed, list(UNIT_KEY), "full_outer")
    change = F.col("new_slowdown") - F.col("slowdown")
    # One that is there only once is told by the status; null is not more than anything.
    is_other = F.abs(change) > tolerance * F.greatest(F.lit(1.0), F.abs("slowdown"))
    in_both = F.col("status").isNotNull() & F.col("new_status").isNotNull()
    changes = F.filter(
        F.array(
            F.when(F.col("new_status").isNull(), ONLY_CURRENT),
            F.when(F.col("status").isNull(), ONLY_NEW),
            F.when(_differ("status") & in_both, "status"),
            F.when(is_other, "slowdown"),
            F.when(_differ("causes") & in_both, "causes"),
        ),
        lambda change: change.isNotNull(),
    )
    found = both.withColumn("changes", changes).where(F.size("changes") > 0)
    return found.select(
        *UNIT_KEY,
        F.array_join("changes", ", ").alias("changed"),
        "status",
        "new_status",
        "slowdown",
        "new_slowdown",
        change.alias("slowdown_change"),
        F.array_join("causes", ", ").alias("causes"),
        F.array_join("new_causes", ", ").alias("new_causes"),
        (F.col("new_wasted_gpu_hours") - F.col("wasted_gpu_hours")).alias("wasted_gpu_hours_change"),
        "simulator_version",
        "new_simulator_version",
    ).orderBy(F.abs(change).desc_nulls_first(), *UNIT_KEY)


def _differ(name: str) -> Column:
    return ~F.col(name).eqNullSafe(F.col(f"new_{name}"))
