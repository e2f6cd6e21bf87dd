"""Staged rows: Parquet files that no commit has added to their table yet.

They lie in the table's folder, so that a commit adds them without moving any. Files that are never committed
are removed by the run that staged them, or by vacuum.
"""

import json
import logging
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from jobs.runtime.filesystems import filesystem_of
from jobs.runtime.places import is_url
from jobs.warehouse.small_files import SmallFiles
from schemas.table import Table
from schemas.tables import TABLES
from schemas.vocabulary import COLLECTIVE_ARRIVAL, RANK_STEPS, REJECTS, RUN_EVENTS
from udfs.op_lists import arrays_valid

_LOG: Final = logging.getLogger(__name__)

STAGED_TABLES: Final = (RANK_STEPS, REJECTS, COLLECTIVE_ARRIVAL, RUN_EVENTS)
_KEYS: Final = ("job_id", "run_id", "source_file", "step", "rank", "pipeline_run_id")
"""Columns whose minimum and maximum are recorded for each file, so that a reader can skip files."""

_DICTIONARIES: Final = [
    "job_id",
    "run_id",
    "host",
    "source_file",
    *(f"{name}.list.element" for name in ("op", "microbatch", "model_chunk")),
]
"""Columns of rank_steps with a dictionary; columns of times have none, because times rarely repeat."""

_OPS_OF_GROUP: Final = 2_000_000


Partition = tuple[tuple[str, str], ...]
"""Name and value of each column by which a table is partitioned."""


class StagedFile(NamedTuple):
    """One staged file of a table and partition.

    path : below the table's folder
    stats : Delta's statistics of a file, as JSON
    is_sound : whether `arrays_valid` held for all its rows when they were written
    """

    table: str
    partition: Partition
    path: str
    bytes: int
    rows: int
    stats: str
    is_sound: bool


@dataclass
class _Open:
    """File that is being written."""

    path: str
    sink: pa.NativeFile
    writer: pq.ParquetWriter
    rows: int = 0
    is_sound: bool = True
    least: dict[str, Any] = field(default_factory=dict)
    greatest: dict[str, Any] = field(default_factory=dict)

    def add(self, rows: pa.Table, group_rows: int) -> None:
        self.writer.write_table(rows, row_group_size=group_rows)
        self.rows += rows.num_rows
        for name in _KEYS:
            if name in rows.column_names and rows.column(name).null_count < rows.num_rows:
                found = pc.min_max(rows.column(name)).as_py()
                self.least[name] = min(found["min"], self.least.get(name, found["min"]))
                self.greatest[name] = max(found["max"], self.greatest.get(name, found["max"]))


