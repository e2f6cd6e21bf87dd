"""DataFrames from many files of a store, which Arrow reads inside Spark tasks.

So a store needs no connector of Hadoop's: what reaches it is the same as for all else.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

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
"""Bytes of Parquet files that one task reads, file by file."""
_TASK_COLUMNS: Final = ["task", "files"]


def frame_of_files(spark: SparkSession, table: Table, path: str, files: Sequence[Logged]) -> DataFrame:
    """DataFrame of the rows in these files of a store, with all of the table's columns."""
    schema = from_arrow_schema(table.arrow_schema)
    if not files:
        return spark.createDataFrame([], schema)
    tasks = packed(files)
    payloads = pa.array([pickle.dumps(task) for task in tasks], pa.binary())
    rows = pa.table([pa.array(range(len(tasks)), pa.int32()), payloads], _TASK_COLUMNS)
    read = partial(_rows_of_tasks, table.name, path)
    return spark.createDataFrame(rows).repartitionById(len(tasks), "task").mapInArrow(read, schema)


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


def in_tasks(
    context: SparkContext, tasks: Sequence[Sequence[Logged]], work: Callable[[list[Logged]], bytes]
) -> Iterator[bytes]:
    """Yield the results of running `work` on each task's files on executors, in order."""
    if tasks:
        sent = [pickle.dumps(list(task)) for task in tasks]
        yield from context.parallelize(sent, len(sent)).map(partial(_of_task, work)).collect()


def _of_task(work: Callable[[list[Logged]], bytes], task: bytes) -> bytes:
    return work(pickle.loads(task))  # noqa: S301  # from the driver


def _rows_of_tasks(name: str, path: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = TABLES[name].arrow_schema
    for batch in batches:
        for task in batch.column(_TASK_COLUMNS[1]):
            for file in pickle.loads(task.as_py()):  # noqa: S301  # from the driver
                for rows in batches_of(path, file, schema.names):
                    yield from with_partition(rows, file.partition, schema).to_batches()
