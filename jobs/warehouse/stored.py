"""Tables as they are stored, published or not: by path, a folder of this machine or a URL."""

from delta.tables import DeltaTable
from pyspark.sql import SparkSession

from jobs.warehouse import local_tables


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
