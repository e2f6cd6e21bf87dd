"""Reader of runs in progress: reads the latest steps from growing logs, and simulates them as a night does.

A window is the last whole lines of each rank log of a run; it is read only if all these logs have grown. A
window's size does not depend on how long the run has lasted. An unfinished last line is left for a later
window. Packed logs and logs of other tools are left to the night, because they are written when a run ends.
"""

import os
import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from io import BytesIO
from itertools import chain
from math import ceil
from typing import BinaryIO, Final, NamedTuple

from pyspark.sql import SparkSession

from jobs.landing.accounts import UnitPart
from jobs.landing.files import MANIFEST, RANK_LOG, LandedFile
from jobs.landing.formats.rows import Bounds
from jobs.landing.one_run import read_staged
from jobs.landing.read_unit import read_unit
from jobs.landing.stores import Store, store_of
from jobs.runtime.memory import go_first
from jobs.runtime.one_by_one import Ended, is_again, one_by_one
from jobs.warehouse.file_frames import in_tasks
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import JOB_CAUSES, RANK_STEPS
from udfs.live import Row, window_row
from udfs.simulate.unit_batches import SIMULATED_COLUMNS, UnitRows, ended_unit, simulate_unit
from udfs.what_if import SimulationSettings

_TASKS_OF_A_CORE: Final = 4
_PIECE: Final = 256 << 10
_MOST_BYTES: Final = 64 << 20
"""Most bytes that are read from the end of a log, even if they hold fewer lines than a window. Lines have 2
to 20 kB."""


class Tails(Store):
    """Store that shows only the last whole lines of rank logs. bytes_read : total bytes of these lines"""

    def __init__(self, store: Store, lines: int) -> None:
        self._store, self._lines = store, lines
        self.bytes_read = 0

    def open(self, path: str, size: int | None = None) -> BinaryIO:
        """Open a file; of a rank log, show only the last whole lines."""
        opened = self._store.open(path, size)
        if not fnmatchcase(path.rpartition("/")[2], RANK_LOG):
            return opened
        with opened:
            found = last_lines(opened, self._lines)
        self.bytes_read += len(found)
        return BytesIO(found)


def last_lines(file: BinaryIO, lines: int) -> bytes:
    """Return the last lines of a file, without an unfinished last line; fewer if the file is shorter."""
    start = file.seek(0, os.SEEK_END)
    least, found = max(start - _MOST_BYTES, 0), b""
    while start > least and found.count(b"\n") <= lines:
        size = min(max(_PIECE, len(found)), start - least)
        start -= size
        file.seek(start)
        piece = b""
        while len(piece) < size and (more := file.read(size - len(piece))):
            piece += more
        found = piece + found
    whole = found[: found.rfind(b"\n") + 1].splitlines(keepends=True)
    return b"".join((whole if start == 0 else whole[1:])[-lines:])


def grown(
    units: Mapping[Unit, Sequence[LandedFile]], known: Mapping[Unit, Mapping[str, int]]
) -> dict[Unit, list[LandedFile]]:
    """Return the manifest and rank logs of each run of which every rank log has changed its size.

    A step is complete once all ranks have logged it: if one log has not grown, no new step is complete.

    known : size of each log when it was last read, by unit and name. [B]
    """
    found = {}
    for unit, files in units.items():
        logs, before = rank_logs(files), known.get(unit, {})
        if logs and all(file.size != before.get(file.name) for file in logs):
            found[unit] = [*(file for file in files if file.is_one_of(MANIFEST)), *logs]
    return found


def rank_logs(files: Sequence[LandedFile]) -> list[LandedFile]:
    """Return the files of a run that grow line by line."""
    return [file for file in files if file.is_one_of(RANK_LOG)]


class Where(NamedTuple):
    """Paths and settings to read windows, the latest steps of runs. steps : most steps in a window"""

    landing: str
    bounds: Bounds
    steps: int
    simulation: SimulationSettings


class Window(NamedTuple):
    """Results for the latest steps of a run: row of live_slowdown, causes, bytes read, and CPU time."""

    slowdown: Row
    causes: list[Row]
    bytes_read: int
    cpu_s: float


def windows_of(spark: SparkSession, how: Where, parts: Sequence[UnitPart]) -> list[Window]:
    """Read and simulate the latest steps of each run, on executors."""
    context = spark.sparkContext
    together = ceil(len(parts) / (context.defaultParallelism * _TASKS_OF_A_CORE)) or 1
    tasks = [parts[first : first + together] for first in range(0, len(parts), together)]
    return [*chain.from_iterable(in_tasks(context, tasks, partial(_task, how)))]


def _task(how: Where, parts: Sequence[UnitPart]) -> list[Window]:
    go_first()
    work = partial(_window, how)
    windows = one_by_one(work, parts) if is_again() else map(work, parts)
    return [_ended(how, each) if isinstance(each, Ended) else each for each in windows]


def _window(how: Where, part: UnitPart) -> Window:
    started_s = time.process_time()
    store = Tails(store_of(how.landing), how.steps)
    read = read_staged(lambda staging: read_unit(store, part, how.bounds, staging))
    rows = read.rows.select(SIMULATED_COLUMNS)
    results = simulate_unit(UnitRows(part.unit, dict(read.account.job or {}), rows), how.simulation)
    row = window_row(results, rows) | {"rejects": read.rejects.num_rows}
    causes = results[JOB_CAUSES].to_pylist(maps_as_pydicts="strict")
    return Window(row, causes, store.bytes_read, time.process_time() - started_s)


def _ended(how: Where, ended: Ended) -> Window:
    """Return a Window that only states why the process that read or simulated the run ended."""
    rows = TABLES[RANK_STEPS].arrow_schema.empty_table()
    row = window_row(ended_unit({}, how.simulation, ended.why), rows) | {"rejects": 0}
    return Window(row, [], 0, 0.0)
