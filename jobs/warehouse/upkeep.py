"""Upkeep of tables: deletes old rows, merges small files, deletes unused files."""

from delta.tables import DeltaTable
from pyspark.sql import DataFrame

from jobs.warehouse.tables import Warehouse
from schemas.table import Table


def remove_rows(warehouse: Warehouse, table: Table, condition: str) -> int:
    """Delete the rows that fulfil a condition on the partitions; returns how many."""
    if not warehouse.exists(table.name):
        return 0
    rows = warehouse.read(table).where(condition).count()  # deleting whole partitions returns no count
    if rows:
        _delta(warehouse, table).delete(condition)
    return rows


def compact(warehouse: Warehouse, table: Table) -> tuple[int, int]:
    """Merge the small files of each partition; returns the numbers of files before and after."""
    if not warehouse.exists(table.name):
        return 0, 0
    optimize = _delta(warehouse, table).optimize()
    metrics = optimize.executeCompaction().select("metrics.*").collect()[0]
    return metrics["numFilesRemoved"], metrics["numFilesAdded"]


def unused_files(warehouse: Warehouse, table: Table) -> int:
    """Count the files that no version of the last days needs (Delta keeps them for a week)."""
    return _vacuum(warehouse, table, "DRY RUN").count() if warehouse.exists(table.name) else 0


def vacuum(warehouse: Warehouse, table: Table) -> int:
    """Delete the files that unused_files counts; returns how many."""
    files = unused_files(warehouse, table)
    if files:
        _vacuum(warehouse, table, "")
    return files


def _delta(warehouse: Warehouse, table: Table) -> DeltaTable:
    return DeltaTable.forPath(warehouse.spark, warehouse.path(table.name))


def _vacuum(warehouse: Warehouse, table: Table, how: str) -> DataFrame:
    path = warehouse.path(table.name).replace("`", "``")
    return warehouse.spark.sql(f"VACUUM delta.`{path}` {how}")
