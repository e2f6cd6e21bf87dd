"""Rows to be committed to a table: in the driver's memory, or already in files in the table's folder."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from jobs.runtime import objects
from jobs.runtime.filesystems import filesystem_of
from jobs.runtime.places import is_url
from jobs.warehouse.delta_files import FEW_BYTES, read_files, with_partition
from jobs.warehouse.staging import STAGED_TABLES, StagedFile, remove, removed_after_errors
from jobs.warehouse.table_log import Logged
from schemas.tables import TABLES

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

_ROWS: Final = 2000
"""Rows in a batch; few, because a row of rank_steps holds a whole step of one worker."""
_KEPT_BYTES: Final = 1 << 20
"""Most bytes of staged files in a store that are kept in memory, because gates read them several times."""


@dataclass(frozen=True)
class FileRows:
    """Rows of one table in files in its folder.

    path : path or URL of the table
    are_sound : whether `arrays_valid` held for all rows when the files were written
    """

    path: str
    files: Sequence[Logged]
    are_sound: bool = False

    @property
    def size(self) -> int:
        """Return the total size of the files. [B]"""
        return sum(file.size for file in self.files)

    def columns(self, schema: pa.Schema) -> pa.Table:
        """Read the columns of `schema` from all files into this process's memory."""
        parts = (
            with_partition(some, file.partition, schema)
            for file in self.files
            for some in batches_of(self.path, file, schema.names)
        )
        return pa.concat_tables([schema.empty_table(), *parts])

    @cached_property
    def in_store(self) -> "pa.Table | Dataset":
        """Return the rows of files in a store for DuckDB: few bytes in memory, more as a dataset."""
        schema = TABLES[self.path.rpartition("/")[2]].arrow_schema
        if self.size <= _KEPT_BYTES:
            return pa.concat_tables([schema.empty_table(), *read_files(self.path, self.files, schema)])
        filesystem, place = filesystem_of(self.path)
        files = [(f"{place}/{file.name}", file.partition) for file in self.files]
        # Imported only here, because importing pyarrow.dataset takes a second.
        return import_module("jobs.warehouse.store_files").dataset_of(filesystem, files, schema)


@dataclass
class StagedRows:
    """Rows of one table in staged files; `is_adopted` is set once a commit has taken the files over."""

    table: str
    files: Sequence[StagedFile]
    root: str
    is_adopted: bool = False

    @property
    def num_rows(self) -> int:
        """Return the number of rows in the staged files."""
        return sum(file.rows for file in self.files)

    @cached_property
    def in_files(self) -> FileRows:
        """Return the staged files as FileRows, the type that also stands for files of published tables."""
        files = [Logged(*each[2:5], dict(each.partition), {}, {}) for each in self.files]
        return FileRows(f"{self.root}/{self.table}", files, all(file.is_sound for file in self.files))


Rows: TypeAlias = pa.Table | StagedRows
"""Rows of a table, in the driver, or already in files beside the table."""


@contextmanager
def staged_rows(
    files: Sequence[StagedFile], root: str, tables: Sequence[str] = STAGED_TABLES
) -> Iterator[dict[str, StagedRows]]:
    """Yield the rows of tables staged under a root, by name; remove files that the block does not adopt."""
    found = {name: StagedRows(name, [file for file in files if file.table == name], root) for name in tables}

    def remove_others() -> None:
        remove(root, [file for each in found.values() if not each.is_adopted for file in each.files])

    with removed_after_errors(remove_others):
        yield found
    remove_others()


def columns_of(table: str, rows: Rows, columns: Sequence[str]) -> pa.Table:
    """Return some columns of a table's rows, in this process's memory."""
    if isinstance(rows, pa.Table):
        return rows.select(columns)
    return rows.in_files.columns(pa.schema([TABLES[table].arrow_schema.field(name) for name in columns]))


def batches_of(path: str, file: Logged, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of a file in batches, with those of these columns that the file has."""
    with opened_file(path, file) as stored:
        names = [name for name in columns if name in stored.schema_arrow.names]
        for batch in stored.iter_batches(_ROWS, columns=names):
            yield pa.table(batch)


def groups_of(path: str, file: Logged, columns: Sequence[str]) -> Iterator[pa.Table]:
    """Yield the rows of a file by row group, with those of these columns that the file has."""
    with opened_file(path, file) as stored:
        names = [name for name in columns if name in stored.schema_arrow.names]
        for number in range(stored.num_row_groups):
            yield stored.read_row_group(number, columns=names)


def rows_in(path: str, file: Logged) -> int:
    """Return a file's number of rows, from the table's log, or from the file's footer if the log lacks it."""
    if file.rows is not None:
        return file.rows
    with opened_file(path, file) as stored:
        return int(stored.metadata.num_rows)


def opened_file(path: str, file: Logged) -> pq.ParquetFile:
    """Open a Parquet file of a table; fetch a small file in a store with one request."""
    if is_url(path) and file.size <= FEW_BYTES:
        (content,) = objects.contents(path, [file.name])
        return pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True)
    filesystem, place = filesystem_of(f"{path}/{file.name}")
    return pq.ParquetFile(place, filesystem=filesystem, page_checksum_verification=True)
