"""Write the fleet's report: the period up to a log date, and a page for each of its straggling jobs."""

import argparse
import logging
import sys
import time
from collections.abc import Collection
from datetime import date, timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from jobs import report_files
from jobs.arguments import LOG_DATE
from jobs.cli import entry_point
from jobs.gates.quality_docs import docs_path
from jobs.project import data_root
from jobs.read_report import read_fleet, read_units, straggling_units
from jobs.report.names import INDEX_NAME, job_page_path
from jobs.report.publish import contents, publication_of, quality_from
from jobs.settings import Settings, SettingsError
from jobs.warehouse.tables import Warehouse
from schemas.vocabulary import STAGE_PUBLISH

_LOG = logging.getLogger(__name__)


def run(spark: SparkSession, settings: Settings, log_date: date) -> Path:
    """Replace the publication of a log date; returns its folder.

    Raises SettingsError where no folder for reports is named.
    """
    started = time.monotonic()
    root = report_root(settings)
    warehouse = Warehouse.of(spark, settings)
    first_day = log_date - timedelta(days=settings.report.period_days - 1)
    fleet = read_fleet(warehouse, first_day, log_date)
    chosen = straggling_units(fleet, log_date, settings.report.job_pages)
    units = read_units(warehouse, chosen, fleet.hosts)
    name = warehouse_name(settings)
    pages = {job_page_path(*unit.key) for unit in units}
    earlier = {path for path in report_files.existing_pages(root) if path < f"{log_date}/"}
    quality = quality_from(root, log_date, Path(docs_path(warehouse.root, log_date, STAGE_PUBLISH)))
    hosts = dict.fromkeys(fleet.host_units["host"].to_pylist())
    publication = publication_of(fleet, log_date, earlier | pages, hosts, name, quality)
    files = contents(fleet, units, publication)
    folder = report_files.replace_publication(root, log_date, files)
    _LOG.info("report: %s (%d job pages, %.1f s)", folder, len(pages), time.monotonic() - started)
    return folder


def write_reports(
    spark: SparkSession, settings: Settings, changed: Collection[date], asked: Collection[date]
) -> None:
    """Write the reports of some days, and anew those that there are of days whose period has changed ones."""
    root = settings.report_folder
    if root is None or not changed:
        return
    period = timedelta(days=settings.report.period_days)
    there = [day for day in report_files.existing_days(root) if min(changed) <= day < max(changed) + period]
    for day in sorted({*asked, *there}):
        run(spark, settings, day)


def report_root(settings: Settings) -> Path:
    """Folder of all publications. Raises SettingsError where there is none."""
    if settings.report_folder is None:
        warehouse = settings.paths.warehouse
        raise SettingsError(f"paths.report: missing key, and {warehouse} is no folder of this machine")
    return settings.report_folder


def warehouse_name(settings: Settings) -> str:
    """Return what a command calls the warehouse: nothing where it is the usual one."""
    path = settings.paths.warehouse
    if "://" in path:
        return path
    if Path(path) == data_root() / "warehouse":
        return ""
    return str(Path(path).relative_to(data_root())) if Path(path).is_relative_to(data_root()) else path


@entry_point("report_fleet", LOG_DATE)
def main(spark: SparkSession, settings: Settings, args: argparse.Namespace) -> dict[str, int]:
    """Write the report of the period up to a log date, as pages."""
    sys.stdout.write(f"{run(spark, settings, args.log_date) / INDEX_NAME}\n")
    return {}


if __name__ == "__main__":
    sys.exit(main())
