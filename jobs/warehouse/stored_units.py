"""Units stored in rank_steps, each with the row groups that the task which simulates the unit reads.

Ingest begins a row group with each unit, so that a task can read a unit without a shuffle. Footers of files
show whether each row group has rows of one unit only. If not, as after OPTIMIZE, the day takes a shuffle.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from jobs.runtime.filesystems import filesystem_of
from jobs.warehouse.file_frames import frame_of_tasks
from jobs.warehouse.reader import keys_of
from schemas.unit import Unit
from udfs.simulate.unit_batches import SIMULATED_COLUMNS, SIMULATED_SCHEMA, UnitRows

_TASK_BYTES: Final = 512 << 20
"""Bytes of uncompressed row groups that one task reads, unit by unit; a larger unit has a task of its own."""


@dataclass(frozen=True)
class Facts:
    """Rows of units in jobs and run_events, in Arrow because Python objects take ten times the memory."""

    jobs: pa.Table
    events: pa.Table

    @cached_property
    def _places(self) -> tuple[dict[Unit, list[int]], ...]:
        """Return the positions of each unit's rows, in each table."""
        found: tuple[dict[Unit, list[int]], ...] = ({}, {})
        for places, rows in zip(found, (self.jobs, self.events), strict=True):
            for place, unit in enumerate(keys_of(rows)):
                places.setdefault(unit, []).append(place)
        return found

    @property
    def units(self) -> Collection[Unit]:
        """Return the units that have a row of jobs."""
        return self._places[0].keys()

    def of(self, *units: Unit) -> "Facts":
        """Return the facts of these units alone."""
        rows = zip((self.jobs, self.events), self._places, strict=True)
        return Facts(
            *(
                table.take(pa.array([at for unit in units for at in found.get(unit, ())], pa.int64()))
                for table, found in rows
            )
        )

    def read(self) -> dict[str, Any]:
        """Return one unit's row of jobs, with any events as `events`; empty if the unit has no row."""
        if not self.jobs.num_rows:
            return {}
        found: dict[str, Any]
        (found,) = self.jobs.to_pylist(maps_as_pydicts="strict")
        if self.events.num_rows:
            found["events"] = self.events.to_pylist()
        return found


@dataclass
class StoredUnit:
    """A unit, and the row groups that hold its rows: path of the file, number of the group.

    bytes : uncompressed size of the row groups
    """

    key: Unit
    groups: list[tuple[str, int]] = field(default_factory=list)
    bytes: int = 0


class Stored(NamedTuple):
    """Locations of units, and days with files whose row groups mix units."""

    units: list[StoredUnit]
    mixed_days: set[date]


def stored_units(
    files: Iterable[tuple[date, str]],
    units: Iterable[Unit],
    only: Collection[Unit] | None = None,
) -> Stored:
    """Locate the row groups of each unit from the footers of rank_steps files.

    files : log date and path or URL of each file
    units : units of the table jobs; returned even if they have no rows in rank_steps
    only : units to locate in the files; None: all
    Raises OSError or pa.ArrowException for a store that pyarrow cannot reach.
    """
    found = {unit: StoredUnit(unit) for unit in units}
    mixed: set[date] = set()
    for day, path in files:
        for group, names, size in _groups(path):
            if names is None:
                mixed.add(day)
                break
            unit = Unit(day, *names)
            if only is None or unit in only:
                stored = found.setdefault(unit, StoredUnit(unit))
                stored.groups.append((path, group))
                stored.bytes += size
    return Stored([found[unit] for unit in sorted(found) if unit.log_date not in mixed], mixed)


def _groups(path: str) -> Iterator[tuple[int, tuple[str, str] | None, int]]:
    """Yield each row group's number, the job and run of its rows (None if mixed), and uncompressed bytes."""
    filesystem, place = filesystem_of(path)
    footer = pq.read_metadata(place, filesystem=filesystem)
    columns = [footer.schema.names.index(name) for name in ("job_id", "run_id")]
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        names = []
        for column in columns:
            facts = group.column(column).statistics
            if facts is not None and facts.has_min_max and facts.min == facts.max:
                names.append(facts.min)
        yield number, (names[0], names[1]) if len(names) == len(columns) else None, group.total_byte_size


def units_frame(spark: SparkSession, units: Sequence[StoredUnit], facts: Facts, partitions: int) -> DataFrame:
    """Return a DataFrame with one row per task, from which `tasks_in` yields units and their Facts."""
    tasks = [(some, facts.of(*(unit.key for unit in some))) for some in packed(units, partitions)]
    return frame_of_tasks(spark, tasks)


def packed(units: Sequence[StoredUnit], partitions: int) -> list[list[StoredUnit]]:
    """Pack units, in order, into tasks of about equal size: one per partition, or more if these are large."""
    tasks: list[list[StoredUnit]] = []
    most = min(_TASK_BYTES, sum(unit.bytes for unit in units) // partitions + 1)
    filled = 0
    for unit in units:
        if not tasks or filled + unit.bytes / 2 > most:
            tasks.append([])
            filled = 0
        tasks[-1].append(unit)
        filled += unit.bytes
    return tasks


def rows_of_units(units: Iterable[StoredUnit], facts: Facts) -> Iterator[UnitRows]:
    """Yield the units of a task with their rows, one at a time."""
    opened: dict[str, pq.ParquetFile] = {}
    for unit in units:
        yield UnitRows(unit.key, facts.of(unit.key).read(), _rows(unit.groups, opened))
    for file in opened.values():
        file.close()


def _rows(groups: Sequence[tuple[str, int]], opened: dict[str, pq.ParquetFile]) -> pa.Table:
    """Return the rows of a unit; each file is opened only once per task."""
    tables = []
    for path, group in groups:
        if path not in opened:
            filesystem, place = filesystem_of(path)
            opened[path] = pq.ParquetFile(place, filesystem=filesystem, page_checksum_verification=True)
        tables.append(opened[path].read_row_group(group, columns=list(SIMULATED_COLUMNS)))
    return pa.concat_tables(tables) if tables else SIMULATED_SCHEMA.empty_table()
