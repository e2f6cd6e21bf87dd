"""Code shared by all phases: the days that they affect, their command, and how they publish."""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from typing import Final

from pyspark.sql import SparkSession

from jobs.entry_points import inputs
from jobs.entry_points.cli import Reads, entry_point
from jobs.entry_points.run_log import phase_work
from jobs.gates.checks import Rule
from jobs.gates.suites import Suites
from jobs.gates.write_audit_publish import publish
from jobs.history.fingerprints import Fingerprint
from jobs.history.phases import PHASES, days_reached, phase_before
from jobs.history.records import Records, days_after
from jobs.runtime.arguments import LOG_DATE, Arguments, Command
from jobs.runtime.plural import plural
from jobs.runtime.progress import working
from jobs.runtime.settings import Settings
from jobs.warehouse.rows import Rows
from jobs.warehouse.tables import Warehouse
from schemas.unit import Unit, runs_among
from schemas.vocabulary import Phase

_LOG: Final = logging.getLogger(__name__)

Run = Callable[[SparkSession, Settings, Sequence[date]], dict[str, int]]
"""Function of a phase: does the phase on some days, checks its tables by gates and publishes them; returns
the rows per table, and the work of the phase."""


class PhaseRun:
    """One run of a phase on some days or units, from its first read to its publication.

    done : fingerprints of the units that it publishes, built on what the preceding phase had recorded when
        this run started
    """

    def __init__(
        self,
        phase: str,
        spark: SparkSession,
        settings: Settings,
        log_dates: Sequence[date],
        units: Collection[Unit] | None = None,
    ) -> None:
        self._started = time.monotonic()
        self._phase, self._days, self._units = phase, log_dates, units
        self.warehouse = Warehouse.of(spark, settings)
        self._suites = Suites(settings.gates.suites, phase)
        self.done: Sequence[Fingerprint] = ()
        if phase != Phase.INGEST:
            records = Records(self.warehouse, settings, log_dates, units, phase_before(phase))
            self.done = records.built_on(phase)

    def publish(self, tables: Mapping[str, Rows], rules: Sequence[Rule] = ()) -> dict[str, int]:
        """Publish the phase's tables for these days; return the rows per table, and the work of the phase."""
        rules = [*rules, *self._suites.rules(tables)]
        rows, gates, _ = publish(
            self._phase, self.warehouse, tables, self._days, rules, self._units, self.done
        )
        seconds = time.monotonic() - self._started
        _LOG.info(phase_line(self._phase, self._days, self.done, seconds))
        return rows | phase_work(self._phase, self.done, seconds, gates)


def phase_line(phase: str, log_dates: Sequence[date], done: Collection[Fingerprint], seconds: float) -> str:
    """Return a log line about a phase: what it did, in what time and at what rate."""
    first, last = min(log_dates), max(log_dates)
    of = f"{first}" if first == last else f"{first} to {last}"
    units = runs_among(each.unit for each in done)
    ops = sum(each.ops for each in done)
    rate = f"; {units / seconds:.1f} units and {ops / seconds:,.0f} ops a second" if seconds > 0 else ""
    return f"{phase} of {of}: {plural(units, 'unit')} in {seconds:.1f} s{rate}"


def touched_days(
    phase: str, spark: SparkSession, settings: Settings, log_dates: Sequence[date]
) -> list[date]:
    """Return the days to do; for a whole-day phase these include later days that depend on changed days."""
    days = set(log_dates)
    if PHASES[phase].of_days:
        later = days_after(log_dates, days_reached(phase, settings.revision.days))
        days |= Records(Warehouse.of(spark, settings), settings, later).due(phase, None)
    return sorted(days)


def phase_command(phase: str, run: Run, meaning: str, reads: Reads = inputs.a_warehouse) -> Command:
    """Make the command of a phase, which runs the phase on a log date and on later days that it affects.

    meaning : what its help says
    """
    name = PHASES[phase].entry_point

    def body(spark: SparkSession, settings: Settings, args: Arguments) -> dict[str, int]:
        days = touched_days(phase, spark, settings, [args.log_date])
        with working(f"{name}: {', '.join(map(str, days))}"):
            return run(spark, settings, days)

    body.__doc__ = meaning
    return entry_point(name, LOG_DATE, reads=reads)(body)
