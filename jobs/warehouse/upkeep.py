"""Upkeep of tables: old rows away, small files together, unused files away."""

from delta.tables import DeltaTable
from pyspark.sql import DataFrame

from jobs.warehouse.tables import Warehouse
from schemas.table import Table


def remove_rows(warehouse: Warehouse, table: Table, condition: str) -> int:
    """Delete the rows that fulfil a condition on the partitions; returns how many they were."""
    if not warehouse.exists(table.name):
        return 0
    rows = warehouse.read(table).where(condition).count()  # a delete of whole partitions does not tell
    if rows:
        _delta(warehouse, table).delete(condition)
    return rows


def compact(warehouse: Warehouse, table: Table) -> tuple[int, int]:
    """Make few files of the many small ones of each partition; returns how many files became how many."""
    if not warehouse.exists(table.name):
        return 0, 0
    optimize = _delta(warehouse, table).optimize()
    metrics = optimize.executeCompaction().select("metrics.*").collect()[0]
    return metrics["numFilesRemoved"], metrics["numFilesAdded"]


def unused_files(warehouse: Warehouse, table: Table) -> int:
    """Count the files that no version of the last days needs (Delta keeps them for a week)."""
    return _vacuum(warehouse, table, "DRY RUN").count() if warehouse.exists(table.name) else 0


def vacuum(warehouse: Warehouse, table: Table) -> int:
    """Delete the files that unused_files counts; returns how many they were."""
    files = unused_files(warehouse, table)
    if files:
        _vacuum(warehouse, table, "")
    return files


def _delta(warehouse: Warehouse, table: Table) -> DeltaTable:
    return DeltaTable.forPath(warehouse.spark, warehouse.path(table.name))


def _vacuum(warehouse: Warehouse, table: Table, how: str) -> DataFrame:
    path = warehouse.path(table.name).replace("`", "``")
    return warehouse.spark.sql(f"VACUUM delta.`{path}` {how}")
