"""Revise: uses other jobs and earlier days to decide between causes that a unit's steps cannot separate.

job_causes, job_baseline, job_slowdown, worker_slowdown -> job_causes. A revised row keeps the measured
values in `unrevised`. A day is due again when an earlier day that it uses has changed results.
"""

import sys
from collections.abc import Sequence
from datetime import date

from pyspark.sql import SparkSession

from jobs.gates.result_rules import CAUSE_RULES
from jobs.history.night import PhaseRun, phase_command
from jobs.history.records import days_before
from jobs.runtime.settings import Settings
from schemas.tables import TABLES
from schemas.vocabulary import JOB_BASELINE, JOB_CAUSES, PHASE_REVISE
from udfs.revise.units import REVISED_FROM, revised_causes


def run(spark: SparkSession, settings: Settings, log_dates: Sequence[date]) -> dict[str, int]:
    """Revise the causes of these days and publish; returns rows per table, and the phase's work."""
    phase, revision = PhaseRun(PHASE_REVISE, spark, settings, log_dates), settings.revision
    results = {name: phase.warehouse.rows(TABLES[name], log_dates) for name in REVISED_FROM}
    baselines = phase.warehouse.rows(TABLES[JOB_BASELINE], days_before(log_dates, revision.days))
    revised = {JOB_CAUSES: revised_causes(results, baselines, **revision.model_dump())}
    return phase.publish(revised, [rule(results | revised) for rule in CAUSE_RULES])


main = phase_command(
    PHASE_REVISE, run, "Revise the causes of a log date, and of later days that depend on it."
)

if __name__ == "__main__":
    sys.exit(main())
