"""Units as stored in rank_steps: the row groups of each, read by the task that simulates it.

Ingest begins a row group with each unit, so that a unit is read whole without a shuffle. Footers show
whether that holds: days whose files were written otherwise, as by OPTIMIZE, take a shuffle.
"""

import pickle
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from jobs.runtime.filesystems import filesystem_of
from jobs.warehouse.delta_files import keys_of
from schemas.unit import Unit
from udfs.simulate.unit_batches import SIMULATED_COLUMNS, SIMULATED_SCHEMA, UnitRows

_PAYLOAD: Final = "units"
_TASK_COLUMNS: Final = ["task", _PAYLOAD]
_TASK_BYTES: Final = 512 << 20
"""Bytes of unpacked row groups that one task reads, unit by unit."""


class Piece(NamedTuple):
    """Row groups of one file with rows of a single unit."""

    path: str
    groups: tuple[int, ...]


class Facts(NamedTuple):
    """A unit's row of jobs and its rows of run_events, packed: Python's objects take ten times as much.

    Empty without any.
    """

    job: bytes = b""
    events: bytes = b""

    def read(self) -> dict[str, Any]:
        """Return the row of jobs, with events as its `events` where there are any."""
        found: dict[str, Any] = {}
        if self.job:
            (found,) = pa.ipc.open_stream(self.job).read_all().to_pylist(maps_as_pydicts="strict")
        if self.events:
            found["events"] = pa.ipc.open_stream(self.events).read_all().to_pylist()
        return found


NO_FACTS: Final = Facts()


def facts_of(jobs: pa.Table, events: pa.Table) -> dict[Unit, Facts]:
    """Facts of each unit that has a row of jobs.

    events : rows of run_events in their order
    """
    places: dict[Unit, list[int]] = {}
    for place, unit in enumerate(keys_of(events)):
        places.setdefault(unit, []).append(place)
    own = {unit: _streamed(events.take(rows)) for unit, rows in places.items()}
    return {
        unit: Facts(_streamed(jobs.slice(place, 1)), own.get(unit, b""))
        for place, unit in enumerate(keys_of(jobs))
    }


def _streamed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


@dataclass
class StoredUnit:
    """A unit, its facts, and the places of its rows."""

    key: Unit
    facts: Facts
    pieces: list[Piece] = field(default_factory=list)
    bytes: int = 0


class Stored(NamedTuple):
    """The places of units, and the days on which a file has several units in one row group."""

    units: list[StoredUnit]
    mixed_days: set[date]


def stored_units(
    files: Iterable[tuple[date, str]],
    facts: Mapping[Unit, Facts],
    only: Collection[Unit] | None = None,
) -> Stored:
    """Look into the footers of rank_steps.

    files : log date and path, or URL, of each
    facts : by unit; also of units without rows
    only : units wanted, if not all of these days
    Raises OSError or pa.ArrowException for a store that pyarrow does not reach.
    """
    found = {unit: StoredUnit(unit, own) for unit, own in facts.items()}
    mixed: set[date] = set()
    for day, path in files:
        for group, names, size in _groups(path):
            if names is None:
                mixed.add(day)
                break
            unit = Unit(day, *names)
            if only is None or unit in only:
                stored = found.setdefault(unit, StoredUnit(unit, NO_FACTS))
                stored.pieces.append(Piece(path, (group,)))
                stored.bytes += size
    return Stored([found[unit] for unit in sorted(found) if unit.log_date not in mixed], mixed)


def _groups(path: str) -> Iterator[tuple[int, tuple[str, str] | None, int]]:
    """Each row group of a file, the one job and run of its rows, and its size unpacked."""
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


def units_frame(spark: SparkSession, units: Sequence[StoredUnit], partitions: int) -> DataFrame:
    """Return a frame of one row per task, for read_units."""
    tasks = packed(units, partitions)
    payloads = [zlib.compress(pickle.dumps(task)) for task in tasks]  # Spark warns of tasks beyond 1 MB
    rows = pa.table([pa.array(range(len(tasks)), pa.int32()), pa.array(payloads, pa.binary())], _TASK_COLUMNS)
    return spark.createDataFrame(rows).repartitionById(max(1, len(tasks)), "task")


def packed(units: Sequence[StoredUnit], partitions: int) -> list[list[StoredUnit]]:
    """Units of each task, in order, by size; a unit without rows has none."""
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


def read_units(batches: Iterable[pa.RecordBatch]) -> Iterator[UnitRows]:
    """Read the units of each task, one at a time."""
    for units in tasks_in(batches):
        yield from rows_of_units(units)


def tasks_in(batches: Iterable[pa.RecordBatch]) -> Iterator[list[StoredUnit]]:
    """Units of each task, whose rows are not read yet."""
    for batch in batches:
        for task in batch.column(_PAYLOAD):
            yield pickle.loads(zlib.decompress(task.as_py()))  # noqa: S301  # from the driver


def rows_of_units(units: Iterable[StoredUnit]) -> Iterator[UnitRows]:
    """Read units, one at a time."""
    opened: dict[str, pq.ParquetFile] = {}
    for unit in units:
        yield UnitRows(unit.key, unit.facts.read(), _rows(unit.pieces, opened))
    for file in opened.values():
        file.close()


def _rows(pieces: Sequence[Piece], opened: dict[str, pq.ParquetFile]) -> pa.Table:
    """Rows of a unit; a file is opened once for all units of a task, because its footer names them all."""
    tables = []
    for path, groups in pieces:
        if path not in opened:
            filesystem, place = filesystem_of(path)
            opened[path] = pq.ParquetFile(place, filesystem=filesystem, page_checksum_verification=True)
        tables.append(opened[path].read_row_groups(groups, columns=list(SIMULATED_COLUMNS)))
    return pa.concat_tables(tables) if tables else SIMULATED_SCHEMA.empty_table()
