"""Small frames: collected once, several together, and from then on held by the driver.

A night of a few jobs has tables of tens of rows. To Spark each look at them, to count, to check, to write, is
another plan and another job, which take longer than all the rows do. What the driver holds, Spark's optimizer
filters by itself, in one partition, so that nothing is shuffled.
"""

from collections.abc import Mapping
from functools import reduce
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

MOST_ROWS: Final = 20_000
"""Of a frame that the driver holds: some megabytes, of rows that hold no ops."""


def few_rows(frames: Mapping[str, DataFrame]) -> dict[str, pa.Table]:
    """Collect those of the frames that have few rows, by their names, in one query.

    Of a frame with more rows nothing is returned: it has been computed in part.
    """
    found = collected({name: frame.limit(MOST_ROWS + 1) for name, frame in frames.items()})
    return {name: table for name, table in found.items() if table.num_rows <= MOST_ROWS}


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
    """Rows of the one frame whose structs these are; those of the others are null in it."""
    own = structs.filter(pc.is_valid(structs))
    return pa.Table.from_struct_array(own).select(columns)


def local(frame: DataFrame, rows: pa.Table) -> DataFrame:
    """The same frame, of its rows that the driver holds, in one partition."""
    return frame.sparkSession.createDataFrame(rows, schema=frame.schema).coalesce(1)


def held(frame: DataFrame) -> DataFrame:
    """The rows of a small frame, computed now, held by the driver: cut off from the tables they came from.

    What Spark caches of a table it forgets when that table is written, and computes again from the new rows;
    the blocks of a local checkpoint are lost with their executor.
    """
    return local(frame, frame.toArrow())


def kept(frame: DataFrame, rows: Column) -> DataFrame:
    """Compute a frame, once: held by the driver where it has few rows, persisted otherwise.

    rows : how many rows a row of the frame stands for
    """
    frame.persist()
    if (frame.agg(F.sum(rows)).collect()[0][0] or 0) > MOST_ROWS:
        return frame
    few = held(frame)
    frame.unpersist()
    return few
