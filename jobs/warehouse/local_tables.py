"""Tables of this machine without Spark: reads few rows, and adds staged files by a commit alone.

For a table of ten rows Spark makes a plan, reads the log and runs several jobs; here it is a file or two.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema, write_deltalake
from deltalake.schema import ArrayType, DataType, StructType
from deltalake.transaction import AddAction, RemoveAction

from jobs.landing.staging import Partition, StagedFile, Staging
from jobs.runtime.errors import DamagedError
from schemas.table import Table
from schemas.unit import Unit
from schemas.vocabulary import UNIT_KEY

_LOG_DATE: Final = "log_date"
_FEW_BYTES: Final = 16 << 20
"""Of Parquet files; larger tables are Spark's."""

Filters = list[tuple[str, str, str | list[str]]]


def is_table(path: str) -> bool:
    """Whether a folder has a table: a log with a first version, or with a checkpoint of later ones."""
    log = Path(path) / "_delta_log"
    return (log / f"{0:020}.json").exists() or (log / "_last_checkpoint").exists()


def create(path: str, table: Table) -> None:
    """Make a table without rows, unless it exists."""
    if is_table(path):
        return
    schema = pa.schema([each.with_nullable(nullable=True) for each in table.arrow_schema])
    DeltaTable.create(
        path, schema, mode="ignore", partition_by=[*table.partition_by], description=table.meaning
    )


def on_days(table: Table, log_dates: Sequence[date] | None) -> Filters | None:
    """Which partitions have rows of these days; None: any."""
    if log_dates is None or _LOG_DATE not in table.partition_by:
        return None
    return [(_LOG_DATE, "in", sorted({day.isoformat() for day in log_dates}))]


def version(path: str) -> int:
    """Newest version of a table: that of its last commit, without reading its files."""
    commits = (Path(path) / "_delta_log").glob(f"{'[0-9]' * 20}.json")
    return max(int(commit.stem) for commit in commits)


def restore(path: str, version: int) -> None:
    """Restore a table to an earlier version."""
    DeltaTable(path).restore(version)


def files(path: str, partitions: Filters | None, version: int | None) -> list[str]:
    """Files with the rows of some partitions, at a version or, with None, at the newest."""
    found = DeltaTable(path, version=version).file_uris(file_pruning_predicate=partitions or None)
    return sorted(map(unquote, found))  # it turns folders with names such as Zoë into URLs


def rows_by_day(path: str, version: int | None) -> dict[date, int]:
    """Rows of each day by the table's log."""
    files = pa.table(DeltaTable(path, version=version).get_add_actions(flatten=True))
    found: dict[date, int] = defaultdict(int)
    days, counts = files["partition.log_date"].to_pylist(), files["num_records"].to_pylist()
    for day, rows in zip(days, counts, strict=True):
        found[day] += rows
    return found


def has_rows_of(path: str, day: date) -> bool:
    """Whether a table has rows of a day in its newest version, published or not."""
    log = DeltaTable(path)
    days = [(_LOG_DATE, "=", day.isoformat())]
    return _LOG_DATE in log.metadata().partition_columns and bool(log.file_uris(file_pruning_predicate=days))


def few_rows(
    path: str,
    version: int | None,
    table: Table,
    log_dates: Sequence[date] | None,
    units: Collection[Unit] | None = None,
    also: Mapping[str, str] | None = None,
) -> pa.Table | None:
    """Rows of a table, of all days or of these, or of these units alone; None if they are many.

    also : values of other columns by which the table is partitioned
    """
    schema = table.arrow_schema
    partitions = [
        *(on_days(table, log_dates) or []),
        *((name, "=", value) for name, value in (also or {}).items()),
    ]
    nothing = log_dates is not None and not log_dates
    found = [] if nothing else files(path, partitions, version)
    if sum(Path(file).stat().st_size for file in found) > _FEW_BYTES:
        return None
    rows = pa.concat_tables([schema.empty_table(), *(_read(file, path, schema) for file in found)])
    if log_dates is not None and _LOG_DATE not in table.partition_by:
        are_asked_for = [day in log_dates for day in rows.column(_LOG_DATE).to_pylist()]
        rows = rows.filter(pa.array(are_asked_for, pa.bool_()))
    if units is not None:
        wanted = set(units)
        rows = rows.filter(pa.array([key in wanted for key in keys_of(rows)], pa.bool_()))
    return rows if rows.num_rows else schema.empty_table()  # Spark takes no columns without a chunk


def in_place_of(rows: pa.Table, new: pa.Table, units: Collection[Unit]) -> pa.Table:
    """Rows of a table, with those of some units replaced.

    Raises ValueError for new rows of other units: their old rows would stay.
    """
    others = sorted(set(keys_of(new)) - set(units))
    if others:
        raise ValueError(f"rows of unit {others[0]}, which is not replaced")
    kept = [key not in units for key in keys_of(rows)]
    return pa.concat_tables(
        [rows.filter(pa.array(kept, pa.bool_())), new.select(rows.schema.names).cast(rows.schema)]
    )


