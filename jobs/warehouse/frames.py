"""Convert rows of tables between Arrow, files and Spark."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from jobs.runtime.places import is_url
from jobs.warehouse.file_frames import as_logged, frame_of_files
from jobs.warehouse.staging import STAGED_TABLES, StagedFile, remove
from schemas.table import Table
from schemas.tables import TABLES

_OF_ONE_TASK: Final = 32 << 20
"""Bytes of rows that travel with one task: Spark's messages hold 128 MB."""


@dataclass
class StagedRows:
    """Rows of one table in staged files, and whether a commit has adopted these files.

    scalars : the same rows, maybe with null in place of their lists, which may take long to read
    """

    rows: DataFrame
    scalars: DataFrame
    files: Sequence[StagedFile]
    root: str
    is_adopted: bool = False

    @property
    def num_rows(self) -> int:
        """Number of rows in the staged files."""
        return sum(file.rows for file in self.files)

    @property
    def are_sound(self) -> bool:
        """Whether the workers that wrote the files found all lists of numbers valid."""
        return all(file.is_sound for file in self.files)


Rows: TypeAlias = pa.Table | StagedRows
"""Rows of a table, in the driver, or already in files beside the table."""


def spark_schema(table: Table) -> StructType:
    """Spark schema of a table."""
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


def frame_of(spark: SparkSession, table: Table, rows: Rows) -> DataFrame:
    """Convert rows of a table to a DataFrame; rows from the driver are sorted by key."""
    if isinstance(rows, StagedRows):
        return rows.rows
    if table.differences(rows.schema):
        return spark.createDataFrame(rows)
    in_order = rows.select(table.column_names).sort_by([(name, "ascending") for name in table.grain])
    frame = spark.createDataFrame(in_order, spark_schema(table))
    return frame.coalesce(1) if rows.nbytes < _OF_ONE_TASK else frame


def scalars_of(rows: Rows, frame: DataFrame) -> DataFrame:
    """The DataFrame of rows, or a faster one with null in place of sound lists of numbers."""
    return rows.scalars if isinstance(rows, StagedRows) and rows.are_sound else frame


@contextmanager
def staged_rows(
    spark: SparkSession, files: Sequence[StagedFile], root: str
) -> Iterator[dict[str, StagedRows]]:
    """Yield the rows staged under a root, by table; files not adopted in the block are removed."""
    found = {}
    for name in STAGED_TABLES:
        some = [file for file in files if file.table == name]
        where = TABLES[name], f"{root}/{name}", as_logged(some)
        rows = frame_of_files(spark, *where)
        scalars = frame_of_files(spark, *where, scalars_only=True) if is_url(root) else rows
        found[name] = StagedRows(rows, scalars, some, root)
    try:
        yield found
    finally:
        for each in found.values():
            if not each.is_adopted:
                remove(root, each.files)


def collected(frames: Mapping[str, DataFrame]) -> dict[str, pa.Table]:
    """Collect several DataFrames with one query, by name.

    A night of a few jobs has tables of tens of rows. Spark makes a plan and a job for each, which take
    longer than the rows themselves.
    """
    if not frames:
        return {}
    parts = [frame.select(_row(frame).alias(name)) for name, frame in frames.items()]
    rows = reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts).toArrow()
    return {name: _of_frame(rows[name], frame.columns) for name, frame in frames.items()}


def _row(frame: DataFrame) -> Column:
    """All columns as one nullable struct, because Arrow fills it where another DataFrame has its rows."""
    return F.struct("*").cast(StructType([StructField(each.name, each.dataType) for each in frame.schema]))


def _of_frame(structs: pa.ChunkedArray, columns: list[str]) -> pa.Table:
    """Rows of one DataFrame, whose structs these are; structs of others are null."""
    own = structs.filter(pc.is_valid(structs))
    return pa.Table.from_struct_array(own).select(columns)
