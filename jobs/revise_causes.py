"""Revise: what other jobs and earlier days say about causes that a unit's own steps cannot tell apart.

job_causes, job_baseline, job_slowdown, worker_slowdown -> job_causes. A row that is revised keeps in
`unrevised` what was measured. A day is due again when a day that it looks back on has other results.
"""

import sys
import time
from collections.abc import Sequence
from datetime import date

from pyspark.sql import SparkSession

from jobs.gates.result_rules import units_of_other_gpu_hours, units_of_other_loss
from jobs.gates.write_audit_publish import publish
from jobs.history.changed_units import days_before, with_later_days
from jobs.history.fingerprints import built_on, looked_back_on, recorded
from jobs.runtime.arguments import LOG_DATE, Arguments
from jobs.runtime.cli import entry_point
from jobs.runtime.progress import working
from jobs.runtime.run_log import phase_work
from jobs.runtime.settings import Settings
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.vocabulary import JOB_BASELINE, JOB_CAUSES, PHASE_REVISE, PHASE_SIMULATE
from udfs.revise.units import REVISED_FROM, revised_causes


def run(spark: SparkSession, settings: Settings, log_dates: Sequence[date]) -> dict[str, int]:
    """Revise the causes of these days and publish; returns rows per table, and the phase's work."""
    started = time.monotonic()
    warehouse, revision = Warehouse.of(spark, settings), settings.revision
    earlier = days_before(log_dates, revision.days)
    simulated = recorded(warehouse, [*earlier, *log_dates], phase=PHASE_SIMULATE)[PHASE_SIMULATE]
    results = {name: warehouse.rows(TABLES[name], log_dates) for name in REVISED_FROM}
    baselines = warehouse.rows(TABLES[JOB_BASELINE], earlier)
    revised = {JOB_CAUSES: revised_causes(results, baselines, **revision.model_dump())}
    context = looked_back_on(simulated, log_dates, revision.days)
    units = {unit: each for unit, each in simulated.items() if unit[0] in context}
    done = built_on(units, PHASE_REVISE, settings, context)
    rules = [rule(results | revised) for rule in (units_of_other_gpu_hours, units_of_other_loss)]
    rows, gates, _ = publish(PHASE_REVISE, warehouse, revised, log_dates, rules, fingerprints=done)
    return rows | phase_work(PHASE_REVISE, done, time.monotonic() - started, gates)


@entry_point("revise_causes", LOG_DATE)
def main(spark: SparkSession, settings: Settings, args: Arguments) -> dict[str, int]:
    """Revise the causes of a log date, and of later days that look back on it."""
    days = with_later_days(Warehouse.of(spark, settings), settings, PHASE_REVISE, [args.log_date])
    with working(f"revise_causes: {', '.join(map(str, days))}"):
        return run(spark, settings, days)


if __name__ == "__main__":
    sys.exit(main())
