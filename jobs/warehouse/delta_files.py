"""Access to Delta tables without Spark: reads few rows, and adds staged files with one commit.

For a table of ten rows Spark would plan a query, read the log and run several jobs; this module reads one or
two files instead.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from functools import partial
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import Schema, write_deltalake
from deltalake.exceptions import CommitFailedError
from deltalake.schema import ArrayType, DataType, StructType
from deltalake.transaction import AddAction, RemoveAction

from jobs.runtime import objects
from jobs.runtime.errors import DamagedError
from jobs.runtime.places import is_url
from jobs.warehouse.lease import held
from jobs.warehouse.reader import keys_of
from jobs.warehouse.staging import StagedFile, Staging, partitions_of
from jobs.warehouse.stored import ALONE, commit_actions, committed, create, forget, opened, restore
from jobs.warehouse.table_log import Filters, Logged, logged, on_days
from schemas.table import Table
from schemas.unit import Unit
from schemas.vocabulary import PUBLICATIONS, PUBLISHED_TABLES

_LOG_DATE: Final = "log_date"
FEW_BYTES: Final = 16 << 20
"""Default limit of few_rows on the total size of the files to read [B]; Spark reads what is larger."""


def few_rows(
    path: str,
    version: int | None,
    table: Table,
    log_dates: Sequence[date] | None,
    units: Collection[Unit] | None = None,
    also: Mapping[str, str] | None = None,
    most_bytes: int = FEW_BYTES,
) -> pa.Table | None:
    """Return rows of a table, all or only of these days or units; None if their files exceed `most_bytes`.

    also : required values of partition columns other than log_date, by column
    """
    schema = table.arrow_schema
    nothing = log_dates is not None and not log_dates
    found = [] if nothing else logged(opened(path, version), on_days(table, log_dates, also))
    if sum(file.size for file in found) > most_bytes:
        return None
    rows = pa.concat_tables([schema.empty_table(), *read_files(path, found, schema)])
    if log_dates is not None and _LOG_DATE not in table.partition_by:
        are_asked_for = [day in log_dates for day in rows.column(_LOG_DATE).to_pylist()]
        rows = rows.filter(pa.array(are_asked_for, pa.bool_()))
    if units is not None:
        wanted = set(units)
        rows = rows.filter(pa.array([key in wanted for key in keys_of(rows)], pa.bool_()))
    return rows if rows.num_rows else schema.empty_table()  # Spark cannot convert a column without chunks


def in_place_of(rows: pa.Table, new: pa.Table, units: Collection[Unit]) -> pa.Table:
    """Return the rows of a table, with the rows of some units replaced.

    Raises ValueError if `new` has rows of other units, because old rows of those units would stay.
    """
    others = sorted(set(keys_of(new)) - set(units))
    if others:
        raise ValueError(f"rows of unit {others[0]}, which is not replaced")
    kept = [key not in units for key in keys_of(rows)]
    return pa.concat_tables(
        [rows.filter(pa.array(kept, pa.bool_())), new.select(rows.schema.names).cast(rows.schema)]
    )


def read_files(path: str, files: Sequence[Logged], schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield each file's rows as one table with these columns; a column that a file lacks is null."""
    names = [file.name for file in files]
    whole = objects.contents(path, names) if is_url(path) else names
    for file, content in zip(files, whole, strict=True):
        source = pa.BufferReader(content) if isinstance(content, bytes) else f"{path}/{content}"
        try:
            with pq.ParquetFile(source, page_checksum_verification=True) as stored:
                read = stored.read(
                    columns=[each for each in schema.names if each in stored.schema_arrow.names]
                )
        except (OSError, pa.ArrowException) as error:
            raise DamagedError(
                f"{path}/{file.name} cannot be read, restore it from a copy: {error}"
            ) from error
        yield with_partition(read, file.partition, schema)


def with_partition(read: pa.Table, partition: Mapping[str, str], schema: pa.Schema) -> pa.Table:
    """Return a file's rows with all columns of `schema`: absent ones get the partition's value, else null."""
    columns = [
        read.column(each.name).cast(each.type)
        if each.name in read.column_names
        else pa.repeat(pa.scalar(partition.get(each.name)).cast(each.type), read.num_rows)
        for each in schema
    ]
    return pa.table(columns, schema=schema)


