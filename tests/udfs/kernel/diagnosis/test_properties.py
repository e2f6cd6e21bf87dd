"""Properties that every diagnosis has, whatever the layout and the faults of the job."""

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, example, given, reject, settings
from hypothesis import strategies as st

from jobs.synthetic.job import GeneratedJob, recorded_job
from jobs.synthetic.sample_job import sample_job
from jobs.synthetic.shape import JobShape
from jobs.synthetic.simulation import Simulation
from tests.support.random_jobs import random_job
from tests.udfs.kernel.diagnosis.generated import Rows, causes_of
from tests.udfs.reference import shapes, slow_job
from udfs.errors import TraceError
from udfs.what_if import SimulationSettings, simulate_job

SAME: Final = 1e-9
WHOLE: Final = 10**12
EVERY_STEP: Final = 1
"""Ops per block; so few that every step is a block."""
FRACTIONS: Final = ("time_saved_fraction", "attributed_fraction")

thorough = settings(
    max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


def fractions(found: Rows) -> dict[tuple[str, str], float]:
    return {(name, key): row[key] for name, row in found.items() for key in FRACTIONS}


def culprits(found: Rows) -> dict[str, list[tuple[Any, ...]]]:
    """Return the culprits of each cause in order of ranks, because rounding may exchange neighbours."""
    keys = ("pp_rank", "dp_rank", "share_of_steps", "pattern")
    return {
        name: sorted(
            (tuple(each[key] for key in keys) for each in row["culprits"]),
            key=lambda each: tuple(-1 if value is None else value for value in each[:2]),
        )
        for name, row in found.items()
    }


def assert_sane(found: Rows) -> None:
    """Assert that each cause has one row, and that all its numbers are finite."""
    assert np.isfinite(list(fractions(found).values())).all()
    for row in found.values():
        assert row["time_saved_fraction"] < 1.0
        assert all(np.isfinite(value) for value in row["evidence"].values())
        for culprit in row["culprits"]:
            assert np.isfinite(culprit["effect"])
            assert 0.0 < culprit["share_of_steps"] <= 1.0


def assert_same_by_blocks(job: GeneratedJob) -> None:
    whole = causes_of(job.rank_steps, job.manifest, ops_together=WHOLE)
    assert_sane(whole)
    for ops_together in (EVERY_STEP, max(job.ops // 2, 1)):
        found = causes_of(job.rank_steps, job.manifest, ops_together=ops_together)
        assert fractions(found) == pytest.approx(fractions(whole), abs=SAME)
        assert culprits(found) == culprits(whole)
        assert [row["flag_reason"] for row in found.values()] == [
            row["flag_reason"] for row in whole.values()
        ]


@thorough
@given(seed=st.integers(0, 2**20))
def test_blocks_of_steps_change_nothing(seed: int) -> None:
    """Dividing a job into blocks of steps does not change its diagnosis.

    Random jobs whose clocks contradict the order of ops are refused, with and without blocks.
    """
    job = random_job(seed)
    try:
        simulate_job(job.rank_steps, job.manifest, SimulationSettings(diagnosed=False))
    except TraceError:
        reject()
    assert_same_by_blocks(job)


@pytest.mark.parametrize("seed", [2, 40, 56, 60])
def test_blocks_of_steps_change_nothing_where_clocks_seem_a_millisecond_apart_in_some_steps(
    seed: int,
) -> None:
    """Dividing a job into blocks does not change its flags, even if clocks seem 1 ms apart in some steps."""
    job = recorded_job(Simulation(replace(sample_job(seed, most_ops=8000), lost_ranks=())))
    assert_same_by_blocks(job)


def with_column(table: pa.Table, name: str, values: pa.Array) -> pa.Table:
    field = table.schema.field(name)
    return table.set_column(table.schema.get_field_index(name), field, values.cast(field.type))


def slower(rank_steps: pa.Table, factor: int) -> pa.Table:
    """Return the rows with all times multiplied by `factor`."""
    t0_us = rank_steps["t0_us"].combine_chunks()
    first_us = pc.min(t0_us)
    since_us = pc.multiply(pc.subtract(t0_us, first_us), factor)
    rows = with_column(rank_steps, "t0_us", pc.add(since_us, first_us))
    for name in ("start_us", "duration_us"):
        lists = rank_steps[name].combine_chunks()
        scaled = pa.ListArray.from_arrays(lists.offsets, pc.multiply(lists.values, float(factor)))
        rows = with_column(rows, name, scaled)
    return rows


@thorough
@given(shape=shapes(), seed=st.integers(0, 2**20))
@example(shape=JobShape(dp_size=2, pp_size=3, steps=6), seed=1)
def test_a_job_a_thousand_times_slower_has_the_same_causes(shape: JobShape, seed: int) -> None:
    job = slow_job(shape, seed)
    found = causes_of(slower(job.rank_steps, 1000), job.manifest)
    assert fractions(found) == pytest.approx(fractions(causes_of(job.rank_steps, job.manifest)), abs=SAME)


def relabelled(rank_steps: pa.Table, order: list[int]) -> pa.Table:
    """Return the rows with dp rank d renamed to order[d]; global ranks and hosts stay the same."""
    return with_column(rank_steps, "dp_rank", pa.array(np.array(order)[rank_steps["dp_rank"].to_numpy()]))


@thorough
@given(shape=shapes(), seed=st.integers(0, 2**20))
@example(shape=JobShape(dp_size=4, pp_size=2, steps=6), seed=1)
def test_names_of_replicas_change_the_names_of_culprits_alone(shape: JobShape, seed: int) -> None:
    job = slow_job(shape, seed)
    order = np.random.default_rng(seed).permutation(shape.dp_size).tolist()
    wanted = causes_of(job.rank_steps, job.manifest)
    found = causes_of(relabelled(job.rank_steps, order), job.manifest)
    assert fractions(found) == pytest.approx(fractions(wanted), abs=SAME)
    for row in wanted.values():
        for culprit in row["culprits"]:
            if culprit["dp_rank"] is not None:
                culprit["dp_rank"] = order[culprit["dp_rank"]]
    assert culprits(found) == culprits(wanted)
