"""Run batches of days, phase by phase, with a progress bar."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from pyspark.sql import SparkSession

from jobs.entry_points.run_log import added
from jobs.gates.checks import GateRefusedError
from jobs.history.fingerprints import Wanted
from jobs.history.phases import PHASES
from jobs.history.plan import Batch, in_batches
from jobs.history.records import Records
from jobs.night.ingest import run as ingest
from jobs.night.publish import summaries
from jobs.night.simulate import run as simulate
from jobs.night.whole_night import RUNS
from jobs.runtime.progress import counting
from jobs.runtime.settings import Settings
from jobs.warehouse.tables import Warehouse
from schemas.vocabulary import Phase

_LOG: Final = logging.getLogger(__name__)
_OF_UNITS: Final = {Phase.INGEST: ingest, Phase.SIMULATE: simulate}


def do_batches(
    spark: SparkSession, settings: Settings, batches: Sequence[Batch], wants: Mapping[str, Wanted]
) -> dict[str, int]:
    """Run all batches, then publish their days; return the rows per table and the work of each phase.

    What a phase has to do is determined again just before the phase, because the phase before it may have
    changed nothing. A day that a gate refuses does not stop other days, not even those of its batch. When
    these are done, raises a GateRefusedError with all refusals and the counts. If another error ends the run
    earlier, this GateRefusedError is its cause.
    """
    phases = [phase for phase in wants if phase != Phase.PUBLISH]
    units = sum(len(batch.of(phase)) for batch in batches for phase in phases)
    started = time.monotonic()
    with counting("starting", units) as advance:
        doing = _Doing(spark, settings, wants, advance)
        try:
            for number, batch in enumerate(batches, start=1):
                doing.do(batch, phases)
                took_s = time.monotonic() - started
                left_s = took_s / number * (len(batches) - number)
                rest = f"; about {left_s:.0f} s left" if number < len(batches) else ""
                done = f"{batch.range}, done after {took_s:.1f} s{rest}"
                _LOG.info("batch %d of %d, %s", number, len(batches), done)
            if Phase.PUBLISH in wants:
                doing.publish(batches)
        except Exception as error:
            if doing.refused:
                raise error from doing.all_refusals()
            raise
    if doing.refused:
        raise doing.all_refusals()
    return doing.counts


@dataclass
class _Doing:
    """State of a backfill: which work is done, and which days the gates have refused."""

    spark: SparkSession
    settings: Settings
    wants: Mapping[str, Wanted]
    advance: Callable[[str, int], None]
    counts: dict[str, int] = field(default_factory=dict)
    refused: list[tuple[Batch, GateRefusedError]] = field(default_factory=list)

    def do(
        self, batch: Batch, phases: Sequence[str], published: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        """Run a batch; if a gate refuses some of its days, run the other days.

        published : rows per table that earlier phases of this batch have published; rows of a table that
            several phases publish are counted once
        """
        for number, phase in enumerate(phases):
            try:
                done = _do(self.spark, self.settings, batch, phase, self.wants[phase])
            except GateRefusedError as error:
                rest = _without_refused(batch, error)
                left = batch.on(set(batch.log_dates) - {day for each in rest for day in each.log_dates})
                if left.log_dates:
                    self.refused.append((left, error))
                    _LOG.warning("%s: %s", left, error)
                for each in rest:
                    self.do(each, phases[number:], published)
                return
            added(self.counts, {name: max(rows - published.get(name, 0), 0) for name, rows in done.items()})
            published = {**published, **done}
            self.advance(f"{phase} {batch.range}", len(batch.of(phase)))

    def publish(self, batches: Sequence[Batch]) -> None:
        """Publish the days of the batches that are due and were not refused."""
        left = {day for batch, _ in self.refused for day in batch.log_dates}
        days = {day for batch in batches for day in batch.log_dates} - left
        warehouse, due = Warehouse.of(self.spark, self.settings), set()
        for some in in_batches(days, self.settings):
            due |= Records(warehouse, self.settings, some).due(Phase.PUBLISH, self.wants[Phase.PUBLISH])
        if due:
            summaries(self.spark, self.settings, sorted(due), work=self.counts)

    def all_refusals(self) -> GateRefusedError:
        """Merge all refusals into one error."""
        errors = [error for _, error in self.refused]
        days = ", ".join(str(batch) for batch, _ in self.refused)
        kept_in = ", ".join(dict.fromkeys(error.kept_in for error in errors if error.kept_in))
        refusals = [refusal for error in errors for refusal in error.refusals]
        together = GateRefusedError(refusals, kept_in, f"all was done but {days}")
        together.counts = self.counts
        return together


def _without_refused(batch: Batch, error: GateRefusedError) -> list[Batch]:
    """Return the batch without the refused days, or split into single days if the error names no day."""
    days = set(batch.log_dates)
    if len(days) == 1:
        return []
    if not days & error.log_dates:
        return [batch.on({day}) for day in batch.log_dates]
    return [batch.on(days - error.log_dates)] if days - error.log_dates else []


def _do(spark: SparkSession, settings: Settings, batch: Batch, phase: str, want: Wanted) -> Mapping[str, int]:
    """Run one phase on the units and days of a batch that are due now; return the rows per table."""
    todo = batch.of(phase)
    if not todo:
        return {}
    now = Records(Warehouse.of(spark, settings), settings, batch.log_dates)
    if PHASES[phase].of_days:
        days = sorted(now.due(phase, want) & {unit[0] for unit in todo})
        return RUNS[phase](spark, settings, days) if days else {}
    if phase == Phase.SIMULATE:
        todo &= now.results_due(want)
    if not todo:
        return {}
    dates = {unit[0] for unit in todo}
    others = {unit for unit in (*now.jobs, *batch.sizes) if unit[0] in dates and unit not in todo}
    # Without `units`, whole days are replaced, so that their old rows need not be read.
    return _OF_UNITS[phase](spark, settings, sorted(dates), todo if others else None)
