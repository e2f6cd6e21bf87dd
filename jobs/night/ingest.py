"""Ingest: load the logs and manifests of the given days into tables.

landing -> rank_steps, jobs, rejects, source_files, collective_arrival, run_events, host_health.
"""

import logging
from collections.abc import Collection, Sequence
from datetime import date
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import SparkSession

from jobs.entry_points.run_log import ROWS_IN
from jobs.history.fingerprints import of_units
from jobs.landing.accounts import UnitAccount
from jobs.landing.claims import new_owners
from jobs.landing.files import Landing
from jobs.landing.formats.rows import Bounds
from jobs.landing.read_landing import Where, read_landing
from jobs.night.phase_run import PhaseRun
from jobs.runtime.settings import Settings, SettingsError
from jobs.warehouse.rows import Rows, staged_rows
from jobs.warehouse.staging import STAGED_TABLES
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import HOST_HEALTH, INGESTED_TABLES, JOBS, REJECTS, SOURCE_FILES, Phase

_LOG: Final = logging.getLogger(__name__)


def run(
    spark: SparkSession,
    settings: Settings,
    log_dates: Sequence[date],
    units: Collection[Unit] | None = None,
) -> dict[str, int]:
    """Ingest and publish these days; return the rows per table, the lines read, and the work of the phase.

    units : only these; rows of units that are no longer in the landing are removed
    Raises SettingsError if the ingested tables belong to another warehouse, NoLandingError without a landing.
    """
    if settings.paths.ingested is not None:
        raise SettingsError("paths.ingested: ingested tables of another warehouse are read, never written")
    phase = PhaseRun(Phase.INGEST, spark, settings, log_dates, units)
    landing = Landing(settings.paths.landing, log_dates, units)
    if not landing.units:
        named = ", ".join(day.isoformat() for day in sorted(log_dates))
        _LOG.warning("nothing to ingest: no run folder of %s in %s", named, settings.paths.landing)
    for said in filter(None, (landing.misplaced_text(), landing.misnamed_text())):
        _LOG.warning(said)
    where = Where(
        settings.paths.landing, settings.paths.warehouse, uuid4().hex, Bounds(**settings.landing.model_dump())
    )
    phase.warehouse.create(*(TABLES[name] for name in STAGED_TABLES))
    landed = read_landing(spark, landing, where)
    source_files = _source_files(landed.accounts)
    for change in new_owners(phase.warehouse.rows(TABLES[SOURCE_FILES], log_dates, units), source_files):
        _LOG.warning(change)
    with staged_rows(landed.staged, settings.paths.warehouse) as staged:
        tables: dict[str, Rows] = {**staged, JOBS: landed.jobs, SOURCE_FILES: source_files}
        days = log_dates if units is None else [unit.log_date for unit in units if unit.is_of_day]
        health = [each.health for each in landed.accounts if each.health is not None]
        # no table if these days neither have health now nor had any before
        if health or (days and phase.warehouse.rows_by_day(TABLES[HOST_HEALTH], days)):
            no_rows = TABLES[HOST_HEALTH].arrow_schema.empty_table()
            tables[HOST_HEALTH] = pa.concat_tables([no_rows, *health])
        phase.done = of_units(landed.accounts, settings)
        rows = phase.publish({name: tables[name] for name in INGESTED_TABLES if name in tables})
    if rows[REJECTS]:
        _LOG.warning("rejected lines or files: %d; the table %s says why", rows[REJECTS], REJECTS)
    lines = sum(file.lines or 0 for account in landed.accounts for file in account.files)
    return rows | {ROWS_IN: lines}


def _source_files(units: Sequence[UnitAccount]) -> pa.Table:
    accounts = [file for each in units for file in each.files if file.file.is_log]
    rows = [
        each.file.unit._asdict()
        | {"source_file": each.file.source_file, "bytes": each.file.size}
        | {name: getattr(each, name) for name in ("lines", "rows", "rejects")}
        | {"modified_at": each.file.modified_us or None, "owner_uid": each.file.owner}
        | {"hard_links": each.file.hard_links}
        for each in accounts
    ]
    return pa.Table.from_pylist(rows, schema=TABLES[SOURCE_FILES].arrow_schema)
