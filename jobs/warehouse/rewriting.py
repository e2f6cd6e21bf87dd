"""Rewriting of a table's files in Spark tasks, to remove some units' rows or to merge small files.

Row groups of rank_steps are never merged: a group with rows of one unit only stays such a group, so that
units can still be read without a shuffle.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import SparkContext

from jobs.warehouse.delta_files import commit, with_partition
from jobs.warehouse.file_frames import in_tasks, packed
from jobs.warehouse.reader import keys_of
from jobs.warehouse.rows import groups_of
from jobs.warehouse.staging import Partition, StagedFile, Staging, remove, removed_after_errors
from jobs.warehouse.stored import opened
from jobs.warehouse.table_log import Filters, Logged, logged
from schemas.table import Table
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import RANK_STEPS

_SMALL_BYTES: Final = 32 << 20
"""Files of this size or more are not merged, because that makes no query faster. [B]"""
_MERGED_BYTES: Final = 128 << 20


def without_units(
    context: SparkContext,
    root: str,
    table: Table,
    staged: Sequence[StagedFile],
    replaced: Filters,
    units: Collection[Unit],
) -> None:
    """Replace the rows of some units by staged files; rows of other units in the same partitions stay."""
    path = f"{root}/{table.name}"
    jobs = {unit.job_id for unit in units}
    files = [
        file for file in logged(opened(path), replaced) if any(file.may_have("job_id", each) for each in jobs)
    ]
    work = partial(_without, root, table.name, frozenset(units))
    found = in_tasks(context, files, work)
    gone = [file for file, kept in zip(files, found, strict=True) if kept is not None]
    new = [file for kept in found for file in kept or ()]
    with removed_after_errors(lambda: remove(root, new)):
        commit(path, table, [*staged, *new], removed=gone)


def merge_small(context: SparkContext, root: str, table: Table) -> tuple[int, int]:
    """Merge the small files of each partition; return the number of files before and after."""
    path = f"{root}/{table.name}"
    small = [file for file in logged(opened(path)) if file.size < _SMALL_BYTES]
    tasks: list[list[Logged]] = []
    for _, some in groupby(sorted(small, key=_partition), _partition):
        tasks += [files for files in packed(some, _MERGED_BYTES) if len(files) > 1]
    work = partial(_merged, root, table.name)
    new = [file for staged in in_tasks(context, tasks, work) for file in staged]
    old = [file for task in tasks for file in task]
    with removed_after_errors(lambda: remove(root, new)):
        commit(path, table, new, removed=old, are_same_rows=True)
    return len(old), len(new)


def _partition(file: Logged) -> Partition:
    return tuple(sorted(file.partition.items()))


def _without(root: str, name: str, units: frozenset[Unit], file: Logged) -> list[StagedFile] | None:
    """Stage a file's rows except those of some units; return None if the file has no rows of these units."""
    staging, are_there = Staging(root, uuid4().hex), False
    for rows in _groups(f"{root}/{name}", file, TABLES[name]):
        is_kept = [key not in units for key in keys_of(rows)]
        are_there |= not all(is_kept)
        _stage(staging, name, file, rows.filter(pa.array(is_kept, pa.bool_())))
    if are_there:
        return staging.close()
    staging.drop()
    return None


def _merged(root: str, name: str, files: Sequence[Logged]) -> list[StagedFile]:
    """Stage the rows of files as one file; rank_steps keeps its row groups, others are sorted by key."""
    staging, table = Staging(root, uuid4().hex), TABLES[name]
    groups: Iterator[pa.Table] = (rows for file in files for rows in _groups(f"{root}/{name}", file, table))
    if name != RANK_STEPS:
        groups = iter([pa.concat_tables(groups).sort_by([(key, "ascending") for key in table.grain])])
    for rows in groups:
        _stage(staging, name, files[0], rows)
    return staging.close()


def _groups(path: str, file: Logged, table: Table) -> Iterator[pa.Table]:
    for rows in groups_of(path, file, table.column_names):
        yield with_partition(rows, file.partition, table.arrow_schema)


def _stage(staging: Staging, name: str, file: Logged, rows: pa.Table) -> None:
    ops = pc.sum(pc.list_value_length(rows["op"])).as_py() or 0 if "op" in rows.column_names else 0
    staging.write(name, _partition(file), rows, ops)