def commit(
    path: str,
    table: Table,
    staged: Sequence[StagedFile],
    replaced: Filters | None = None,
    removed: Sequence[Logged] = (),
    *,
    are_same_rows: bool = False,
) -> None:
    """Add staged files to a table, and in the same commit remove partitions or files from it.

    replaced : filter of partitions whose rows are removed; None removes no partition
    are_same_rows : whether the staged files hold the rows of the removed files, in fewer files
    In a store, raises LeaseLostError if another writer has taken the lock. The lock is confirmed right before
    each commit to `publications`; a commit of another writer after that raises CommitFailedError.
    """
    lease = held(path.rpartition("/")[0])
    if lease is not None:
        lease.check_if_old()
    log = opened(path)
    gone = [*removed, *(logged(log, replaced) if replaced else [])]
    if not staged and not gone:
        return  # nothing to add or remove: readers need no new version
    actions = _actions(staged, gone, data_change=not are_same_rows)
    if lease is not None and table.name == PUBLICATIONS:
        lease.check()
    version = log.version()
    try:
        _commit(path, table, actions)
    except CommitFailedError:
        if lease is None or table.name not in PUBLISHED_TABLES:
            raise
        lease.check()
        forget(path)
        # Commits since then are late ones of the previous lock holder, or a try here whose answer was lost.
        if not restore(path, version):
            raise
        _commit(path, table, actions)


def _actions(
    staged: Sequence[StagedFile], gone: Sequence[Logged], *, data_change: bool
) -> list[AddAction | RemoveAction]:
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    coming = [
        AddAction(
            path=file.path,
            size=file.bytes,
            partition_values=dict(file.partition),
            modification_time=now_ms,
            data_change=data_change,
            stats=file.stats,
        )
        for file in staged
    ]
    going = [
        RemoveAction(
            path=file.name,
            data_change=data_change,
            deletion_timestamp=now_ms,
            size=file.size,
            partition_values=dict(file.partition),
        )
        for file in gone
    ]
    return [*coming, *going]


def _commit(path: str, table: Table, actions: list[AddAction | RemoveAction]) -> None:
    """Commit to a table, after adding the declared columns and nested fields that it lacks."""
    is_alone = is_url(path) and table.name in (*PUBLISHED_TABLES, PUBLICATIONS)
    log = opened(path)
    if any(isinstance(each, AddAction) for each in actions) and _lacks(log.schema(), table):
        nothing = pa.schema([each.with_nullable(nullable=True) for each in table.arrow_schema]).empty_table()
        alone = ALONE if is_alone else None
        grow = partial(write_deltalake, mode="append", schema_mode="merge", commit_properties=alone)
        committed(path, partial(grow, log, nothing), is_alone=is_alone)
        log = opened(path)
    commit_actions(path, log, actions, is_alone=is_alone)


def _lacks(stored: Schema, table: Table) -> bool:
    """Return whether a stored table lacks declared columns, or fields within them."""
    return not {*_names(Schema.from_arrow(table.arrow_schema))} <= {*_names(stored)}


def _names(kind: DataType | Schema, above: str = "") -> Iterator[str]:
    """Yield dotted paths of columns and nested fields, to compare as sets, because their order may differ."""
    if isinstance(kind, ArrayType):
        yield from _names(kind.element_type, above)
    if isinstance(kind, StructType | Schema):
        for each in kind.fields:
            yield (name := f"{above}.{each.name}")
            yield from _names(each.type, name)


def put(root: str, table: Table, rows: pa.Table, replaced: Filters | None = None) -> None:
    """Stage rows and commit them in place of the rows in some partitions.

    root : path or URL of the warehouse
    replaced : filter of the partitions whose old rows are removed; None removes no rows
    Raises SchemaError if the rows' columns differ from the table's, and ValueError for a row outside the
    replaced partitions, because old rows of its partition would stay.
    """
    table.check(rows.schema)
    partitions = partitions_of(table, rows)
    for partition in partitions:
        for name, value in partition:
            if replaced and value not in replaced.get(name, (value,)):
                raise ValueError(f"table {table.name}: rows of {name} {value}, which is not replaced")
    create(f"{root}/{table.name}", table)  # before its folder has files
    staging = Staging(root, uuid4().hex)
    for partition, some in partitions.items():
        staging.write(table.name, partition, some)
    commit(f"{root}/{table.name}", table, staging.close(), replaced)


def rewrite(root: str, table: Table, rows: pa.Table, key: str) -> None:
    """In an unpartitioned table, replace the rows that have the same `key` as one of `rows`.

    Only files that may have such rows are rewritten.
    """
    table.check(rows.schema)
    path, keys = f"{root}/{table.name}", rows[key].to_pylist()
    some = [file for file in logged(opened(path)) if any(file.may_have(key, each) for each in keys)]
    read = pa.concat_tables([table.arrow_schema.empty_table(), *read_files(path, some, table.arrow_schema)])
    kept = read.filter(pc.invert(pc.is_in(read[key], pa.array(keys, read[key].type))))
    staging = Staging(root, uuid4().hex)
    staging.write(table.name, (), pa.concat_tables([kept, rows.select(kept.schema.names).cast(kept.schema)]))
    commit(path, table, staging.close(), removed=some)
