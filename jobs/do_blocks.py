"""Does blocks of work, stage by stage, with a bar that shows how far it is."""

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from pyspark.sql import SparkSession

from jobs import aggregate_fleet, ingest_rank_logs, simulate_what_if
from jobs.blocks import Block
from jobs.changed_units import Wanted, changed_days, changed_results, recollect
from jobs.gates.audit import GateRefusedError, LaterDaysRefusedError
from jobs.progress import counting
from jobs.run_log import added
from jobs.settings import Settings
from jobs.warehouse.tables import Warehouse
from schemas.vocabulary import STAGE_AGGREGATE, STAGE_INGEST, STAGE_SIMULATE

_LOG: Final = logging.getLogger(__name__)


def do_blocks(
    spark: SparkSession, settings: Settings, blocks: Sequence[Block], wants: Mapping[str, Wanted]
) -> dict[str, int]:
    """Do all blocks; returns rows per table and the work of each stage, over all of them.

    What a stage has to do is looked up again when its turn comes: the stage before may have found the same.
    A day that a gate refuses keeps no other back, not even one of its own block; a later day whose causes are
    refused keeps those back that it looks back on. Raises GateRefusedError with all that was refused, and the
    counts, when everything else is done; another error that ends the run earlier has that as its cause.
    """
    counts: dict[str, int] = {}
    refused: list[tuple[Block, GateRefusedError]] = []
    units = sum(len(block.units[stage]) for block in blocks for stage in wants)
    with counting("starting", units) as advance:

        def do(block: Block, stages: Sequence[str]) -> None:
            for number, stage in enumerate(stages):
                try:
                    added(counts, _do(spark, settings, block, stage, wants[stage]))
                except GateRefusedError as error:
                    rest = _without_refused(block, error, settings.revision.days)
                    days = {day for each in rest for day in each.log_dates}
                    left = block.on(set(block.log_dates) - days)
                    if left.log_dates:
                        refused.append((left, error))
                        _LOG.warning("%s: %s", _days(left), error)
                    for each in rest:
                        do(each, stages[number:])
                    return
                advance(f"{stage} {block.log_dates[0]} .. {block.log_dates[-1]}", len(block.units[stage]))

        try:
            for block in blocks:
                do(block, list(wants))
        except Exception as error:
            if refused:
                raise error from _together(refused, counts)
            raise
    if refused:
        raise _together(refused, counts)
    return counts


def _without_refused(block: Block, error: GateRefusedError, looks_back_days: int) -> list[Block]:
    """What of a refused block can still be done: its other days; where none is told, each day alone.

    Where later days were refused, the days on which they do not look back.
    """
    days, told = set(block.log_dates), error.log_dates
    if isinstance(error, LaterDaysRefusedError):
        ages = range(1, looks_back_days + 1)
        others = days - {later - timedelta(days=age) for later in told for age in ages}
        return [block.on(others)] if others and others != days else []
    if len(days) == 1:
        return []
    if not days & told:
        return [block.on({day}) for day in block.log_dates]
    return [block.on(days - told)] if days - told else []


def _together(
    refused: Sequence[tuple[Block, GateRefusedError]], counts: Mapping[str, int]
) -> GateRefusedError:
    """All refusals as one; a single one of later days as it is."""
    errors = [error for _, error in refused]
    later = [error for error in errors if isinstance(error, LaterDaysRefusedError)]
    if later == errors and len(errors) == 1:
        together: GateRefusedError = later[0]
    else:
        days = ", ".join(_days(block) for block, _ in refused)
        kept_in = ", ".join(dict.fromkeys(error.kept_in for error in errors if error.kept_in))
        refusals = [refusal for error in errors for refusal in error.refusals]
        told = [f"all was done but {days}", *(error.published for error in later)]
        together = GateRefusedError(refusals, kept_in, "; ".join(told))
    together.counts = counts
    return together


def _days(block: Block) -> str:
    return ", ".join(day.isoformat() for day in block.log_dates)


def _do(spark: SparkSession, settings: Settings, block: Block, stage: str, want: Wanted) -> Mapping[str, int]:
    """Do what one stage has to do in a block."""
    warehouse = Warehouse.of(spark, settings)
    now = recollect(warehouse, block.log_dates)
    if stage == STAGE_AGGREGATE:
        days = changed_days(now.simulated, now.aggregated, want) & {unit[0] for unit in block.units[stage]}
        return aggregate_fleet.run(spark, settings, sorted(days)) if days else {}
    run = {STAGE_INGEST: ingest_rank_logs.run, STAGE_SIMULATE: simulate_what_if.run}[stage]
    todo = block.units[stage]
    if stage == STAGE_SIMULATE:
        todo &= changed_results(now.ingested, now.simulated, now.jobs, want)
    if not todo:
        return {}
    days = {unit[0] for unit in todo}
    others = {unit for unit in (*now.jobs, *block.sizes) if unit[0] in days and unit not in todo}
    # Whole days are replaced without a look at the rows that they had.
    return run(spark, settings, sorted(days), todo if others else None)
