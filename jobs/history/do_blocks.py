"""Does batches of days, phase by phase, with a progress bar."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from pyspark.sql import SparkSession

from jobs import aggregate_fleet, ingest_rank_logs, revise_causes, simulate_what_if
from jobs.gates.audit import GateRefusedError
from jobs.history.blocks import Block
from jobs.history.changed_units import Wanted, changed_results, recollect
from jobs.publish_night import summaries
from jobs.runtime.progress import counting
from jobs.runtime.run_log import added
from jobs.runtime.settings import Settings
from jobs.warehouse.tables import Warehouse
from schemas.vocabulary import PHASE_AGGREGATE, PHASE_INGEST, PHASE_PUBLISH, PHASE_REVISE, PHASE_SIMULATE

_LOG: Final = logging.getLogger(__name__)

_OF_UNITS: Final = {PHASE_INGEST: ingest_rank_logs, PHASE_SIMULATE: simulate_what_if}
_OF_DAYS: Final = {PHASE_REVISE: revise_causes, PHASE_AGGREGATE: aggregate_fleet}


def do_blocks(
    spark: SparkSession, settings: Settings, blocks: Sequence[Block], wants: Mapping[str, Wanted]
) -> dict[str, int]:
    """Do all batches, then publish their days; returns rows per table and the work of each phase.

    The work of a phase is looked up again at its turn: the phase before may have changed nothing.
    A day that a gate refuses stops no other, not even one of its batch. Raises GateRefusedError with
    all that was refused, and the counts, when everything else is done; another error that ends the run
    earlier has that as its cause.
    """
    phases = [phase for phase in wants if phase != PHASE_PUBLISH]
    units = sum(len(block.units.get(phase, ())) for block in blocks for phase in phases)
    with counting("starting", units) as advance:
        doing = _Doing(spark, settings, wants, advance)
        try:
            for block in blocks:
                doing.do(block, phases)
            if PHASE_PUBLISH in wants:
                left = {day for block, _ in doing.refused for day in block.log_dates}
                days = {day for block in blocks for day in block.log_dates}
                _publish(spark, settings, sorted(days - left), wants[PHASE_PUBLISH])
        except Exception as error:
            if doing.refused:
                raise error from _together(doing.refused, doing.counts)
            raise
    if doing.refused:
        raise _together(doing.refused, doing.counts)
    return doing.counts


@dataclass
class _Doing:
    """What was done of some batches, and what was refused."""

    spark: SparkSession
    settings: Settings
    wants: Mapping[str, Wanted]
    advance: Callable[[str, int], None]
    counts: dict[str, int] = field(default_factory=dict)
    refused: list[tuple[Block, GateRefusedError]] = field(default_factory=list)

    def do(self, block: Block, phases: Sequence[str]) -> None:
        """Do a batch; if some of its days are refused, do the others."""
        for number, phase in enumerate(phases):
            try:
                added(self.counts, _do(self.spark, self.settings, block, phase, self.wants[phase]))
            except GateRefusedError as error:
                rest = _without_refused(block, error)
                left = block.on(set(block.log_dates) - {day for each in rest for day in each.log_dates})
                if left.log_dates:
                    self.refused.append((left, error))
                    _LOG.warning("%s: %s", _days(left), error)
                for each in rest:
                    self.do(each, phases[number:])
                return
            done = len(block.units.get(phase, ()))
            self.advance(f"{phase} {block.log_dates[0]} .. {block.log_dates[-1]}", done)


def _publish(spark: SparkSession, settings: Settings, log_dates: Sequence[date], want: Wanted) -> None:
    """Publish those of these days that are due."""
    warehouse, size = Warehouse.of(spark, settings), settings.history.block_days
    due: list[date] = []
    for some in (log_dates[first : first + size] for first in range(0, len(log_dates), size)):
        due += recollect(warehouse, settings, some).due(PHASE_PUBLISH, want)
    if due:
        summaries(spark, settings, sorted(due))


def _without_refused(block: Block, error: GateRefusedError) -> list[Block]:
    """What of a refused batch can still be done: its other days; if the error names none, each day alone."""
    days = set(block.log_dates)
    if len(days) == 1:
        return []
    if not days & error.log_dates:
        return [block.on({day}) for day in block.log_dates]
    return [block.on(days - error.log_dates)] if days - error.log_dates else []


def _together(
    refused: Sequence[tuple[Block, GateRefusedError]], counts: Mapping[str, int]
) -> GateRefusedError:
    """All refusals as one."""
    errors = [error for _, error in refused]
    days = ", ".join(_days(block) for block, _ in refused)
    kept_in = ", ".join(dict.fromkeys(error.kept_in for error in errors if error.kept_in))
    refusals = [refusal for error in errors for refusal in error.refusals]
    together = GateRefusedError(refusals, kept_in, f"all was done but {days}")
    together.counts = counts
    return together


def _days(block: Block) -> str:
    return ", ".join(day.isoformat() for day in block.log_dates)


def _do(spark: SparkSession, settings: Settings, block: Block, phase: str, want: Wanted) -> Mapping[str, int]:
    """Do the work of one phase in a batch."""
    todo = block.units.get(phase, frozenset())
    if not todo:
        return {}
    now = recollect(Warehouse.of(spark, settings), settings, block.log_dates)
    if phase in _OF_DAYS:
        days = sorted(now.due(phase, want) & {unit[0] for unit in todo})
        return dict(_OF_DAYS[phase].run(spark, settings, days)) if days else {}
    if phase == PHASE_SIMULATE:
        todo &= changed_results(now.done[PHASE_INGEST], now.done[PHASE_SIMULATE], now.jobs, want)
    if not todo:
        return {}
    dates = {unit[0] for unit in todo}
    others = {unit for unit in (*now.jobs, *block.sizes) if unit[0] in dates and unit not in todo}
    # Whole days are replaced without reading their rows.
    return dict(_OF_UNITS[phase].run(spark, settings, sorted(dates), todo if others else None))
