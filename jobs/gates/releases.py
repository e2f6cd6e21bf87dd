"""Releases: refusals that a person has accepted for a log date, as recorded in pipeline_runs."""

from collections.abc import Sequence
from datetime import date
from typing import Final, NamedTuple

import pyarrow as pa
from pyspark.sql import functions as F

from jobs.gates.audit import KEY_EXPECTATION, ON_TIME_EXPECTATION, SCHEMA_EXPECTATION
from jobs.runtime.run_log import new_run
from jobs.warehouse.tables import Warehouse
from schemas.log_tables import PIPELINE_RUNS as TABLE
from schemas.vocabulary import EXIT_DONE, RUN_OUTCOMES

ENTRY_POINT: Final = "release_night"
NEVER: Final = (SCHEMA_EXPECTATION, KEY_EXPECTATION, ON_TIME_EXPECTATION)
"""Expectations that a table needs to be written and replaced: they cannot be released."""


class Release(NamedTuple):
    """Names of refusals that no longer stop a log date; released by whom, and why."""

    log_date: date
    accepted: Sequence[str]
    by: str
    because: str


def released(warehouse: Warehouse, log_dates: Sequence[date]) -> dict[date, set[str]]:
    """Names of refusals that were released, by day."""
    rows = warehouse.read(TABLE).where(F.col("log_date").isin(list(log_dates)))
    names = (
        rows.where("accepted IS NOT NULL").select("log_date", F.explode("accepted").alias("name")).collect()
    )
    return {day: {row["name"] for row in names if row["log_date"] == day} for day in log_dates}


def refused(warehouse: Warehouse) -> set[str]:
    """Names of all refusals in this warehouse."""
    runs = warehouse.read(TABLE).where("refusals IS NOT NULL").select(F.explode("refusals").alias("refusal"))
    return {row[0] for row in runs.select(F.concat_ws(".", "refusal.table", "refusal.expectation")).collect()}


def record_release(warehouse: Warehouse, release: Release, arguments: str) -> None:
    """Append a release to pipeline_runs."""
    row = {
        **new_run(ENTRY_POINT, arguments, release.log_date),
        "seconds": 0.0,
        "outcome": RUN_OUTCOMES[EXIT_DONE],
        "accepted": list(release.accepted),
        "accepted_by": release.by,
        "accepted_because": release.because,
    }
    warehouse.append(TABLE, pa.Table.from_pylist([row], schema=TABLE.arrow_schema))
