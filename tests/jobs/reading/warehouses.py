"""Warehouses for readers, written without Spark."""

from pathlib import Path
from typing import cast

import pyarrow as pa
from pyspark.sql import SparkSession

from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES


def warehouse_of(root: Path, **tables: pa.Table) -> Warehouse:
    """A warehouse on this machine with these rows, which need no session there."""
    made = Warehouse(cast("SparkSession", None), str(root))
    for name, rows in tables.items():
        made.replace(TABLES[name], rows, rows.column("log_date").unique().to_pylist())
    return made