class Staging:
    """Writer of rows of tables under one root, with one file per table and partition.

    root : folder of the tables, a local path or a URL
    run : ID in the names of all files that one run stages
    """

    def __init__(self, root: str, run: str, opened: tuple[fs.FileSystem, str] | None = None) -> None:
        self._root, self._run = root, run
        self._filesystem, self._path = opened or filesystem_of(root)
        self._open: dict[tuple[str, Partition], _Open] = {}
        self._closed: list[StagedFile] = []

    def write(self, table: str, partition: Partition, rows: pa.Table, ops: int = 0) -> None:
        """Append rows to a partition's file, in row groups of their own, so that no group mixes two calls.

        ops : number of ops in the rows; more than _OPS_OF_GROUP are divided into several groups
        """
        if not rows.num_rows:
            return
        declared = TABLES[table]
        schema = pa.schema([each for each in declared.arrow_schema if each.name not in declared.partition_by])
        file = self._open.get((table, partition))
        if file is None:
            file = self._open[table, partition] = self._create(table, partition, schema)
        file.is_sound &= arrays_valid(declared, rows)
        per_group = max(1, rows.num_rows * _OPS_OF_GROUP // max(ops, _OPS_OF_GROUP))
        try:
            file.add(rows.select(schema.names).cast(schema), per_group)
        except OSError as error:  # its message lacks the path
            raise OSError(
                error.errno, f"{self._path}/{table}/{file.path} cannot be written: {error}"
            ) from None

    def write_sorted(self, table: Table, rows: pa.Table) -> None:
        """Append the rows of a table to their partitions, sorted by its key."""
        for partition, some in partitions_of(table, rows).items():
            self.write(table.name, partition, some)

    def another(self) -> "Staging":
        """Return a second staging for rows that may be dropped independently."""
        return Staging(self._root, self._run, (self._filesystem, self._path))

    def take(self, other: "Staging") -> None:
        """Take over the files of another staging."""
        self._closed += other.close()

    def close(self) -> list[StagedFile]:
        """Close all files and return them."""
        for (table, partition), file in self._open.items():
            file.writer.close()
            size = file.sink.tell()
            file.sink.close()
            stats = {"numRecords": file.rows, "minValues": file.least, "maxValues": file.greatest}
            self._closed.append(
                StagedFile(table, partition, file.path, size, file.rows, json.dumps(stats), file.is_sound)
            )
        self._open = {}
        return self._closed

    def drop(self) -> None:
        """Remove the files written so far."""
        remove(self._root, self.close())

    def _create(self, table: str, partition: Partition, schema: pa.Schema) -> _Open:
        folder = "".join(f"{name}={value}/" for name, value in partition)
        if not is_url(self._root):  # stores have no folders
            self._filesystem.create_dir(f"{self._path}/{table}/{folder}", recursive=True)
        path = f"{folder}part-{self._run}-{uuid.uuid4()}.parquet"
        sink = self._filesystem.open_output_stream(f"{self._path}/{table}/{path}")
        writer = pq.ParquetWriter(
            sink,
            schema,
            compression="lz4",  # lists of times: as small as with Snappy, decompressed four times as fast
            use_dictionary=_DICTIONARIES if table == RANK_STEPS else True,
            write_statistics=[name for name in _KEYS if name in schema.names],
            store_schema=False,
            write_page_checksum=True,
        )
        return _Open(path, sink, writer)


def partitions_of(table: Table, rows: pa.Table) -> dict[Partition, pa.Table]:
    """Split rows by partition, sorted by the table's key."""
    rows = rows.sort_by([(name, "ascending") for name in table.grain])
    found: dict[Partition, pa.Table] = {(): rows}
    for name in table.partition_by:
        found = {
            (*partition, (name, str(value))): some.filter(pc.equal(some.column(name), value))
            for partition, some in found.items()
            for value in sorted(some.column(name).unique().to_pylist())
        }
    return found


def remove(root: str, files: Iterable[StagedFile]) -> None:
    """Remove staged files that will not be committed."""
    SmallFiles(root).remove(*(f"{file.table}/{file.path}" for file in files))


@contextmanager
def removed_after_errors(remove_all: Callable[[], None]) -> Iterator[None]:
    """Call `remove_all` if the block raises; the block's error is raised even if the call fails, too."""
    try:
        yield
    except BaseException:
        try:
            remove_all()
        except Exception:  # noqa: BLE001  # the block's error is raised
            _LOG.warning("staged files stay until the table is vacuumed", exc_info=True)
        raise


@contextmanager
def swept(root: str, run: str, tables: Sequence[str], days: Collection[date]) -> Iterator[list[StagedFile]]:
    """Yield a list for the block to fill with the files of a run to keep; then remove the run's other files.

    The others were left by failed or repeated tasks. If the block raises, all files of the run are removed.
    """
    kept: list[StagedFile] = []
    with removed_after_errors(lambda: _sweep(root, run, tables, days, ())):
        yield kept
    _sweep(root, run, tables, days, kept)


def _sweep(
    root: str, run: str, tables: Sequence[str], days: Collection[date], kept: Iterable[StagedFile]
) -> None:
    filesystem, path = filesystem_of(root)
    folders = [f"{table}/log_date={day.isoformat()}" for table in tables for day in days]
    names = {f"{file.table}/{file.path}" for file in kept}

    def rest(folder: str) -> list[str]:
        files = filesystem.get_file_info(fs.FileSelector(f"{path}/{folder}", allow_not_found=True))
        mine = [file.base_name for file in files if file.base_name.startswith(f"part-{run}-")]
        return [name for each in mine if (name := f"{folder}/{each}") not in names]

    with ThreadPoolExecutor(8) as beside:
        for found in beside.map(rest, folders):
            SmallFiles(root).remove(*found)
