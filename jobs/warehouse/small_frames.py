"""Small frames: several collected in one query.

A night of a few jobs has tables of tens of rows. Spark makes a plan and a job for each, which take
longer than the rows themselves.
"""

from collections.abc import Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType


def collected(frames: Mapping[str, DataFrame]) -> dict[str, pa.Table]:
    """Collect frames, by their names, in one query."""
    if not frames:
        return {}
    parts = [frame.select(_row(frame).alias(name)) for name, frame in frames.items()]
    rows = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts).toArrow()
    return {name: _of_frame(rows[name], frame.columns) for name, frame in frames.items()}


def _row(frame: DataFrame) -> Column:
    """All columns as one, each nullable: Arrow fills them where another frame has its rows."""
    return F.struct("*").cast(StructType([StructField(each.name, each.dataType) for each in frame.schema]))


def _of_frame(structs: pa.ChunkedArray, columns: list[str]) -> pa.Table:
    """Rows of the frame whose structs these are; rows of others are null in it."""
    own = structs.filter(pc.is_valid(structs))
    return pa.Table.from_struct_array(own).select(columns)
