"""Lands a day without Spark, as one of its workers would, and says what it found and what memory that took.

`python -m tests.jobs.landing.land LANDING STAGING` prints JSON; the tests call it under several locales.
"""

import json
import pickle
import resource
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from jobs.landing.files import Landing
from jobs.landing.formats.rows import Bounds
from jobs.landing.read_landing import Where, _task, tasks_of
from tests.jobs.night import DAY


def land(landing: str, staging: str, bounds: Bounds | None = None) -> dict[str, Any]:
    """Rows, rejects, accounts and misplaced names of the day."""
    found = Landing(landing, [DAY])
    where = Where(landing, staging, "run", bounds or Bounds())
    tasks = [pickle.dumps(task) for task in tasks_of(found.units, 4, where.bounds)]
    done = [pickle.loads(_task(where, task)) for task in tasks]  # noqa: S301  # what this very process has made
    tables: dict[str, list[dict[str, Any]]] = {"rank_steps": [], "rejects": []}
    for each in done:
        for file in each.staged:
            tables[file.table] += pq.read_table(Path(staging) / file.table / file.path).to_pylist()
    accounts = [account for each in done for account in each.accounts]
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
