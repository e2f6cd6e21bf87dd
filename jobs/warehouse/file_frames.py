"""Spark tasks that each do one given item of work, and DataFrames of files in a store, read in such tasks.

The tasks read files by Arrow, so Spark needs no Hadoop connector for the store.
"""

import pickle
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from jobs.warehouse.delta_files import with_partition
from jobs.warehouse.rows import batches_of
from jobs.warehouse.table_log import Logged
from schemas.table import Table
from schemas.tables import TABLES

_TASK_BYTES: Final = 64 << 20
"""Most bytes of Parquet files that one task reads, unless it reads a single larger file."""
_TASK_COLUMNS: Final = ["task", "work"]

Work = TypeVar("Work")
Found = TypeVar("Found")


def frame_of_tasks(spark: SparkSession, tasks: Sequence[object]) -> DataFrame:
    """Return a DataFrame with one row, and one Spark task, for each item of work; see tasks_in."""
    payloads = [zlib.compress(pickle.dumps(task)) for task in tasks]  # Spark warns of tasks beyond 1 MB
    rows = pa.table([pa.array(range(len(tasks)), pa.int32()), pa.array(payloads, pa.binary())], _TASK_COLUMNS)
    return spark.createDataFrame(rows).repartitionById(max(1, len(tasks)), "task")


def tasks_in(batches: Iterable[pa.RecordBatch]) -> Iterator[Any]:
    """Yield the items of work from batches of the DataFrame that frame_of_tasks returned."""
    for batch in batches:
        for payload in batch.column(_TASK_COLUMNS[1]):
            yield pickle.loads(zlib.decompress(payload.as_py()))  # noqa: S301  # from the driver


def frame_of_files(spark: SparkSession, table: Table, path: str, files: Sequence[Logged]) -> DataFrame:
    """Return a DataFrame of the rows in these files of a store, with all of the table's columns."""
    schema = from_arrow_schema(table.arrow_schema)
    if not files:
        return spark.createDataFrame([], schema)
    return frame_of_tasks(spark, packed(files)).mapInArrow(partial(_rows_of_tasks, table.name, path), schema)


def packed(files: Iterable[Logged], most_bytes: int = _TASK_BYTES) -> list[list[Logged]]:
    """Pack files, in order, into tasks of at most most_bytes; a larger file gets its own task."""
    tasks: list[list[Logged]] = []
    filled = most_bytes
    for file in files:
        if filled + file.size > most_bytes:
            tasks.append([])
            filled = 0
        tasks[-1].append(file)
        filled += file.size
    return tasks


def in_tasks(context: SparkContext, tasks: Sequence[Work], work: Callable[[Work], Found]) -> list[Found]:
    """Call `work` with each item of `tasks`, each in a Spark task of its own; return the results in order."""
    if not tasks:
        return []
    sent = context.parallelize([pickle.dumps(task) for task in tasks], len(tasks))
    return [pickle.loads(each) for each in sent.map(partial(_of_task, work)).collect()]  # noqa: S301  # our own


def _of_task(work: Callable[[Any], object], task: bytes) -> bytes:
    return pickle.dumps(work(pickle.loads(task)))  # noqa: S301  # from the driver


def _rows_of_tasks(name: str, path: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = TABLES[name].arrow_schema
    for files in tasks_in(batches):
        for file in files:
            for rows in batches_of(path, file, schema.names):
                yield from with_partition(rows, file.partition, schema).to_batches()
