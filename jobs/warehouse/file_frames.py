"""DataFrames from many files: Spark reads local files, Arrow inside Spark tasks reads those of a store.

So a store needs no connector of Hadoop's: what reaches it is the same as for all else.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from jobs.runtime import objects
from jobs.runtime.filesystems import filesystem_of
from jobs.runtime.places import is_url
from jobs.warehouse.delta_files import FEW_BYTES, with_partition
from jobs.warehouse.staging import StagedFile
from jobs.warehouse.table_log import Logged
from schemas.table import Table
from schemas.tables import TABLES

_TASK_BYTES: Final = 64 << 20
"""Of Parquet files that one task reads, file by file."""
_ROWS: Final = 2000
"""Of a batch: a row of rank_steps carries a whole step of one worker."""
_TASK_COLUMNS: Final = ["task", "files"]


def as_logged(files: Iterable[StagedFile]) -> list[Logged]:
    """Convert staged files to the form in which the Delta log lists files."""
    return [Logged(each.path, each.bytes, each.rows, dict(each.partition), {}, {}) for each in files]


def frame_of_files(
    spark: SparkSession, table: Table, path: str, files: Sequence[Logged], *, scalars_only: bool = False
) -> DataFrame:
    """DataFrame of the rows in these files, with all of the table's columns.

    scalars_only : lists of numbers may be null, where reading them takes long
    """
    schema = from_arrow_schema(table.arrow_schema)
    if not files:
        return spark.createDataFrame([], schema)
    if not is_url(path):  # Spark reads no column that nobody asks for
        reader = spark.read.schema(schema).option("basePath", path)
        return reader.parquet(*(f"{path}/{file.name}" for file in files)).select(*schema.names)
    tasks = packed(files)
    payloads = pa.array([pickle.dumps(task) for task in tasks], pa.binary())
    rows = pa.table([pa.array(range(len(tasks)), pa.int32()), payloads], _TASK_COLUMNS)
    left_out = {each.name for each in table.columns if scalars_only and each.is_numbers}
    read = partial(_rows_of_tasks, table.name, path, left_out)
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


def _rows_of_tasks(
    name: str, path: str, left_out: set[str], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    schema = TABLES[name].arrow_schema
    for batch in batches:
        for task in batch.column(_TASK_COLUMNS[1]):
            for file in pickle.loads(task.as_py()):  # noqa: S301  # from the driver
                for rows in batches_of(path, file, [each for each in schema.names if each not in left_out]):
                    yield from with_partition(rows, file.partition, schema).to_batches()


def batches_of(path: str, file: Logged, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of a file in batches, with those of these columns that it has."""
    with opened_file(path, file) as stored:
        names = [name for name in columns if name in stored.schema_arrow.names]
        for batch in stored.iter_batches(_ROWS, columns=names):
            yield pa.table(batch)


def opened_file(path: str, file: Logged) -> pq.ParquetFile:
    """Open a Parquet file of a table; a small one in a store is fetched with one request."""
    if is_url(path) and file.size <= FEW_BYTES:
        (content,) = objects.contents(path, [file.name])
        return pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
    filesystem, place = filesystem_of(f"{path}/{file.name}")
    return pq.ParquetFile(place, filesystem=filesystem, page_checksum_verification=True)


def groups_of(path: str, file: Logged, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of each row group of a file, with those of these columns that it has."""
    with opened_file(path, file) as stored:
        names = [name for name in columns if name in stored.schema_arrow.names]
        for number in range(stored.num_row_groups):
            yield stored.read_row_group(number, columns=names)
