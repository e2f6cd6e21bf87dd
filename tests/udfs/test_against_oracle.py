"""The fast simulator against its slow, readable twin, over random layouts."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.synthetic.shape import JobShape
from tests.support import published
from tests.support.random_jobs import without_ops
from tests.udfs.twin import assert_equal_results, oracle_of, shapes, slow_job
from udfs.what_if import simulate_job


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(shape=shapes(), seed=st.integers(0, 2**20))
def test_random_layouts(shape: JobShape, seed: int) -> None:
    job = slow_job(shape, seed)
    wanted = oracle_of(job.rank_steps, job.manifest)
    assert_equal_results(simulate_job(job.rank_steps, job.manifest), wanted)


@pytest.mark.parametrize("name", published.NAMES)
def test_published_traces(name: str, published_traces: Path) -> None:
    rank_steps, facts = (
        published.rank_steps(published_traces, name),
        published.manifest(published_traces, name),
    )
    wanted = oracle_of(rank_steps, facts)
    assert_equal_results(simulate_job(rank_steps, facts), wanted)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    shape=shapes(),
    seed=st.integers(0, 2**20),
    op_type=st.sampled_from(["gc", "optimizer", "params-all-gather", "layernorm-grads-all-reduce"]),
    rows_hit=st.lists(st.integers(0, 200), min_size=1, max_size=5),
)
def test_ranks_and_steps_that_disagree(shape: JobShape, seed: int, op_type: str, rows_hit: list[int]) -> None:
    """Where op lists differ, every step and replica keeps a separate graph."""
    job = slow_job(shape, seed)
    uneven = without_ops(job.rank_steps, op_type, rows_hit)
    wanted = oracle_of(uneven, job.manifest)
    assert_equal_results(simulate_job(uneven, job.manifest), wanted)


def test_graphs_are_counted() -> None:
    job = slow_job(JobShape(dp_size=2, pp_size=2, steps=4), 0)
    (uniform,) = simulate_job(job.rank_steps, job.manifest)["job_slowdown"]["graphs"].to_pylist()
    uneven = without_ops(job.rank_steps, "gc", [0])
    (several,) = simulate_job(uneven, job.manifest)["job_slowdown"]["graphs"].to_pylist()
    assert (uniform, several) == (1, 2)
