"""Lands a day without Spark, as one of its workers would, and says what it found and what memory that took.

`python -m tests.jobs.landing.land LANDING STAGING` prints JSON; the tests call it under several locales.
"""

import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from jobs.landing.files import Landing
from jobs.landing.formats.rows import Bounds
from jobs.landing.read_landing import Where, read_landing
from jobs.landing.staging import STAGED_TABLES
from tests.support.night import DAY


class OneWorker:
    """Stands for a session: what Spark's workers would do is done here, one task after the other."""

    defaultParallelism = 2  # noqa: N815  # as Spark spells it

    @property
    def sparkContext(self) -> "OneWorker":  # noqa: N802  # as Spark spells it
        return self

    def parallelize(self, tasks: list[bytes], _: int) -> "OneWorker":
        self._tasks = tasks
        return self

    def map(self, do: Callable[[bytes], Any]) -> "OneWorker":
        self._done = [do(task) for task in self._tasks]
        return self

    def collect(self) -> list[Any]:
        return self._done


def land(landing: str, staging: str, bounds: Bounds | None = None) -> dict[str, Any]:
    """Rows, rejects, accounts and misplaced names of the day."""
    found = Landing(landing, [DAY])
    where = Where(landing, staging, "run", bounds or Bounds())
    landed = read_landing(cast("SparkSession", OneWorker()), found, where)
    tables: dict[str, list[dict[str, Any]]] = {name: [] for name in STAGED_TABLES}
    for file in landed.staged:
        tables[file.table] += pq.read_table(Path(staging) / file.table / file.path).to_pylist()
    accounts = landed.accounts
    return {
        "rows": sorted((row["job_id"], row["rank"], row["step"]) for row in tables["rank_steps"]),
        "rejects": sorted(
            (each["source_file"], each["line"] or 0, each["reason"], each["detail"])
            for each in tables["rejects"]
        ),
        "jobs": {each.unit[1]: each.job["manifest_status"] for each in accounts if each.job},
        "files": {
            file.file.source_file: [file.lines, file.rows, file.rejects]
            for each in accounts
            for file in each.files
        },
        "misplaced": found.misplaced,
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(land(sys.argv[1], sys.argv[2])))
