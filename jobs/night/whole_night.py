"""The daily run in one session: ingest, simulate, revise, aggregate, publish.

The order of the phases is vocabulary.Phase; RUNS says what does each.
"""

from collections.abc import Sequence
from datetime import date
from typing import Final

from pyspark.sql import SparkSession

from jobs.night import aggregate, ingest, revise, simulate
from jobs.night.phase_run import Run, touched_days
from jobs.night.publish import summaries
from jobs.runtime.progress import steps
from jobs.runtime.settings import Settings
from schemas.vocabulary import PHASE_NAMES, Phase

RUNS: Final[dict[str, Run]] = {
    Phase.INGEST: ingest.run,
    Phase.SIMULATE: simulate.run,
    Phase.REVISE: revise.run,
    Phase.AGGREGATE: aggregate.run,
}
"""Phases with tables: each gates and publishes its own; if one fails, earlier phases stay published."""


def run(spark: SparkSession, settings: Settings, log_dates: Sequence[date]) -> dict[str, int]:
    """Run every phase on these days, and the last phases on later days that depend on them.

    Returns rows per table.
    """
    rows: dict[str, int] = {}
    with steps(f"night of {', '.join(map(str, log_dates))}", list(PHASE_NAMES)) as names:
        for name in names:
            days = touched_days(name, spark, settings, log_dates)
            if name == Phase.PUBLISH:
                summaries(spark, settings, days, with_report=log_dates)
            else:
                rows |= RUNS[name](spark, settings, days)
    return rows
