"""The last window of each run in progress, read and simulated on executors as in a night."""

import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from jobs.landing.accounts import UnitPart
from jobs.landing.formats.rows import Bounds
from jobs.landing.growing import Tails
from jobs.landing.one_run import read_staged
from jobs.landing.read_unit import read_unit
from jobs.landing.stores import store_of
from jobs.runtime.memory import go_first
from jobs.runtime.one_by_one import Ended, is_again, one_by_one
from schemas.tables import TABLES
from schemas.vocabulary import JOB_CAUSES, RANK_STEPS
from udfs.live import Row, window_row
from udfs.simulate.unit_batches import SIMULATED_COLUMNS, UnitRows, ended_unit, simulate_unit
from udfs.what_if import SimulationSettings

_TASKS_OF_A_CORE: Final = 4


class Where(NamedTuple):
    """Paths and settings for reading windows. steps : most steps of each"""

    landing: str
    bounds: Bounds
    steps: int
    simulation: SimulationSettings


class Window(NamedTuple):
    """A run's last window: its row of live_slowdown, its causes, bytes read, and the CPU time for it."""

    slowdown: Row
    causes: list[Row]
    bytes_read: int
    cpu_s: float


def windows_of(spark: SparkSession, how: Where, parts: Sequence[UnitPart]) -> list[Window]:
    """Read and simulate the window of each run, on executors."""
    if not parts:
        return []
    context = spark.sparkContext
    tasks = min(len(parts), context.defaultParallelism * _TASKS_OF_A_CORE)
    sent = context.parallelize([pickle.dumps(part) for part in parts], tasks)
    return [pickle.loads(each) for each in sent.mapPartitions(partial(_task, how)).collect()]  # noqa: S301  # our own


def _task(how: Where, sent: Iterable[bytes]) -> Iterator[bytes]:
    go_first()
    parts: list[UnitPart] = [pickle.loads(each) for each in sent]  # noqa: S301  # from the driver
    work = partial(_window, how)
    for found in one_by_one(work, parts) if is_again() else map(work, parts):
        yield pickle.dumps(_ended(how, found) if isinstance(found, Ended) else found)


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
    """A window whose reading or simulation ended its process."""
    rows = TABLES[RANK_STEPS].arrow_schema.empty_table()
    row = window_row(ended_unit({}, how.simulation, ended.why), rows) | {"rejects": 0}
    return Window(row, [], 0, 0.0)
