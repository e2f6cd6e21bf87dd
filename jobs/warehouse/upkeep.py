"""Maintenance of tables: delete old rows, merge small files, delete unused files."""

from collections.abc import Mapping
from datetime import date

from jobs.warehouse import stored
from jobs.warehouse.delta_files import commit
from jobs.warehouse.delta_tables import KEPT_HOURS
from jobs.warehouse.rewriting import merge_small
from jobs.warehouse.rows import rows_in
from jobs.warehouse.stored import opened
from jobs.warehouse.table_log import logged, on_days
from jobs.warehouse.tables import Warehouse
from schemas.table import Table


def remove_days(
    warehouse: Warehouse, table: Table, before: date, also: Mapping[str, str] | None = None
) -> int:
    """Delete the rows of all days before a day; return the number of rows.

    also : required values of partition columns other than log_date, by column
    """
    if not warehouse.exists(table.name):
        return 0
    path = warehouse.path(table.name)
    files = logged(opened(path), on_days(table, None, also))
    old = [file for file in files if date.fromisoformat(file.partition["log_date"]) < before]
    rows = sum(rows_in(path, file) for file in old)
    commit(path, table, [], removed=old)
    return rows


def compact(warehouse: Warehouse, table: Table) -> tuple[int, int]:
    """Merge the small files of each partition; return the number of files before and after."""
    if not warehouse.exists(table.name):
        return 0, 0
    return merge_small(warehouse.spark.sparkContext, warehouse.root, table)


def unused_files(warehouse: Warehouse, table: Table) -> int:
    """Count the files of a table to which no version of the last KEPT_HOURS hours refers."""
    if not warehouse.exists(table.name):
        return 0
    return len(stored.vacuum(warehouse.path(table.name), KEPT_HOURS, is_trial=True))


def vacuum(warehouse: Warehouse, table: Table) -> int:
    """Delete the files that unused_files counts; return their number."""
    files = unused_files(warehouse, table)
    if files:
        stored.vacuum(warehouse.path(table.name), KEPT_HOURS, is_trial=False)
    return files