def keys_of(rows: pa.Table) -> list[Unit]:
    """The unit of each row."""
    return [Unit(*key) for key in zip(*(rows.column(name).to_pylist() for name in UNIT_KEY), strict=True)]


def _read(file: str, path: str, schema: pa.Schema) -> pa.Table:
    """Rows of one file, with the columns that its folders name; columns that it lacks are null."""
    folders = Path(file).relative_to(path).parts[:-1]
    partition = dict(unquote(folder).split("=", 1) for folder in folders)
    try:
        with pq.ParquetFile(file, page_checksum_verification=True) as stored:
            names = [name for name in schema.names if name in stored.schema_arrow.names]
            read = stored.read(columns=names)
    except (OSError, pa.ArrowException) as error:
        raise DamagedError(f"{file} cannot be read, restore it from a copy: {error}") from error
    columns = [
        read.column(each.name).cast(each.type)
        if each.name in names
        else pa.repeat(pa.scalar(partition.get(each.name)).cast(each.type), read.num_rows)
        for each in schema
    ]
    return pa.table(columns, schema=schema)


def commit(path: str, table: Table, staged: Sequence[StagedFile], replaced: Filters | None) -> bool:
    """Commit staged files as the rows of these partitions; false for a table of other columns or fields.

    replaced : None adds the rows to the existing ones
    """
    log = DeltaTable(path)
    stored, wanted = log.schema(), Schema.from_arrow(table.arrow_schema)
    if [each.name for each in stored.fields] != [*table.column_names] or _names(stored) != _names(wanted):
        return False
    if not staged and not (replaced and log.file_uris(file_pruning_predicate=replaced)):
        return True  # no rows replace no rows: readers need no new version
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    actions: list[AddAction | RemoveAction] = [
        AddAction(
            path=file.path,
            size=file.bytes,
            partition_values=dict(file.partition),
            modification_time=now_ms,
            data_change=True,
            stats=file.stats,
        )
        for file in staged
    ]
    mode = "append" if replaced is None else "overwrite"
    log.create_write_transaction(actions, mode, log.schema(), [*table.partition_by], replaced)
    return True


def _names(kind: DataType | Schema) -> object:
    """Names of the columns and of all fields within them, in any order: Delta adds new ones at the end."""
    if isinstance(kind, ArrayType):
        return _names(kind.element_type)
    if isinstance(kind, StructType | Schema):
        return {each.name: _names(each.type) for each in kind.fields}
    return None


def put(root: str, table: Table, rows: pa.Table, replaced: Filters | None) -> bool:
    """Write rows beside a table, and commit them as the rows of these partitions; returns as commit does.

    root : folder of the tables
    Raises SchemaError for rows of other columns, ValueError for those of a partition that is not replaced.
    """
    table.check(rows.schema)
    partitions = _partitions_of(table, rows)
    _check_replaced(table, partitions, replaced)
    create(f"{root}/{table.name}", table)  # before its folder has files
    staging = Staging(root, uuid4().hex)
    for partition, some in partitions.items():
        staging.write(table.name, partition, some)
    is_done = commit(f"{root}/{table.name}", table, staging.close(), replaced)
    if not is_done:
        staging.drop()
    return is_done


def rewrite(path: str, rows: pa.Table, condition: str) -> None:
    """Replace the rows that fulfil a condition; only files that may have some are read."""
    write_deltalake(path, rows, mode="overwrite", predicate=condition, schema_mode="merge")


def _partitions_of(table: Table, rows: pa.Table) -> dict[Partition, pa.Table]:
    """Rows by the partition in which they are stored, sorted by the table's key."""
    rows = rows.sort_by([(name, "ascending") for name in table.grain])
    found: dict[Partition, pa.Table] = {(): rows}
    for name in table.partition_by:
        found = {
            (*partition, (name, str(value))): some.filter(pc.equal(some.column(name), value))
            for partition, some in found.items()
            for value in sorted(some.column(name).unique().to_pylist())
        }
    return found


def _check_replaced(
    table: Table, partitions: Iterable[tuple[tuple[str, str], ...]], replaced: Filters | None
) -> None:
    """Raise ValueError for rows of a partition that is not replaced: its old rows would stay."""
    wanted = {name: [values] if isinstance(values, str) else values for name, _, values in replaced or ()}
    for partition in partitions:
        for name, value in partition:
            if name in wanted and value not in wanted[name]:
                raise ValueError(f"table {table.name}: rows of {name} {value}, which is not replaced")
