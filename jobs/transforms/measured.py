"""Results as they were measured, from the tables that hold them revised."""

from collections.abc import Mapping
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from schemas.job_causes import UNREVISED
from schemas.tables import TABLES
from schemas.vocabulary import JOB_BASELINE, JOB_CAUSES, JOB_SLOWDOWN, UNIT_KEY, WORKER_SLOWDOWN

MEASURED_TABLES: Final = (JOB_BASELINE, JOB_SLOWDOWN, JOB_CAUSES, WORKER_SLOWDOWN)
"""What a revision looks at: no ops, nothing by step."""

_HOURS: Final = {
    "recoverable_gpu_hours": "time_saved_fraction",
    "attributed_gpu_hours": "attributed_fraction",
}


def measured_results(tables: Mapping[str, DataFrame]) -> DataFrame:
    """One row per replayed unit, these tables as lists of structs, with causes as before any revision.

    Lists are in the simulation's order, workers by dp_rank and pp_rank: culprits that tie are told in it.
    """
    causes = _unrevised(tables[JOB_CAUSES], tables[JOB_SLOWDOWN])
    frames = {**tables, JOB_CAUSES: causes}
    lists = (_listed(name, frames[name]) for name in MEASURED_TABLES)
    return reduce(lambda left, right: left.join(right, list(UNIT_KEY)), lists)


def _unrevised(job_causes: DataFrame, job_slowdown: DataFrame) -> DataFrame:
    """Rows of job_causes as they were before they were revised; hours follow from their fractions."""
    names = [field.name for field in UNREVISED]
    is_revised = F.col("unrevised").isNotNull()
    before = {name: F.when(is_revised, F.col("unrevised")[name]).otherwise(F.col(name)) for name in names}
    hours = {name: F.col("unit_gpu_hours") * before[fraction] for name, fraction in _HOURS.items()}
    units = job_slowdown.select(*UNIT_KEY, F.col("gpu_hours").alias("unit_gpu_hours"))
    nothing = F.lit(None).cast(from_arrow_type(UNREVISED))
    changed = job_causes.join(units, list(UNIT_KEY)).withColumns({**before, **hours, "unrevised": nothing})
    return changed.select(*job_causes.columns)


def _listed(name: str, rows: DataFrame) -> DataFrame:
    """Rows of a table by unit."""
    row = F.struct(*TABLES[name].value_schema.names)
    listed = F.collect_list(row)
    if name == WORKER_SLOWDOWN:  # the one that begins with what orders it
        listed = F.sort_array(listed)
    return rows.groupBy(*UNIT_KEY).agg(listed.alias(name))
