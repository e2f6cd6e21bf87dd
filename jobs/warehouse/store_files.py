"""Tables in object stores as Arrow datasets, which DuckDB reads like files.

DuckDB itself would need an extension for each store, and the secrets. Small tables come whole, a request for
each file, all beside each other; of a large one Arrow reads what a question asks for.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
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

    Least and greatest values of files are not taken from Delta's log: where it has none of a column,
    deltalake's own dataset takes null for a bound, and filters drop rows. Row groups have their own.
    """
    files = logged(table)
    sizes = {file.name: file.size for file in files}
    if sum(sizes.values()) <= WHOLE_BYTES:
        return pa.concat_tables(read_files(path, files, schema))
    # Its open files are for one thread at a time: pyarrow sees to that, DuckDB does not.
    filesystem = PyFileSystem(DeltaStorageHandler(path, storage_options(path), known_sizes=sizes))
    return dataset_of(filesystem, [(file.name, file.partition) for file in files], schema)


def dataset_of(
    filesystem: FileSystem, files: Sequence[tuple[str, Mapping[str, str]]], schema: pa.Schema
) -> ds.Dataset:
    """Return a dataset of Parquet files and their partitions, with these columns."""
    parquet = ds.ParquetFileFormat(
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    )
    fragments = [
        parquet.make_fragment(path, filesystem, partition_expression=_holds(partition, schema))
        for path, partition in files
    ]
    return ds.FileSystemDataset(fragments, schema, parquet, filesystem)


def _holds(partition: Mapping[str, str], schema: pa.Schema) -> ds.Expression:
    """Return an Arrow expression that is true for all rows of a file."""
    everything = ds.scalar(True)  # noqa: FBT003  # a value
    values = ((name, pa.scalar(value).cast(schema.field(name).type)) for name, value in partition.items())
    return reduce(and_, (ds.field(name) == value for name, value in values), everything)
