"""Ingest a day in this process, without Spark; return its tables, its accounts and the peak memory."""

import resource
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from jobs.landing.accounts import UnitAccount
from jobs.landing.files import Landing
from jobs.landing.formats.rows import Bounds
from jobs.landing.read_landing import Where, read_landing
from jobs.night.ingest import _source_files
from jobs.warehouse.staging import STAGED_TABLES
from schemas.vocabulary import COLLECTIVE_ARRIVAL, JOBS, RANK_STEPS, REJECTS, SOURCE_FILES, UNIT_KEY
from tests.support.night import DAY

Rows = list[dict[str, Any]]
Rejected = list[tuple[str, int | None, str]]


class OneWorker:
    """Substitute for a Spark session that runs the tasks of its workers in this process, one by one."""

    defaultParallelism = 2  # noqa: N815  # Spark's name

    @property
    def sparkContext(self) -> "OneWorker":  # noqa: N802  # Spark's name
        return self

    def parallelize(self, tasks: list[bytes], _: int) -> "OneWorker":
        self._tasks = tasks
        return self

    def map(self, do: Callable[[bytes], Any]) -> "OneWorker":
        self._done = [do(task) for task in self._tasks]
        return self

    def collect(self) -> list[Any]:
        return self._done


class Landed:
    """The ingested tables, the day's misplaced entries, the account of each job, and the peak memory."""

    def __init__(
        self, tables: Mapping[str, Rows], misplaced: Sequence[str], accounts: Sequence[UnitAccount]
    ) -> None:
        self.tables, self.misplaced = tables, misplaced
        self.accounts = {each.unit[1]: each for each in accounts}
        self.peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

    def of(self, table: str, job_id: str) -> Rows:
        """Return one job's rows of a table, sorted, without the unit's key."""
        found = [row for row in self.tables[table] if row["job_id"] == job_id]
        bare = [{name: value for name, value in row.items() if name not in UNIT_KEY} for row in found]
        return sorted(bare, key=repr)

    def steps(self, job_id: str) -> list[tuple[int, int]]:
        """Return (rank, step) of each stored row of one job, sorted."""
        return sorted((row["rank"], row["step"]) for row in self.of(RANK_STEPS, job_id))

    def rejected(self, job_id: str) -> Rejected:
        """Return (file name, line, reason) of each reject of one job."""
        rows = self.of(REJECTS, job_id)
        found = [(row["source_file"].rsplit("/", 1)[1], row["line"], row["reason"]) for row in rows]
        return sorted(found, key=lambda each: (each[0], each[1] or 0))

    def reasons(self, job_id: str) -> dict[str, str]:
        """Return the reason of one reject of each file of a job, by file name."""
        return {name: reason for name, _, reason in self.rejected(job_id)}

    def details(self, job_id: str) -> dict[str, str]:
        """Return the detail of one reject of each file of a job, by file name."""
        return {row["source_file"].rsplit("/", 1)[1]: row["detail"] for row in self.of(REJECTS, job_id)}

    def job(self, job_id: str) -> dict[str, Any]:
        """Return the job's only row of the table jobs."""
        (row,) = self.of(JOBS, job_id)
        return row

    def last(self, job_id: str) -> dict[tuple[str, int], int]:
        """Return the number of collectives to which each rank came last, by (communicator, rank)."""
        rows = self.of(COLLECTIVE_ARRIVAL, job_id)
        return {(each["communicator"], each["rank"]): each["times_last"] for each in rows}


def land(landing: Path | str, staging: Path | str, bounds: Bounds | None = None) -> Landed:
    """Read the landing of DAY as a worker of ingest does; tables are staged in the folder `staging`."""
    listed = Landing(str(landing), [DAY])
    where = Where(str(landing), str(staging), "run", bounds or Bounds())
    landed = read_landing(cast("SparkSession", OneWorker()), listed, where)
    made = {JOBS: landed.jobs, SOURCE_FILES: _source_files(landed.accounts)}
    tables: dict[str, Rows] = {name: [] for name in STAGED_TABLES}
    tables |= {name: rows.to_pylist(maps_as_pydicts="strict") for name, rows in made.items()}
    for file in landed.staged:
        tables[file.table] += pq.read_table(
            Path(staging, file.table, file.path), partitioning=None
        ).to_pylist()
    return Landed(tables, listed.misplaced, landed.accounts)
