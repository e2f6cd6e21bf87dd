"""Revise: use other jobs and earlier days to decide between causes that a unit's own steps cannot separate.

job_causes, job_baseline, job_slowdown, worker_slowdown -> job_causes, slower_than_usual of job_slowdown;
units whose transfers became slow are also replayed from rank_steps, with the transfer times of earlier days.
A revised row keeps the measured values in `unrevised`. A day is due again if the results of an earlier day
that it uses have changed.
"""

from collections.abc import Sequence
from datetime import date

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from jobs.gates.result_rules import CAUSE_RULES
from jobs.history.phases import simulation
from jobs.history.records import days_before
from jobs.night.phase_run import PhaseRun
from jobs.night.simulate import simulated
from jobs.runtime.settings import Settings
from jobs.warehouse.reader import rows_by_unit
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import JOB_BASELINE, JOB_CAUSES, JOB_SLOWDOWN, JOBS, UNIT_KEY, Phase
from udfs.revise.causes import Row
from udfs.revise.slower import with_slower
from udfs.revise.units import REVISED_FROM, Replay, revised_causes
from udfs.simulate.result_tables import SIMULATOR_VERSION
from udfs.simulate.unit_batches import UsualTransfers, results_of


def run(spark: SparkSession, settings: Settings, log_dates: Sequence[date]) -> dict[str, int]:
    """Revise the causes of these days and publish; return the rows per table, and the work of the phase."""
    phase, revision = PhaseRun(Phase.REVISE, spark, settings, log_dates), settings.revision
    results = {name: phase.warehouse.rows(TABLES[name], log_dates) for name in REVISED_FROM}
    baselines = phase.warehouse.rows(TABLES[JOB_BASELINE], days_before(log_dates, revision.days))
    replay = _replay(phase.warehouse, settings, results[JOB_SLOWDOWN])
    revised = {
        JOB_CAUSES: revised_causes(results, baselines, **revision.model_dump(), replay=replay),
        JOB_SLOWDOWN: with_slower(results[JOB_SLOWDOWN], results[JOB_BASELINE], baselines, revision.days),
    }
    return phase.publish(revised, [rule(results | revised) for rule in CAUSE_RULES])


def _replay(warehouse: Warehouse, settings: Settings, slowdowns: pa.Table) -> Replay:
    """Return a function that replays units from their ops, and returns the causes that the replays show.

    It leaves out units whose results are of another simulator version or other settings, and units whose ops
    have expired.
    """
    now = {"simulator_version": SIMULATOR_VERSION, "simulation_settings": simulation(settings).text}

    def replay(wanted: UsualTransfers) -> dict[Unit, list[Row]]:
        stored = slowdowns.select([*UNIT_KEY, *now]).to_pylist()
        of_now = {Unit(*(row.pop(name) for name in UNIT_KEY)) for row in stored if now.items() <= row.items()}
        units = sorted(of_now & wanted.keys())
        days = sorted({unit.log_date for unit in units})
        if not units:
            return {}
        jobs = warehouse.rows(TABLES[JOBS], days, units)
        results = simulated(warehouse, settings, jobs, days, units, wanted)
        causes = results.where(F.col("table") == JOB_CAUSES).toArrow().to_batches()
        return rows_by_unit(results_of(causes)[JOB_CAUSES])

    return replay
