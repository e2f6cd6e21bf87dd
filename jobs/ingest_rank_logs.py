"""Ingest: what producers left on the given days.

landing -> rank_steps, jobs, rejects, source_files.
"""

import logging
import sys
import time
from collections.abc import Collection, Sequence
from datetime import date
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.cli import run_stage
from jobs.fingerprints import of_files
from jobs.landing import Landing
from jobs.read_landing import landed_days
from jobs.run_log import ROWS_IN, stage_work
from jobs.settings import Settings, SettingsError
from jobs.settle_rows import settled_rows
from jobs.stage import publish
from jobs.transforms.landed_files import Unit, by_unit
from jobs.transforms.rejects import source_files_table
from jobs.warehouse import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import JOBS, RANK_STEPS, REJECTS, SOURCE_FILES, STAGE_INGEST, UNIT_KEY
from udfs.landed_rows import STATE_BLANK

_LOG: Final = logging.getLogger(__name__)


def run(
    spark: SparkSession,
    settings: Settings,
    log_dates: Sequence[date],
    units: Collection[Unit] | None = None,
) -> dict[str, int]:
    """Ingest these days and publish them; returns rows per table, the lines read, and the stage's work.

    units : only these; one that is no longer in the landing loses its rows
    Raises SettingsError where the ingested tables are those of another warehouse.
    """
    if settings.paths.silver is not None:
        raise SettingsError("paths.silver: ingested tables of another warehouse are read, never written")
    started = time.monotonic()
    warehouse = Warehouse(spark, settings.paths.warehouse)
    landing = Landing(spark, settings.paths.landing, log_dates, units)
    if not landing.files:
        named = ", ".join(day.isoformat() for day in sorted(log_dates))
        _LOG.warning("nothing to ingest: no run folder of %s in %s", named, settings.paths.landing)
    with landed_days(spark, landing) as days, settled_rows(days, landing) as settled:
        jobs = pa.Table.from_pylist(days.jobs, schema=TABLES[JOBS].arrow_schema)
        frames = {
            RANK_STEPS: settled.rank_steps,
            JOBS: spark.createDataFrame(jobs),
            REJECTS: settled.rejects,
            SOURCE_FILES: source_files_table(days.files, days.landed, *settled),
        }
        read = of_files(by_unit(landing.files), days.digests, _ops(settled.rank_steps))
        rows, gates, _ = publish(STAGE_INGEST, warehouse, frames, log_dates, units=units, fingerprints=read)
    if rows[REJECTS]:
        _LOG.warning("%d lines or files rejected; the table %s says why", rows[REJECTS], REJECTS)
    lines = sum(count for state, count in days.states.items() if state != STATE_BLANK)
    return rows | {ROWS_IN: lines} | stage_work(STAGE_INGEST, read, time.monotonic() - started, gates)


def _ops(rank_steps: DataFrame) -> dict[Unit, int]:
    """Ops stored of each unit."""
    counts = rank_steps.groupBy(*UNIT_KEY).agg(F.sum(F.size("op")).alias("ops")).collect()
    return {(row["log_date"], row["job_id"], row["run_id"]): row["ops"] for row in counts}


def main(argv: Sequence[str] | None = None) -> int:
    """Ingest one log date; returns the exit status."""
    return run_stage(
        "ingest_rank_logs", "Ingest a log date: landing to rank_steps, jobs, rejects.", argv, run
    )


if __name__ == "__main__":
    sys.exit(main())
