"""Units stored in rank_steps: their row groups, read by the task that simulates them.

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
    """Row groups of one file that hold a single unit."""

    path: str
    groups: tuple[int, ...]


class Facts(NamedTuple):
    """A unit's row of jobs and rows of run_events as bytes; Python objects take ten times as much.

    Empty without any.
    """

    job: bytes = b""
    events: bytes = b""

    def read(self) -> dict[str, Any]:
        """Return the row of jobs, with its events as `events` if there are any."""
        found: dict[str, Any] = {}
        if self.job:
            (found,) = pa.ipc.open_stream(self.job).read_all().to_pylist(maps_as_pydicts="strict")
        if self.events:
            found["events"] = pa.ipc.open_stream(self.events).read_all().to_pylist()
        return found


NO_FACTS: Final = Facts()


def facts_of(jobs: pa.Table, events: pa.Table) -> dict[Unit, Facts]:
    """Facts of each unit in the table jobs.

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
    """A unit, its facts, and the row groups that hold its rows."""

    key: Unit
    facts: Facts
    pieces: list[Piece] = field(default_factory=list)
    bytes: int = 0


class Stored(NamedTuple):
    """Locations of units, and days with files whose row groups mix units."""

    units: list[StoredUnit]
    mixed_days: set[date]


def stored_units(
    files: Iterable[tuple[date, str]],
    facts: Mapping[Unit, Facts],
    only: Collection[Unit] | None = None,
) -> Stored:
    """Locate the row groups of each unit from the footers of rank_steps files.

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
    """Yield each row group of a file, the job and run of its rows (None if mixed), and its unpacked bytes."""
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
    """Return a DataFrame with one row per task, for tasks_in."""
    tasks = packed(units, partitions)
    payloads = [zlib.compress(pickle.dumps(task)) for task in tasks]  # Spark warns of tasks beyond 1 MB
    rows = pa.table([pa.array(range(len(tasks)), pa.int32()), pa.array(payloads, pa.binary())], _TASK_COLUMNS)
    return spark.createDataFrame(rows).repartitionById(max(1, len(tasks)), "task")


def packed(units: Sequence[StoredUnit], partitions: int) -> list[list[StoredUnit]]:
    """Pack units, in order, into tasks by size."""
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


def tasks_in(batches: Iterable[pa.RecordBatch]) -> Iterator[list[StoredUnit]]:
    """Yield the units of each task, without their rows."""
    for batch in batches:
        for task in batch.column(_PAYLOAD):
            yield pickle.loads(zlib.decompress(task.as_py()))  # noqa: S301  # from the driver


def rows_of_units(units: Iterable[StoredUnit]) -> Iterator[UnitRows]:
    """Yield units with their rows, one at a time."""
    opened: dict[str, pq.ParquetFile] = {}
    for unit in units:
        yield UnitRows(unit.key, unit.facts.read(), _rows(unit.pieces, opened))
    for file in opened.values():
        file.close()


def _rows(pieces: Sequence[Piece], opened: dict[str, pq.ParquetFile]) -> pa.Table:
    """Rows of a unit; each file is opened only once per task."""
    tables = []
    for path, groups in pieces:
        if path not in opened:
            filesystem, place = filesystem_of(path)
            opened[path] = pq.ParquetFile(place, filesystem=filesystem, page_checksum_verification=True)
        tables.append(opened[path].read_row_groups(groups, columns=list(SIMULATED_COLUMNS)))
    return pa.concat_tables(tables) if tables else SIMULATED_SCHEMA.empty_table()
