"""What all phases share: the days that they touch, their command, and their way to a publication."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date

from pyspark.sql import SparkSession

from jobs.gates.checks import Rule
from jobs.gates.write_audit_publish import publish
from jobs.history.fingerprints import Fingerprint
from jobs.history.phases import PHASES, phase_before
from jobs.history.records import Records, days_after
from jobs.runtime import inputs
from jobs.runtime.arguments import LOG_DATE, Arguments, Command
from jobs.runtime.cli import Reads, entry_point
from jobs.runtime.progress import working
from jobs.runtime.run_log import phase_work
from jobs.runtime.settings import Settings
from jobs.warehouse.frames import Rows
from jobs.warehouse.tables import Warehouse
from schemas.unit import Unit
from schemas.vocabulary import PHASE_INGEST

Run = Callable[[SparkSession, Settings, Sequence[date]], dict[str, int]]
"""Does a phase on some days, gates and publishes it; returns rows per table, and the phase's work."""


class PhaseRun:
    """One phase on some days, or on some of their units, from its first read to its publication.

    done : fingerprints of the units that it publishes, by what the phase before had done at its start
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
        self.done: Sequence[Fingerprint] = ()
        if phase != PHASE_INGEST:
            records = Records(self.warehouse, settings, log_dates, units, phase_before(phase))
            self.done = records.built_on(phase)

    def publish(self, tables: Mapping[str, Rows], rules: Sequence[Rule] = ()) -> dict[str, int]:
        """Publish the phase's tables of these days; returns rows per table, and the phase's work."""
        rows, gates, _ = publish(
            self._phase, self.warehouse, tables, self._days, rules, self._units, self.done
        )
        return rows | phase_work(self._phase, self.done, time.monotonic() - self._started, gates)


def touched_days(
    phase: str, spark: SparkSession, settings: Settings, log_dates: Sequence[date]
) -> list[date]:
    """These days; of a phase of whole days also later ones that depend on them and are due again."""
    days = set(log_dates)
    if PHASES[phase].of_days:
        later = days_after(log_dates, settings.revision.days)
        days |= Records(Warehouse.of(spark, settings), settings, later).due(phase, None)
    return sorted(days)


def phase_command(phase: str, run: Run, meaning: str, reads: Reads = inputs.a_warehouse) -> Command:
    """Make the command that does a phase on one log date, and on later days that this touches.

    meaning : what its help says
    """
    name = PHASES[phase].entry_point

    def body(spark: SparkSession, settings: Settings, args: Arguments) -> dict[str, int]:
        days = touched_days(phase, spark, settings, [args.log_date])
        with working(f"{name}: {', '.join(map(str, days))}"):
            return run(spark, settings, days)

    body.__doc__ = meaning
    return entry_point(name, LOG_DATE, reads=reads)(body)
