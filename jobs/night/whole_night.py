"""The daily run in one session: ingest, simulate, revise, aggregate, publish.

vocabulary.Phase has the order of the phases, and RUNS the function of each.
"""

from collections.abc import Sequence
from datetime import date
from typing import Final

from pyspark.sql import SparkSession

from jobs.gates.watch import Notice
from jobs.landing.files import Landing
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
"""Functions of the phases that make tables. Each checks and publishes its own tables, so that these stay
published if a later phase fails."""

NOT_COMPLETE: Final = "day_not_marked_complete"
"""Kind of the notice for a day whose producers have not written _SUCCESS."""


def run(spark: SparkSession, settings: Settings, log_dates: Sequence[date]) -> dict[str, int]:
    """Run all phases on these days, and some on later days that depend on them; return the rows per table."""
    rows: dict[str, int] = {}
    warned = not_complete(settings, log_dates)  # before they are read: logs may arrive meanwhile
    with steps(f"night of {', '.join(map(str, log_dates))}", list(PHASE_NAMES)) as names:
        for name in names:
            days = touched_days(name, spark, settings, log_dates)
            if name == Phase.PUBLISH:
                summaries(spark, settings, days, with_report=log_dates, work=rows, warned=warned)
            else:
                rows |= RUNS[name](spark, settings, days)
    return rows


def not_complete(settings: Settings, log_dates: Sequence[date]) -> list[Notice]:
    """Warn of days with a folder in the landing that their producers have not marked complete."""
    landing = Landing(settings.paths.landing, log_dates)
    days = {*landing.all_days}.intersection(log_dates) - landing.finished_days()
    text = "{0} is not marked complete (no log_date={0}/_SUCCESS): logs may still arrive; run it again then"
    return [Notice(NOT_COMPLETE, text.format(day)) for day in sorted(days)]
