"""Tables as they are stored, published or not: by path, a folder of this machine or a URL."""

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from jobs.warehouse import local_tables
from jobs.warehouse.frames import spark_schema
from schemas.table import Table, sql_strings


def is_stored(spark: SparkSession, path: str) -> bool:
    """Whether a table was ever written to this path."""
    return DeltaTable.isDeltaTable(spark, path) if "://" in path else local_tables.is_table(path)


def newest_version(spark: SparkSession, path: str) -> int | None:
    """Newest version of a table; None without a table."""
    if not is_stored(spark, path):
        return None
    if "://" not in path:
        return local_tables.version(path)
    newest = DeltaTable.forPath(spark, path).history(1).collect()
    return int(newest[0]["version"])


def restore(spark: SparkSession, path: str, version: int | None) -> bool:
    """Restore a table to a version; None: without rows. Returns whether that changed anything."""
    newest = newest_version(spark, path)
    wanted = version or 0  # every table is made without rows
    if newest is None or newest == wanted:
        return False
    if "://" in path:
        DeltaTable.forPath(spark, path).restoreToVersion(wanted)
    else:
        local_tables.restore(path, wanted)
    return True


def create(spark: SparkSession, path: str, table: Table) -> None:
    """Make a table without rows, unless it exists.

    In a store by a write of no rows: CREATE TABLE takes a table whose first writer died before its first
    commit for an existing one.
    """
    if "://" not in path:
        local_tables.create(path, table)
    if is_stored(spark, path):
        return
    rows = spark.createDataFrame([], spark_schema(table)).write.format("delta").mode("append")
    rows.partitionBy(*table.partition_by).save(path)
    spark.sql(f"COMMENT ON TABLE delta.`{path.replace('`', '``')}` IS {sql_strings([table.meaning])}")
