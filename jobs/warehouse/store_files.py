"""Tables in object stores as Arrow datasets, which DuckDB reads like files.

DuckDB itself would need an extension for each store, and the secrets. Small tables come whole, a request for
each file, all beside each other; of a large one Arrow reads what a question asks for.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow import dataset as ds
from pyarrow.fs import FileSystem, PyFileSystem

from jobs.runtime import objects
from jobs.runtime.errors import DamagedError
from jobs.runtime.places import storage_options

WHOLE_BYTES: Final = 16 << 20

Rows: TypeAlias = pa.Table | ds.Dataset


def rows_of(path: str, table: DeltaTable, schema: pa.Schema) -> Rows:
    """Dataset of a table's rows with these columns, null where a file lacks them.

    Least and greatest values of files are not taken from Delta's log: where it has none of a column,
    deltalake's own dataset takes null for a bound, and filters drop rows. Row groups have their own.
    """
    files = pa.table(table.get_add_actions())
    paths = files["path"].to_pylist()
    sizes = dict(zip(paths, files["size_bytes"].to_pylist(), strict=True))
    days = files["partition"].to_pylist() if "partition" in files.column_names else [{}] * len(paths)
    if sum(sizes.values()) <= WHOLE_BYTES:
        whole = objects.contents(path, paths)
        files_of = zip((f"{path}/{name}" for name in paths), whole, days, strict=True)
        return pa.concat_tables(_whole(*each, schema) for each in files_of)
    # Its open files are for one thread at a time: pyarrow sees to that, DuckDB does not.
    filesystem = PyFileSystem(DeltaStorageHandler(path, storage_options(path), known_sizes=sizes))
    return dataset_of(filesystem, list(zip(paths, days, strict=True)), schema)


def dataset_of(
    filesystem: FileSystem, files: Sequence[tuple[str, Mapping[str, object]]], schema: pa.Schema
) -> ds.Dataset:
    """Dataset of Parquet files and their partitions, with these columns."""
    parquet = ds.ParquetFileFormat(
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    )
    fragments = [
        parquet.make_fragment(path, filesystem, partition_expression=_holds(partition, schema))
        for path, partition in files
    ]
    return ds.FileSystemDataset(fragments, schema, parquet, filesystem)


def _whole(file: str, content: bytes, partition: dict[str, object], schema: pa.Schema) -> pa.Table:
    """Rows of a file, with partition columns filled from the Delta log."""
    try:
        with pq.ParquetFile(pa.BufferReader(content), page_checksum_verification=True) as stored:
            read = stored.read(columns=[name for name in schema.names if name in stored.schema_arrow.names])
    except (OSError, pa.ArrowException) as error:
        raise DamagedError(f"{file} cannot be read, restore it from a copy: {error}") from error
    columns = [
        read.column(each.name).cast(each.type)
        if each.name in read.column_names
        else pa.repeat(pa.scalar(partition.get(each.name), each.type), read.num_rows)
        for each in schema
    ]
    return pa.table(columns, schema=schema)


def _holds(partition: Mapping[str, object], schema: pa.Schema) -> ds.Expression:
    """Arrow expression that is true for all rows of a file."""
    everything = ds.scalar(True)  # noqa: FBT003  # a value
    values = ((name, pa.scalar(value).cast(schema.field(name).type)) for name, value in partition.items())
    return reduce(and_, (ds.field(name) == value for name, value in values), everything)
