"""Tables in object stores as Arrow datasets, which DuckDB reads as it reads files.

DuckDB itself would need an extension for each store, and the secrets. deltalake reaches stores by what the
environment says of them. Its open files are for one thread at a time: pyarrow sees to that, DuckDB does not.
"""

from functools import reduce
from operator import and_

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow import dataset as ds
from pyarrow.fs import PyFileSystem

from jobs.runtime.places import storage_options


def dataset(table: DeltaTable, schema: pa.Schema) -> ds.Dataset:
    """Rows of a table, with these columns: those that a file was written without are null.

    Least and greatest values of files are not taken from Delta's log: where it has none of a column,
    deltalake's own dataset takes null for a bound, and filters drop rows. Row groups have their own.
    """
    files = pa.table(table.get_add_actions())
    paths = files["path"].to_pylist()
    sizes = dict(zip(paths, files["size_bytes"].to_pylist(), strict=True))
    days = files["partition"].to_pylist() if "partition" in files.column_names else [{}] * len(paths)
    filesystem = PyFileSystem(
        DeltaStorageHandler(table.table_uri, storage_options(table.table_uri), known_sizes=sizes)
    )
    parquet = ds.ParquetFileFormat(
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
    )
    fragments = [
        parquet.make_fragment(path, filesystem, partition_expression=_holds(of_file))
        for path, of_file in zip(paths, days, strict=True)
    ]
    return ds.FileSystemDataset(fragments, schema, parquet, filesystem)


def _holds(partition: dict[str, object]) -> ds.Expression:
    """Expression that holds for all rows of a file; its columns of the partition have their values here."""
    everything = ds.scalar(True)  # noqa: FBT003  # a value
    return reduce(and_, (ds.field(name) == value for name, value in partition.items()), everything)
