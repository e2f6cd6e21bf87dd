"""Write the page of one job: of any that was recorded, straggling or not.

`python -m jobs.report_job --job-id J`: of its latest day; the page lies in the publication of that day.
"""

import argparse
import sys
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from jobs import report_files
from jobs.arguments import OF_UNIT
from jobs.cli import entry_point
from jobs.read_report import read_fleet, read_units
from jobs.report.job_page import job_page, links_of
from jobs.report.names import INDEX_NAME, host_page_path, job_page_path
from jobs.report.publish import publication_of
from jobs.report_fleet import report_root, warehouse_name
from jobs.settings import Settings
from jobs.unit import find_unit
from jobs.warehouse.tables import Warehouse
from schemas.unit import Unit


def run(spark: SparkSession, settings: Settings, unit: Unit) -> Path:
    """Write the page of a unit; returns the page."""
    root = report_root(settings)
    warehouse = Warehouse.of(spark, settings)
    first_day = unit.log_date - timedelta(days=settings.report.period_days - 1)
    fleet = read_fleet(warehouse, first_day, unit.log_date)
    (tables,) = read_units(warehouse, [unit], fleet.hosts)
    folder = root / str(unit.log_date)
    hosts = [
        host for host in {*fleet.host_units["host"].to_pylist()} if (folder / host_page_path(host)).is_file()
    ]
    name = warehouse_name(settings)
    publication = publication_of(fleet, unit.log_date, report_files.existing_pages(root), hosts, name)
    links = links_of(unit, fleet, publication, has_fleet_page=(folder / INDEX_NAME).is_file())
    page = job_page(tables, name, links)
    return report_files.add_page(root, job_page_path(*unit), page)


@entry_point("report_job", *OF_UNIT, is_recorded=False)
def main(spark: SparkSession, settings: Settings, args: argparse.Namespace) -> dict[str, int]:
    """Write the page of one job on one of its days."""
    warehouse = Warehouse.of(spark, settings)
    unit = find_unit(warehouse, args.job_id, args.run_id, args.log_date)
    sys.stdout.write(f"{run(spark, settings, unit)}\n")
    return {}


if __name__ == "__main__":
    sys.exit(main())
