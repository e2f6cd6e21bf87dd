"""Tables in object stores as Arrow datasets, which DuckDB reads like files.

By itself, DuckDB would need an extension for each kind of store, and the credentials. Small tables are
fetched whole, with one request per file, all concurrently. From larger ones Arrow reads only the row groups
and columns that a question needs.
"""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow import dataset as ds
from pyarrow.fs import FileSystem, PyFileSystem

from jobs.runtime.places import storage_options
from jobs.warehouse.delta_files import read_files
from jobs.warehouse.table_log import logged

WHOLE_BYTES: Final = 16 << 20

Rows: TypeAlias = pa.Table | ds.Dataset


def rows_of(path: str, table: DeltaTable, schema: pa.Schema) -> Rows:
    """Return a dataset of a table's rows with these columns, null where a file lacks them.

    deltalake's own dataset is not used: if Delta's log lacks a column's minimum or maximum, it takes null as
    the bound, and filters then drop rows. The row groups in the files have bounds of their own.
    """
    files = logged(table)
    sizes = {file.name: file.size for file in files}
    if sum(sizes.values()) <= WHOLE_BYTES:
        return pa.concat_tables(read_files(path, files, schema))
    # Only one thread at a time may read an open file of the handler: pyarrow ensures that, DuckDB does not.
    filesystem = PyFileSystem(DeltaStorageHandler(path, storage_options(path), known_sizes=sizes))
    return dataset_of(filesystem, [(file.name, file.partition) for file in files], schema)


def dataset_of(
    filesystem: FileSystem, files: Sequence[tuple[str, Mapping[str, str]]], schema: pa.Schema
) -> ds.Dataset:
    """Return a dataset of Parquet files and their partitions, with these columns."""
    parquet = ds.ParquetFileFormat(
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    )
    fragments = []
    for path, partition in files:
        holds = ds.scalar(True)  # noqa: FBT003  # a value
        for name, value in partition.items():
            holds &= ds.field(name) == pa.scalar(value).cast(schema.field(name).type)
        fragments.append(parquet.make_fragment(path, filesystem, partition_expression=holds))
    return ds.FileSystemDataset(fragments, schema, parquet, filesystem)
