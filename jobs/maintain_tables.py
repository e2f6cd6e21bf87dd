"""Maintain: delete rows of old days from some tables, merge small files, delete unused files.

The command first compares published files with their stored digests; if a file has changed on its disk, it
ends with an error. Only the recorded ops (rank_steps, the largest table by far) and the preliminary rows of
runs in progress (live_slowdown, live_causes) expire; results, manifests, rejects and aggregates are kept. The
command may run at the same time as a night, and may be interrupted and repeated at any moment.
"""

import sys
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import date, timedelta
from typing import Final

import pyarrow.compute as pc
from pyspark.sql import SparkSession

from jobs.entry_points.cli import entry_point
from jobs.entry_points.command import opened
from jobs.entry_points.writing import no_round
from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.runtime.arguments import LOG_DATE, Arguments, option
from jobs.runtime.plural import plural
from jobs.runtime.printing import Result, write
from jobs.runtime.settings import Settings
from jobs.runtime.terminal import say
from jobs.warehouse.file_digests import check_digests
from jobs.warehouse.publication import publication
from jobs.warehouse.reader import Reader
from jobs.warehouse.tables import Warehouse
from jobs.warehouse.upkeep import compact, remove_days, vacuum
from schemas import vocabulary as words
from schemas.table import Table
from schemas.tables import TABLES
from schemas.vocabulary import Phase

_DONE: Final = ("table", "rows_expired", "files_compacted", "into_files", "files_deleted")
_PLANNED: Final = ("table", "rows_to_expire", "files_to_delete")


def run(spark: SparkSession, settings: Settings, log_date: date) -> list[tuple[str, int, int, int, int]]:
    """Maintain every table of the warehouse; return a row for each table, with the columns of _DONE.

    log_date : the age of rows is counted from this day, or from the last ingested day if that is earlier
    """
    warehouse = Warehouse.of(spark, settings)
    last = pc.max(warehouse.rows(TABLES[words.JOBS])["log_date"]).as_py()
    oldest = _oldest(last, settings, log_date)
    tables, done = _own_tables(settings), {}
    with (
        publication(warehouse, words.UPKEEP, [], warehouse.own_tables),
        no_round(settings, "maintain_tables"),
    ):
        for table in tables:
            if table.name == words.RANK_STEPS:
                # Without the fingerprints of ingest, a later simulation skips these units: results are kept.
                ingested = {"stage": Phase.INGEST}
                remove_days(warehouse, TABLES[words.UNIT_FINGERPRINTS], oldest[table.name], ingested)
            expires = table.name in oldest
            expired = remove_days(warehouse, table, oldest[table.name]) if expires else 0
            done[table.name] = expired, *compact(warehouse, table)
    return [(table.name, *done[table.name], vacuum(warehouse, table)) for table in tables]


def plan(
    reader: Reader, database: Database, settings: Settings, log_date: date
) -> list[tuple[str, int, int]]:
    """Return, for each table, how many rows would expire and how many files would be deleted."""
    last = reader.rows(f"SELECT max(log_date) AS last FROM {words.JOBS}")["last"][0].as_py()
    rows = {}
    for name, oldest in _oldest(last, settings, log_date).items():
        is_expired = f"log_date < DATE'{oldest.isoformat()}'"
        (expired,) = reader.rows(f"SELECT count(*) AS expired FROM {name} WHERE {is_expired}")["expired"]
        rows[name] = expired.as_py()
    names = [table.name for table in _own_tables(settings)]
    return [(name, rows.get(name, 0), database.home(name).unused_files(name)) for name in names]


def dry_run(settings: Settings, args: Arguments) -> None:
    """Print rows that would expire and files to delete, without Spark if DuckDB can read the warehouse."""
    _check(settings.paths.warehouse)
    database = opened(settings)
    with closing(DuckDbReader(database)) as reader:
        planned = plan(reader, database, settings, args.log_date)
    write(Result(_PLANNED, planned), "table", sys.stdout)


def _own_tables(settings: Settings) -> list[Table]:
    """Return the tables of this warehouse, without the tables that are read from another warehouse."""
    shared = words.INGESTED_TABLES if settings.paths.ingested is not None else ()
    return [table for name, table in TABLES.items() if name not in shared]


def _oldest(last: date | None, settings: Settings, log_date: date) -> dict[str, date]:
    """Return the oldest day to keep, for each table whose rows expire.

    last : latest ingested day; a later log date counts as this day, and so deletes no more rows
    """
    days = {words.RANK_STEPS: settings.maintenance.rank_steps_days}
    days |= dict.fromkeys(words.LIVE_TABLES, settings.maintenance.live_days)
    return {name: min(log_date, last or log_date) - timedelta(days=age) for name, age in days.items()}


def _check(root: str) -> None:
    """Compare published files with their digests; print how many match. Raises DamagedError otherwise."""
    started = time.monotonic()
    files, size = check_digests(root)
    if files:
        took_s = time.monotonic() - started
        say(f"{plural(files, 'file')}, {size / 1e6:,.1f} MB match their digests ({took_s:.1f} s)")


@entry_point(
    "maintain_tables",
    LOG_DATE,
    option("--dry-run", "only print what would expire and be deleted"),
    dry_run=dry_run,
)
def main(spark: SparkSession, settings: Settings, args: Arguments) -> Mapping[str, int]:
    """Delete old recorded ops, merge small files, and delete unused files."""
    _check(settings.paths.warehouse)
    write(Result(_DONE, run(spark, settings, args.log_date)), "table", sys.stdout)
    return {}


if __name__ == "__main__":
    sys.exit(main())
