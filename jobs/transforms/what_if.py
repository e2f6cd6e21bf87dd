"""From rank_steps to the result tables: one simulation per unit."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from schemas.unit import Unit
from schemas.vocabulary import UNIT_KEY
from udfs.simulate.unit_batches import (
    RESULT_SCHEMA,
    SIMULATED_COLUMNS,
    UnitReader,
    simulate_batches,
    simulate_group,
)
from udfs.what_if import SimulationSettings


def simulated(tasks: DataFrame, settings: SimulationSettings, read: UnitReader) -> DataFrame:
    """Simulate the units that `read` makes of each task's batch; rows of RESULT_SCHEMA."""
    return tasks.mapInArrow(simulate_batches(settings, read), from_arrow_schema(RESULT_SCHEMA))


def simulated_by_shuffle(
    rank_steps: DataFrame,
    manifests: Mapping[Unit, Mapping[str, Any]],
    settings: SimulationSettings,
    partitions: int,
) -> DataFrame:
    """Bring the rows of each unit together, wherever they lie, and simulate it; rows of RESULT_SCHEMA.

    partitions : tasks that share the units; given, because adaptive execution would make one of them.
    """
    rows = rank_steps.select(*UNIT_KEY, *SIMULATED_COLUMNS).repartition(partitions, *UNIT_KEY)
    return rows.groupBy(*UNIT_KEY).applyInArrow(
        simulate_group(settings, manifests), from_arrow_schema(RESULT_SCHEMA)
    )
