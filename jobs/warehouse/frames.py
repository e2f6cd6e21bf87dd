"""Conversion of rows of tables between Arrow, files and Spark."""

from collections.abc import Callable, Mapping
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from schemas.table import Table


def spark_schema(table: Table) -> StructType:
    """Return the Spark schema of a table."""
    return from_arrow_schema(table.arrow_schema)


def with_columns(rows: DataFrame, schema: StructType) -> DataFrame:
    """Return rows with exactly these columns; missing columns and nested fields become null."""
    return rows.select(*_fields(lambda name: rows[name], rows.schema, schema))


def _fields(value: Callable[[str], Column], stored: StructType, wanted: StructType) -> list[Column]:
    """Select the wanted columns or fields by name, null where missing."""
    return [
        (
            _as(value(each.name), stored[each.name].dataType, each.dataType)
            if each.name in stored.names
            else F.lit(None).cast(each.dataType)
        ).alias(each.name)
        for each in wanted
    ]


def _as(value: Column, stored: DataType, wanted: DataType) -> Column:
    """Convert a value to the wanted nested type."""
    if isinstance(stored, ArrayType) and isinstance(wanted, ArrayType):
        of, to = stored.elementType, wanted.elementType
        return value if of == to else F.transform(value, lambda each: _as(each, of, to))
    if isinstance(stored, StructType) and isinstance(wanted, StructType) and stored != wanted:
        return F.when(value.isNotNull(), F.struct(*_fields(value.getField, stored, wanted)))
    return value


def collected(frames: Mapping[str, DataFrame]) -> dict[str, pa.Table]:
    """Collect several DataFrames with one query, by name.

    A night of a few jobs has tables of tens of rows: planning and running one Spark job for each takes longer
    than computing their rows.
    """
    if not frames:
        return {}
    parts = []
    for name, frame in frames.items():
        kind = StructType([StructField(each.name, each.dataType) for each in frame.schema])
        # One struct of all columns, which after the union is null in rows of other DataFrames.
        parts.append(frame.select(F.struct("*").cast(kind).alias(name)))
    rows = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts).toArrow()
    return {
        name: pa.Table.from_struct_array(pc.drop_null(rows[name])).select(frame.columns)
        for name, frame in frames.items()
    }
