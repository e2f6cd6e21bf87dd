"""Simulate: compute how long each unit of the given days would have taken without stragglers.

rank_steps, jobs, run_events -> job_slowdown and its companions, job_causes as the unit's steps show them.
"""

import logging
from collections.abc import Collection, Sequence
from datetime import date
from functools import partial, reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from jobs.gates.result_rules import RESULT_RULES
from jobs.history.phases import simulation
from jobs.night.phase_run import PhaseRun
from jobs.runtime.settings import Settings
from jobs.warehouse.reader import keys_of
from jobs.warehouse.rows import Rows, staged_rows
from jobs.warehouse.simulated_units import simulated_rows, simulated_units
from jobs.warehouse.staged_results import shares_of, stage_results
from jobs.warehouse.stored_units import Facts, Stored, StoredUnit, stored_units, units_frame
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import JOBS, RANK_STEPS, RESULT_TABLES, RUN_EVENTS, UNIT_KEY, Phase
from udfs.simulate.run_course import in_order
from udfs.simulate.unit_batches import (
    NO_DAYS,
    RESULT_SCHEMA,
    SIMULATED_COLUMNS,
    Places,
    UsualTransfers,
    one_place,
    results_batches,
    simulate_group,
)

_LOG: Final = logging.getLogger(__name__)


def run(
    spark: SparkSession,
    settings: Settings,
    log_dates: Sequence[date],
    units: Collection[Unit] | None = None,
) -> dict[str, int]:
    """Simulate every unit of these days and publish; return the rows per table, and the work of the phase.

    units : only these; results of units that are no longer in jobs are removed
    """
    phase = PhaseRun(Phase.SIMULATE, spark, settings, log_dates, units)
    warehouse = phase.warehouse
    jobs = warehouse.rows(TABLES[JOBS], log_dates, units)
    warehouse.create(*(TABLES[name] for name in RESULT_TABLES))
    shares = shares_of(keys_of(jobs), _partitions(spark))
    results = simulated(warehouse, settings, jobs, log_dates, units, places=shares.place)
    files = stage_results(results, shares, warehouse.root, log_dates)
    with staged_rows(files, warehouse.root, RESULT_TABLES) as staged:
        judged: dict[str, Rows] = {**staged, JOBS: jobs}
        return phase.publish(staged, [rule(judged) for rule in RESULT_RULES])


def simulated(
    warehouse: Warehouse,
    settings: Settings,
    jobs: pa.Table,
    log_dates: Sequence[date],
    units: Collection[Unit] | None,
    before_s: UsualTransfers = NO_DAYS,
    places: Places = one_place,
) -> DataFrame:
    """Return the results of stored units, as rows of RESULT_SCHEMA that Spark tasks make.

    Rows of units that share row groups are first shuffled into a fixed number of tasks, because adaptive
    execution would merge them into one task.
    """
    spark, chosen, schema = warehouse.spark, simulation(settings), from_arrow_schema(RESULT_SCHEMA)
    events = in_order(warehouse.rows(TABLES[RUN_EVENTS], log_dates, units))
    facts = Facts(jobs, events)
    try:
        stored = stored_units(warehouse.files(TABLES[RANK_STEPS], log_dates), facts.units, units)
    except (OSError, pa.ArrowException) as error:
        _LOG.warning("rows are shuffled, because workers cannot read the files of rank_steps (%s)", error)
        stored = Stored([], set(log_dates))
    usual_s = dict(before_s)  # Spark pickles it, so it must be a plain dict
    todo, parts = stored.units, []
    if stored.mixed_days:
        rank_steps = warehouse.read(TABLES[RANK_STEPS], sorted(stored.mixed_days), units)
        manifests = {unit: facts.of(unit).read() for unit in facts.units if unit[0] in stored.mixed_days}
        have_rows = set(keys_of(rank_steps.select(*UNIT_KEY).distinct().toArrow()))
        todo = [*todo, *(StoredUnit(unit) for unit in manifests if unit not in have_rows)]
        simulate = partial(simulated_rows, chosen, usual_s)
        rows = rank_steps.select(*UNIT_KEY, *SIMULATED_COLUMNS).repartition(_partitions(spark), *UNIT_KEY)
        of_a_unit = simulate_group(simulate, manifests, places)
        parts.append(rows.groupBy(*UNIT_KEY).applyInArrow(of_a_unit, schema))
    simulate_all = results_batches(partial(simulated_units, chosen, usual_s), places)
    parts.append(units_frame(spark, todo, facts, _partitions(spark)).mapInArrow(simulate_all, schema))
    return reduce(DataFrame.union, parts)


def _partitions(spark: SparkSession) -> int:
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
