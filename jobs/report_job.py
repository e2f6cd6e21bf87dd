"""Write the page of one job: of any that was recorded, straggling or not.

`python -m jobs.report_job --job-id J`: of its latest day; the page lies in the publication of that day.
"""

import sys
from datetime import timedelta
from pathlib import Path

from pyspark.sql import SparkSession

from jobs import report_files
from jobs.arguments import OF_UNIT, Arguments
from jobs.cli import entry_point
from jobs.read_report import read_fleet, read_units
from jobs.report.job_page import job_page
from jobs.report.names import INDEX_NAME, job_page_path
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
    hosts = read_fleet(warehouse, first_day, unit.log_date).hosts
    (tables,) = read_units(warehouse, [unit], hosts)
    has_fleet_page = (root / str(unit.log_date) / INDEX_NAME).is_file()
    page = job_page(tables, warehouse_name(settings), has_fleet_page=has_fleet_page)
    return report_files.add_page(root, job_page_path(*unit), page)


@entry_point("report_job", *OF_UNIT, is_recorded=False)
def main(spark: SparkSession, settings: Settings, args: Arguments) -> dict[str, int]:
    """Write the page of one job on one of its days."""
    warehouse = Warehouse.of(spark, settings)
    unit = find_unit(warehouse, args.job_id, args.run_id, args.log_date)
    sys.stdout.write(f"{run(spark, settings, unit)}\n")
    return {}


if __name__ == "__main__":
    sys.exit(main())
