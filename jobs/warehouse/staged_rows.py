"""Rows that workers have written into files, before and after a commit adds them to a table."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from jobs.landing.staging import STAGED_TABLES, StagedFile, remove
from jobs.warehouse.spark_schema import spark_schema
from schemas.tables import TABLES


@dataclass
class StagedRows:
    """Rows of one table in staged files, and whether a commit has added them to the table."""

    rows: DataFrame
    files: Sequence[StagedFile]
    root: str
    is_adopted: bool = False

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return sum(file.rows for file in self.files)

    @property
    def are_sound(self) -> bool:
        """Whether the worker that wrote them found all their lists of numbers valid."""
        return all(file.is_sound for file in self.files)


@contextmanager
def staged_rows(
    spark: SparkSession, files: Sequence[StagedFile], root: str
) -> Iterator[dict[str, StagedRows]]:
    """Yield the rows staged under a root, by table; those that the block does not adopt are removed."""
    by_table = {name: [file for file in files if file.table == name] for name in STAGED_TABLES}
    found = {name: StagedRows(_frame(spark, name, some, root), some, root) for name, some in by_table.items()}
    try:
        yield found
    finally:
        for each in found.values():
            if not each.is_adopted:
                remove(root, each.files)


def _frame(spark: SparkSession, name: str, files: Sequence[StagedFile], root: str) -> DataFrame:
    schema, folder = spark_schema(TABLES[name]), f"{root}/{name}"
    if not files:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(schema).option("basePath", folder)
    return reader.parquet(*(f"{folder}/{file.path}" for file in files)).select(*schema.names)
