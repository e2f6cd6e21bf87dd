"""SQL expressions that tables and views share: groups of units, and conditions such as straggling."""

from typing import Final

from schemas import vocabulary as words
from schemas.table import sql_strings
from schemas.vocabulary import Status

FLEET: Final = "fleet"
DIMENSIONS: Final = (FLEET, "size_bucket", "team", "cluster", "model", "gpu_type", "framework")
"""Dimensions by which units are grouped; the fleet is one group."""

IS_ANALYSED: Final = f"(status = '{Status.ANALYSED}')"
IS_STRAGGLING: Final = f"({IS_ANALYSED} AND slowdown >= {words.STRAGGLING_SLOWDOWN!r})"
IS_WORKER_DRIVEN: Final = f"(slow_worker_share > {words.WHOLE_SHARE!r})"
IS_STAGE_DRIVEN: Final = f"(last_stage_share >= {words.WHOLE_SHARE!r})"
IS_SEQUENCE_DRIVEN: Final = f"(forward_backward_correlation >= {words.MOST_SIMILAR_CORRELATION!r})"
"""The paper's conditions on M_W, M_S and the correlation, for the columns of a unit and those of runs.sql."""

SIZE_BUCKET: Final = (
    "CASE "
    + " ".join(
        f"WHEN world_size < {bound} THEN '{name}'"
        for bound, name in zip(words.SIZE_BOUNDS, words.SIZE_BUCKETS, strict=False)
    )
    + f" WHEN world_size IS NOT NULL THEN '{words.SIZE_BUCKETS[-1]}' END"
)
"""SQL for the size bucket of world_size; null if world_size is null."""


def group_of(dimension: str) -> str:
    """Return SQL for a unit's group, such as its team; all units that state no team are one group."""
    value = {FLEET: f"'{FLEET}'", "size_bucket": SIZE_BUCKET}.get(dimension, dimension)
    return f"coalesce({value}, {sql_strings([words.NOT_STATED])})"


GROUPS: Final = "array({})".format(
    ", ".join(f"struct('{name}' AS dimension, {group_of(name)} AS value)" for name in DIMENSIONS)
)
"""SQL for all groups of a unit: an array with a struct of dimension and value for each dimension."""
