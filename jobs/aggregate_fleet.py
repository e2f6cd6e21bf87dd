"""Aggregate: the fleet, its causes, hosts, groups and op types, and the coverage, of the given days.

job_slowdown and its companions, job_causes, jobs -> fleet_day, cause_day, host_day, coverage_day, group_day,
op_type_day.
"""

import sys
import time
from collections.abc import Sequence
from datetime import date
from typing import Final

from pyspark.sql import SparkSession

from jobs.gates.write_audit_publish import publish
from jobs.history.changed_units import with_later_days
from jobs.history.fingerprints import built_on, recorded
from jobs.runtime.arguments import LOG_DATE, Arguments
from jobs.runtime.cli import entry_point
from jobs.runtime.progress import working
from jobs.runtime.run_log import phase_work
from jobs.runtime.settings import Settings
from jobs.transforms.causes import cause_day, with_lost
from jobs.transforms.fleet import coverage_day, fleet_day, host_day
from jobs.transforms.groups import group_day, op_type_day
from jobs.warehouse.small_frames import collected
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import (
    CAUSE_DAY,
    COVERAGE_DAY,
    FLEET_DAY,
    GROUP_DAY,
    HOST_DAY,
    JOB_CAUSES,
    JOB_SLOWDOWN,
    JOBS,
    OP_TYPE_DAY,
    OP_TYPE_SLOWDOWN,
    PHASE_AGGREGATE,
    PHASE_REVISE,
    WORKER_SLOWDOWN,
)

_READ: Final = (JOB_SLOWDOWN, JOB_CAUSES, WORKER_SLOWDOWN, JOBS, OP_TYPE_SLOWDOWN)


def run(spark: SparkSession, settings: Settings, log_dates: Sequence[date]) -> dict[str, int]:
    """Aggregate these days and publish; returns rows per table, and the phase's work."""
    started = time.monotonic()
    warehouse = Warehouse.of(spark, settings)
    revised = recorded(warehouse, log_dates, phase=PHASE_REVISE)[PHASE_REVISE]
    read = {name: warehouse.read(TABLES[name], log_dates) for name in _READ}
    job_slowdown = read[JOB_SLOWDOWN]
    units = with_lost(job_slowdown, read[JOB_CAUSES])
    frames = {
        FLEET_DAY: fleet_day(units),
        CAUSE_DAY: cause_day(read[JOB_CAUSES], job_slowdown),
        HOST_DAY: host_day(read[WORKER_SLOWDOWN]),
        COVERAGE_DAY: coverage_day(job_slowdown),
        GROUP_DAY: group_day(units, read[JOBS]),
        OP_TYPE_DAY: op_type_day(read[OP_TYPE_SLOWDOWN], job_slowdown),
    }
    counted = built_on(revised, PHASE_AGGREGATE, settings)
    rows, gates, _ = publish(PHASE_AGGREGATE, warehouse, collected(frames), log_dates, fingerprints=counted)
    return rows | phase_work(PHASE_AGGREGATE, counted, time.monotonic() - started, gates)


@entry_point("aggregate_fleet", LOG_DATE)
def main(spark: SparkSession, settings: Settings, args: Arguments) -> dict[str, int]:
    """Aggregate a log date, and later days whose causes were revised: result tables to the fleet's tables."""
    days = with_later_days(Warehouse.of(spark, settings), settings, PHASE_AGGREGATE, [args.log_date])
    with working(f"aggregate_fleet: {', '.join(map(str, days))}"):
        return run(spark, settings, days)


if __name__ == "__main__":
    sys.exit(main())
