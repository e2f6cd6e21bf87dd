"""Simulate: compute how long each unit of the given days would have taken without stragglers.

rank_steps, jobs, run_events -> job_slowdown and its companions, job_causes as the unit's steps show them.
"""

import logging
from collections.abc import Collection, Sequence
from datetime import date
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from jobs.gates.result_rules import RESULT_RULES
from jobs.history.phases import simulation
from jobs.night.phase_run import PhaseRun
from jobs.runtime.settings import Settings
from jobs.warehouse.delta_files import keys_of
from jobs.warehouse.simulated_units import simulated_rows, simulated_units
from jobs.warehouse.stored_units import Stored, StoredUnit, facts_of, stored_units, units_frame
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import JOB_SLOWDOWN, JOBS, RANK_STEPS, RESULT_TABLES, RUN_EVENTS, UNIT_KEY, Phase
from udfs.simulate.run_course import in_order
from udfs.simulate.unit_batches import (
    NO_DAYS,
    RESULT_SCHEMA,
    SIMULATED_COLUMNS,
    Results,
    UsualTransfers,
    results_batches,
    results_of,
    simulate_group,
)

_LOG: Final = logging.getLogger(__name__)


def run(
    spark: SparkSession,
    settings: Settings,
    log_dates: Sequence[date],
    units: Collection[Unit] | None = None,
) -> dict[str, int]:
    """Simulate every unit of these days and publish; returns rows per table, and the phase's work.

    units : only these; the results of one that is no longer in jobs are removed
    """
    phase = PhaseRun(Phase.SIMULATE, spark, settings, log_dates, units)
    jobs = phase.warehouse.rows(TABLES[JOBS], log_dates, units)
    results = simulated(phase.warehouse, settings, jobs, log_dates, units)
    return phase.publish(results, [rule(results | {JOBS: jobs}) for rule in RESULT_RULES])


def simulated(
    warehouse: Warehouse,
    settings: Settings,
    jobs: pa.Table,
    log_dates: Sequence[date],
    units: Collection[Unit] | None,
    before_s: UsualTransfers = NO_DAYS,
) -> Results:
    """Simulate stored units in Spark tasks; units that share row groups are shuffled first.

    The tasks of a shuffle are a given number, because adaptive execution would make one of them.
    """
    spark, chosen, schema = warehouse.spark, simulation(settings), from_arrow_schema(RESULT_SCHEMA)
    facts = facts_of(jobs, in_order(warehouse.rows(TABLES[RUN_EVENTS], log_dates, units)))
    try:
        stored = stored_units(warehouse.files(TABLES[RANK_STEPS], log_dates), facts, units)
    except (OSError, pa.ArrowException) as error:
        _LOG.warning("rows are shuffled, because workers cannot read the files of rank_steps (%s)", error)
        stored = Stored([], set(log_dates))
    partitions = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
    parts, todo, usual_s = [], stored.units, dict(before_s)  # what Spark ships can be pickled
    if stored.mixed_days:
        manifests = {unit: own.read() for unit, own in facts.items() if unit[0] in stored.mixed_days}
        rank_steps = warehouse.read(TABLES[RANK_STEPS], sorted(stored.mixed_days), units)
        rows = rank_steps.select(*UNIT_KEY, *SIMULATED_COLUMNS).repartition(partitions, *UNIT_KEY)
        simulate = partial(simulated_rows, chosen, usual_s)
        by_unit = rows.groupBy(*UNIT_KEY).applyInArrow(simulate_group(chosen, manifests, simulate), schema)
        parts.append(results_of(by_unit.toArrow()))
        have_rows = set(keys_of(parts[0][JOB_SLOWDOWN]))
        without = [unit for unit in manifests if unit not in have_rows]
        todo = [*todo, *(StoredUnit(unit, facts[unit]) for unit in without)]
    tasks = units_frame(spark, todo, partitions)
    simulate_all = results_batches(partial(simulated_units, chosen, usual_s))
    parts.append(results_of(tasks.mapInArrow(simulate_all, schema).toArrow()))
    return {name: pa.concat_tables([part[name] for part in parts]) for name in RESULT_TABLES}
