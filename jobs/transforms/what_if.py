"""From rank_steps to the result tables: one simulation per unit."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from schemas.vocabulary import UNIT_KEY
from udfs.unit_batches import MANIFEST, RESULT_SCHEMA, SIMULATED_COLUMNS, UnitReader, simulate_batches
from udfs.what_if import SimulationSettings

_ROW_ORDER = ("pp_rank", "step", "dp_rank", "cp_rank", "tp_rank", "rank")


def simulated(rows: DataFrame, settings: SimulationSettings, read: UnitReader | None = None) -> DataFrame:
    """Simulate every unit of a frame; rows of RESULT_SCHEMA.

    read : makes units of the frame's batches; without, they are as unit_rows arranges them
    """
    return rows.mapInArrow(simulate_batches(settings, read), from_arrow_schema(RESULT_SCHEMA))


def unit_rows(rank_steps: DataFrame, jobs: DataFrame, partitions: int) -> DataFrame:
    """Rows as the simulation reads them: unit by unit, the manifest first.

    Rows travel whole, ops inside as arrays, and each unit's manifest leads its rows: no unit is lost for want
    of rows, and no table of manifests has to fit the driver.

    partitions : tasks that share the units; given, because adaptive execution would make one of them.
    """
    facts = F.to_json(F.struct(*[F.col(name) for name in jobs.columns if name not in UNIT_KEY]))
    manifests = jobs.select(*UNIT_KEY, facts.alias(MANIFEST))
    rows = rank_steps.select(*UNIT_KEY, *SIMULATED_COLUMNS)
    return (
        manifests.unionByName(rows, allowMissingColumns=True)
        .repartition(partitions, *UNIT_KEY)
        .sortWithinPartitions(*UNIT_KEY, F.col(MANIFEST).isNull(), *_ROW_ORDER)
    )
