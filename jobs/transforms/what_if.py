"""From rank_steps to the result tables: one simulation per unit, and the tables made from its one result."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from schemas.tables import TABLES
from schemas.vocabulary import (
    CAUSES,
    DP_RANK_SLOWDOWN,
    HOST_CLOCK,
    JOB_CAUSES,
    JOB_SLOWDOWN,
    REPLAYED_STATUSES,
    RESULT_TABLES,
    STAGE_SLOWDOWN,
    STEP_SLOWDOWN,
    UNIT_KEY,
    WORKER_SLOWDOWN,
)
from udfs.unit_batches import MANIFEST, RESULT_SCHEMA, SIMULATED_COLUMNS, UnitReader, simulate_batches
from udfs.what_if import SimulationSettings

_ROW_ORDER = ("pp_rank", "step", "dp_rank", "cp_rank", "tp_rank", "rank")


def simulated(rows: DataFrame, settings: SimulationSettings, read: UnitReader | None = None) -> DataFrame:
    """Simulate every unit of a frame; one row per unit, its result tables as lists of structs.

    read : makes units of the frame's batches; without, they are as unit_rows arranges them
    """
    return rows.mapInArrow(simulate_batches(settings, read), from_arrow_schema(RESULT_SCHEMA))


def manifests_of(jobs: DataFrame) -> DataFrame:
    """Rows of jobs as JSON, by unit."""
    facts = F.to_json(F.struct(*[F.col(name) for name in jobs.columns if name not in UNIT_KEY]))
    return jobs.select(*UNIT_KEY, facts.alias(MANIFEST))


def unit_rows(rank_steps: DataFrame, jobs: DataFrame, partitions: int) -> DataFrame:
    """Rows as the simulation reads them: unit by unit, the manifest first.

    Rows travel whole, ops inside as arrays, and each unit's manifest leads its rows: no unit is lost for want
    of rows, and no table of manifests has to fit the driver.

    partitions : tasks that share the units; given, because adaptive execution would make one of them.
    """
    manifests = manifests_of(jobs)
    rows = rank_steps.select(*UNIT_KEY, *SIMULATED_COLUMNS)
    return (
        manifests.unionByName(rows, allowMissingColumns=True)
        .repartition(partitions, *UNIT_KEY)
        .sortWithinPartitions(*UNIT_KEY, F.col(MANIFEST).isNull(), *_ROW_ORDER)
    )


def result_rows(results: DataFrame) -> dict[str, DataFrame]:
    """Rows of every result table, by table name."""
    return {
        name: results.select(*UNIT_KEY, F.explode(name).alias("row"))
        .select(*UNIT_KEY, "row.*")
        .select(*TABLES[name].column_names)
        for name in RESULT_TABLES
    }


def incomplete_units(results: DataFrame) -> DataFrame:
    """Units whose result tables do not belong together: a row missing, or one where none should be.

    A replayed unit has a row in every table: one per step, per worker, per clock, per stage and per dp rank
    that has workers, and per cause.
    """
    job, workers = F.col(JOB_SLOWDOWN)[0], F.col(WORKER_SLOWDOWN)
    is_replayed = job["status"].isin(*REPLAYED_STATUSES)
    others = [F.size(name) for name in RESULT_TABLES if name != JOB_SLOWDOWN]
    some_missing = F.least(*others) == 0
    miscounted = (
        (F.size(STEP_SLOWDOWN) != job["steps"])
        | (F.size(WORKER_SLOWDOWN) != job["workers"])
        | (F.size(HOST_CLOCK) != job["clocks"])
        | (F.size(STAGE_SLOWDOWN) != F.size(F.array_distinct(workers["pp_rank"])))
        | (F.size(DP_RANK_SLOWDOWN) != F.size(F.array_distinct(workers["dp_rank"])))
        | (F.size(JOB_CAUSES) != len(CAUSES))
    )
    is_complete = (
        F.when(F.size(JOB_SLOWDOWN) != 1, F.expr("false"))
        .when(is_replayed, ~some_missing & ~miscounted)
        .otherwise(F.greatest(*others) == 0)
    )
    return results.where(~F.coalesce(is_complete, F.expr("false"))).select(*UNIT_KEY)


def units_without_result(jobs: DataFrame, results: DataFrame) -> DataFrame:
    """Units of `jobs` that the simulation lost, and units it made up."""
    wanted = jobs.select(*UNIT_KEY, F.lit(1).alias("side"))
    both = wanted.unionByName(results.select(*UNIT_KEY, F.lit(2).alias("side")))
    sides = both.groupBy(*UNIT_KEY).agg(F.count_distinct("side").alias("sides"))  # no join, and no broadcast
    return sides.where(F.col("sides") < 2).select(*UNIT_KEY)
