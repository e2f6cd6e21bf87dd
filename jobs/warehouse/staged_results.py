"""Staging of results: a shuffle brings the rows of each result table together, and its tasks write the files.

The driver never holds the rows. A night of a few jobs gets one file for each table and day. With more than
UNITS_OF_A_FILE units, a table gets several files, each for a range of the sorted units.
"""

import pickle
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import date
from functools import partial
from typing import Final, NamedTuple
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame

from jobs.warehouse.staging import StagedFile, Staging, swept
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import RESULT_TABLES
from udfs.simulate.unit_batches import results_of

UNITS_OF_A_FILE: Final = 4096


class Shares(NamedTuple):
    """Assignment of rows to the tasks that write them; each task writes some tables of a range of units.

    firsts : first unit of each range of the sorted units, except of the first range
    writers : number of tasks among which the tables of one range are divided
    """

    firsts: Sequence[Unit]
    writers: int

    def place(self, unit: Unit, table: str) -> int:
        """Return the number of the task that writes the rows of one unit and table."""
        part = bisect_right(self.firsts, unit)
        return part * self.writers + RESULT_TABLES.index(table) % self.writers

    @property
    def places(self) -> int:
        """Return the number of tasks."""
        return (len(self.firsts) + 1) * self.writers


def shares_of(units: Collection[Unit], partitions: int) -> Shares:
    """Assign the result tables of each range of units to `partitions` tasks, at most one task per table."""
    return Shares(sorted(units)[UNITS_OF_A_FILE::UNITS_OF_A_FILE], min(partitions, len(RESULT_TABLES)))


def stage_results(
    results: DataFrame, shares: Shares, root: str, log_dates: Sequence[date]
) -> list[StagedFile]:
    """Stage rows of RESULT_SCHEMA in Spark tasks. Failed or repeated tasks leave no files.

    results : rows whose column `place` has the value of `shares.place`
    """
    run = uuid4().hex
    shuffled = results.repartitionById(shares.places, "place").select("table", "rows")
    with swept(root, run, RESULT_TABLES, log_dates) as kept:
        answers = shuffled.mapInArrow(partial(_stage, root, run), "files binary").toArrow()
        for each in answers.column("files"):
            kept.extend(pickle.loads(each.as_py()))  # noqa: S301  # our own
    return kept


def _stage(root: str, run: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Stage the rows of one task; yield a batch with its pickled list of StagedFile."""
    staging = Staging(root, run)
    found = results_of(batches)
    for name in RESULT_TABLES:
        staging.write_sorted(TABLES[name], found.pop(name))
    yield pa.RecordBatch.from_pydict({"files": pa.array([pickle.dumps(staging.close())], pa.binary())})
