"""Rows that say again what an earlier line of their unit has said: one (rank, step) counts once."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from schemas.vocabulary import REASON_DUPLICATE_RANK_STEP, UNIT_KEY
from udfs.landed_rows import PLACE

_STEP_OF_RANK: Final = (*UNIT_KEY, "step", "rank")


def repeated_steps(rows: DataFrame) -> DataFrame:
    """Return each (rank, step) that is there more than once in its unit, and `first`, the first's PLACE."""
    found = rows.groupBy(*_STEP_OF_RANK).agg(
        F.count("*").alias("times"), F.min(F.struct(*PLACE)).alias("first")
    )
    return found.where(F.col("times") > 1).drop("times")


def duplicates(rows: DataFrame, repeated: DataFrame) -> DataFrame:
    """Return all rows but the first of each repeated step, as landed.rejects_of returns rejects.

    Their text is null: it is not kept with rows.
    """
    later = rows.select(*_STEP_OF_RANK, *PLACE).join(repeated, [*_STEP_OF_RANK])
    told = "rank %d, step %d is already in %s"
    return later.where(F.struct(*PLACE) > F.col("first")).select(
        *UNIT_KEY,
        *PLACE,
        F.lit(REASON_DUPLICATE_RANK_STEP).alias("reason"),
        F.format_string(told, "rank", "step", F.col("first")["source_file"]).alias("detail"),
        F.lit(None).cast("string").alias("text"),
    )


def without(rows: DataFrame, rejected: DataFrame) -> DataFrame:
    """Return the rows that are not among the rejected; their order is lost."""
    return rows.join(rejected.select(*PLACE), [*PLACE], "left_anti")
