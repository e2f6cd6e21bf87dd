"""Scenarios, causes and timelines of a unit are all computed from the same choice of its rows."""

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from jobs.synthetic.mechanisms.nuisances import ClockSkew
from jobs.synthetic.shape import JobShape
from schemas.vocabulary import CAUSE_UNEXPLAINED, JOB_CAUSES, JOB_SLOWDOWN, STEP_SLOWDOWN, Status
from tests.evaluation.blocking.draw import draw
from tests.support.golden_units import LATER, MISTAKEN, PARTS, UNITS, golden_units
from tests.support.random_jobs import FAULTS, LAYOUTS, NOISY, generate_job, named_job, without_ops
from tests.support.regressions import REGRESSIONS
from tests.support.skewed import job_on_hosts
from udfs.custom_scenario import replay_causes, replay_scenarios
from udfs.errors import NothingToReplayError, TraceError
from udfs.timeline.timelines import IDEAL, RECORDED, REPLAYED, step_timelines
from udfs.what_if import SimulationSettings, simulate_job

ALIKE = 1e-12
BLOCKING = {"blocking": 8, "fused": 3, "buffered": 17, "buffered, fused": 38}
"""Seeds of jobs whose transfers block, by kind."""
LONG = JobShape(dp_size=2, pp_size=2, microbatches=4, steps=14)
DAY = date(2026, 1, 5)
US = 1_000_000
FAR_CLOCKS = SimulationSettings(clock_floor_s=10.0, clock_floor_fraction=10.0)

Unit = tuple[dict[str, Any], pa.Table, SimulationSettings]


def odd_units() -> Iterator[tuple[str, Unit]]:
    """Yield units that a night refuses or uses in part; what-if must treat them in the same way."""
    job = generate_job(LONG, FAULTS, 4, workload=NOISY)
    usual = SimulationSettings()
    yield "a lost op", (job.manifest, without_ops(job.rank_steps, "forward-compute", [5]), usual)
    yield "warm-up", (job.manifest | {"warm_up_steps": 3}, job.rank_steps, usual)
    yield "many restarts", (job.manifest | {"restarts": 99}, job.rank_steps, usual)
    yield "no layout", ({"job_id": "job"}, job.rank_steps, usual)
    yield "unreadable", ({"manifest_status": "bad_manifest", "manifest_detail": "no"}, job.rank_steps, usual)
    midnight_us = round(datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC).timestamp()) * US
    lines = [
        row | {"t0_us": midnight_us + row["step"] * US + (row["step"] == 3) * 10 * 86_400 * US}
        for row in job.rank_steps.to_pylist()
    ]
    other_day = pa.Table.from_pylist(lines, job.rank_steps.schema)
    yield "another day", (job.manifest | {"log_date": DAY}, other_day, usual)
    skewed = job_on_hosts(replace(LONG, tp_size=8), ClockSkew(0.02))
    yield "clocks corrected", (skewed.manifest, skewed.rank_steps, usual)
    yield "clocks left alone", (skewed.manifest, skewed.rank_steps, FAR_CLOCKS)


@cache
def units() -> dict[str, Unit]:
    found = {
        f"golden {each.name}": (each.manifest, each.rank_steps, SimulationSettings())
        for name in (UNITS, LATER, PARTS, MISTAKEN)
        for each in golden_units(name)
    }
    for kind, seed in BLOCKING.items():
        drawn = draw(seed, kind)
        found[kind] = (drawn.manifest, drawn.rank_steps, SimulationSettings())
    for name in (*LAYOUTS, "disagreeing", *range(16)):
        job = named_job(name)
        found[f"generated {name}"] = (job.manifest, job.rank_steps, SimulationSettings())
    for name, make in REGRESSIONS.items():
        job = make()
        found[f"regression {name}"] = (job.manifest, job.rank_steps, SimulationSettings())
    return found | dict(odd_units())


def figures(found: Any, *names: str) -> dict[str, float]:  # noqa: ANN401  # a row or Answers
    return {name: found[name] if isinstance(found, dict) else getattr(found, name) for name in names}


@pytest.mark.parametrize("name", units())
def test_what_if_and_timelines_replay_what_the_tables_do(name: str) -> None:
    facts, rows, settings = units()[name]
    try:
        tables = simulate_job(rows, facts, settings)
    except TraceError as defect:
        with pytest.raises(TraceError, match=re.escape(str(defect))):
            replay_scenarios(rows, facts, ["FALSE"], None, settings)
        return
    (job,) = tables[JOB_SLOWDOWN].to_pylist()
    steps = tables[STEP_SLOWDOWN].to_pylist()
    if not steps:
        with pytest.raises(NothingToReplayError, match=f"^{job['status']}: "):
            replay_scenarios(rows, facts, ["FALSE"], None, settings)
        with pytest.raises(NothingToReplayError, match=f"^{job['status']}: "):
            step_timelines(rows, facts, None, settings)
        return
    answers = replay_scenarios(rows, facts, ["FALSE"], None, settings)
    names = ("steps", "ops", "actual_step_s", "simulated_step_s", "ideal_step_s", "slowdown")
    assert figures(answers, *names) == pytest.approx(figures(job, *names), rel=ALIKE, abs=0.0)
    found = tables[JOB_CAUSES].to_pylist()
    causes = {row["cause"]: row["time_saved_fraction"] for row in found if row["cause"] != CAUSE_UNEXPLAINED}
    asked = replay_causes(rows, facts, list(causes), settings).answers
    assert {each.scenario: each.time_saved_fraction for each in asked[:-1]} == causes
    parts = [row["lost_fraction"] for row in found]
    if job["status"] == Status.ANALYSED:
        # The loss in addition to what all fixes save.
        beyond = max(0.0, found[-1]["time_saved_fraction"])
        assert math.fsum(parts) == pytest.approx(asked[-1].time_saved_fraction + beyond, rel=0.0, abs=ALIKE)
    else:
        assert set(parts) == {None}
    for step in steps if name.startswith("golden") else (steps[0], steps[-1]):
        drawn = step_timelines(rows, facts, step["step"], settings)
        column_of = {RECORDED: "actual_step_s", REPLAYED: "simulated_step_s", IDEAL: "ideal_step_s"}
        for kind, column in column_of.items():
            assert drawn.step_s(kind) == pytest.approx(step[column], rel=ALIKE, abs=0.0), (step["step"], kind)
