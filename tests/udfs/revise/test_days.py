"""If a link is slow from some day on, the days before give the exact cost of its slowness."""

from datetime import date, timedelta
from typing import Any

import pyarrow as pa
import pytest

from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.mechanisms.transfers import FlappingLink
from jobs.synthetic.shape import JobIdentity, JobShape
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.vocabulary import JOB_BASELINE, JOB_CAUSES, UNIT_KEY
from tests.support.random_jobs import generate_job
from udfs.revise.units import REVISED_FROM, revised_causes
from udfs.simulate.unit_batches import UnitRows, UsualTransfers, simulate_unit
from udfs.what_if import SimulationSettings

FIRST = date(2026, 1, 5)
SETTINGS = SimulationSettings()
GPU_HOURS = 48.0
Row = dict[str, Any]


def ran(day: int, shape: JobShape, *links: FlappingLink) -> UnitRows:
    """Simulate the same job on a given day, with faults in some links; each day has other hosts."""
    hosts = [f"host-{day}-{number}" for number in range(shape.hosts)]
    identity = JobIdentity("job", "r1", hosts=hosts, fields={"model": "m", "gpu_hours": GPU_HOURS})
    job: GeneratedJob = generate_job(shape, links, 7, identity)
    return UnitRows(
        Unit(FIRST + timedelta(days=day), "job", "r1"), job.manifest, job.rank_steps, has_day=False
    )


def results(unit: UnitRows) -> dict[str, pa.Table]:
    found = simulate_unit(unit, SETTINGS)
    return {name: _of(unit.key, name, found[name]) for name in REVISED_FROM}


def _of(key: Unit, name: str, rows: pa.Table) -> pa.Table:
    for place, column in enumerate(UNIT_KEY):
        rows = rows.add_column(place, column, pa.array([key[place]] * rows.num_rows))
    schema = TABLES[name].arrow_schema
    return rows.select(schema.names).cast(schema)


def communication(rows: list[Row]) -> Row:
    return next(row for row in rows if row["cause"] == "communication")


@pytest.mark.parametrize(
    ("stages", "slow"), [(2, [0]), (3, [0]), (3, [1]), (4, [0, 1]), (4, [0, 1, 2]), (4, [1])]
)
@pytest.mark.parametrize("extra_s", [0.05, 0.3])
def test_a_link_that_became_slow_saves_what_the_days_before_took_less(
    stages: int, slow: list[int], extra_s: float
) -> None:
    """A link that became slow is compared with earlier days, even if most of its transfers are slow today."""
    shape = JobShape(dp_size=2, pp_size=stages, tp_size=8, microbatches=8, steps=12)
    before = [results(ran(day, shape)) for day in range(2)]
    last = ran(2, shape, *(FlappingLink(stage, extra_s) for stage in slow))
    measured = results(last)
    wanted: dict[Unit, Any] = {}

    def replay(usual: UsualTransfers) -> dict[Unit, list[Row]]:
        wanted.update(usual)
        rows = simulate_unit(last, SETTINGS, usual[last.key])[JOB_CAUSES]
        return {last.key: rows.to_pylist(maps_as_pydicts="strict")}

    earlier = pa.concat_tables([each[JOB_BASELINE] for each in before])
    found = revised_causes(measured, earlier, days=14, minimum_runs=2, replay=replay)
    rows = found.to_pylist(maps_as_pydicts="strict")
    (was,), (took,) = (each["job_slowdown"]["actual_step_s"].to_pylist() for each in (before[0], measured))
    truth = 1.0 - was / took
    row = communication(rows)
    assert row["time_saved_fraction"] == pytest.approx(truth, abs=0.02), wanted
    assert sum(each["lost_fraction"] for each in rows) <= 1.0
    assert row["recoverable_gpu_hours"] <= GPU_HOURS
    assert row["attributed_fraction"] == pytest.approx(truth, abs=0.03)
