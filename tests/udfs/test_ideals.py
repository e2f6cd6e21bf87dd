"""Slowdowns under the four ideals equal the reference's, published figures and hand-made values."""

from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.synthetic.shape import JobShape
from schemas.vocabulary import OP_TYPES
from tests.oracle.ideals import FORMS, MEAN_IDEAL
from tests.oracle.readers import read_layout, read_rank_steps
from tests.oracle.results import Job, read_job
from tests.support import published
from tests.support.random_jobs import without_ops
from tests.udfs.lines import Ops, line, manifest, rank_steps
from tests.udfs.reference import SAME, STREAMS, assert_equal_results, oracle_of, shapes, slow_job
from udfs.kernel.op_type import AVERAGED
from udfs.kernel.replay.ideal import IDEALS, PAPER_IDEAL
from udfs.what_if import SimulationSettings, simulate_job


def test_simulator_and_oracle_know_the_same_ideals() -> None:
    assert IDEALS.keys() == FORMS.keys()
    assert {OP_TYPES[code] for code in AVERAGED} == MEAN_IDEAL


@cache
def oracle_job(traces: Path, name: str) -> Job:
    """Return the reference's graphs and durations of a trace, which are built once for all ideals."""
    ops = read_rank_steps(published.rank_steps(traces, name))
    return read_job(ops, read_layout(published.manifest(traces, name)), PAPER_IDEAL)


@pytest.mark.parametrize(
    ("name", "ideal", "slowdown"),
    [
        ("SE", "pooled-mean-median", 1.53736),
        ("SE", "pooled-median", 1.51184),
        ("SE", "stage-mean-median", 1.34609),
        ("SE", "stage-median", 1.49763),
        ("ST", "pooled-mean-median", 1.17870),
        ("ST", "pooled-median", 1.32672),
        ("ST", "stage-mean-median", 1.01121),
        ("ST", "stage-median", 1.00529),
    ],
)
def test_slowdown_of_published_traces(name: str, ideal: str, slowdown: float, published_traces: Path) -> None:
    """The ideal changes the slowdowns of published traces by known amounts: for ST from 1.18 to 1.01."""
    rows, facts = published.rank_steps(published_traces, name), published.manifest(published_traces, name)
    (job,) = simulate_job(rows, facts, SimulationSettings(ideal=ideal))["job_slowdown"].to_pylist()
    reference = oracle_job(published_traces, name).with_ideal(ideal)
    assert job["slowdown"] == pytest.approx(
        reference.mean(lambda _: True) / reference.mean(lambda _: False), rel=SAME
    )
    assert job["slowdown"] == pytest.approx(slowdown, abs=5e-6)
    assert job["ideal"] == ideal


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(
    shape=shapes(),
    seed=st.integers(0, 2**20),
    ideal=st.sampled_from(sorted(IDEALS)),
    op_type=st.sampled_from(
        ["gc", "optimizer", "params-all-gather", "layernorm-grads-all-reduce", "data-load"]
    ),
    rows_hit=st.lists(st.integers(0, 200), max_size=4),
    ops_together=st.sampled_from([1, 100, 10**12]),
)
def test_random_layouts(
    shape: JobShape, seed: int, ideal: str, op_type: str, rows_hit: list[int], ops_together: int
) -> None:
    """Under each ideal, slowdowns of random layouts equal the reference's, even if ranks lack ops."""
    job = slow_job(shape, seed)
    rows = without_ops(job.rank_steps, op_type, rows_hit)
    chosen = SimulationSettings(ideal=ideal, ops_together=ops_together)
    found = simulate_job(rows, job.manifest | STREAMS, chosen)
    assert_equal_results(found, oracle_of(rows, job.manifest, ideal))


def stage(pp_rank: int, forwards_s: tuple[float, ...], slowest_s: float) -> dict[str, object]:
    """Return a stage with forwards in turn, and a clip of 1 s that starts when the slower stage is ready."""
    ops: Ops = [
        ("forward-compute", sum(forwards_s[:place]), forward_s, place)
        for place, forward_s in enumerate(forwards_s)
    ]
    ready_s = sum(forwards_s)
    return line(0, 0, pp_rank, [*ops, ("optimizer-clip-main-grad", ready_s, slowest_s + 1 - ready_s)])


@pytest.mark.parametrize(
    ("ideal", "forward_s", "ideal_step_s"),
    [
        ("pooled-mean-median", (3, 3), 3 * 3 + 1),
        ("pooled-median", (2, 2), 3 * 2 + 1),
        ("stage-mean-median", (1, 5), 3 * 5 + 1),
        ("stage-median", (1, 3), 3 * 3 + 1),
    ],
)
@pytest.mark.parametrize("ops_together", [1, 10**12])
def test_a_stage_that_is_slower_by_design(
    ideal: str, forward_s: tuple[float, float], ideal_step_s: float, ops_together: int
) -> None:
    """If a stage is slower by design, an ideal for each stage gives a smaller slowdown than a common one.

    The mean over both stages is 18 / 6 = 3 s, and the median (1 + 3) / 2 = 2 s; within stage 1 the mean
    is 5 s and the median 3 s. So S is 1.6, 16 / 7, 1 and 1.6. With means, the difference 1.6 - 1 is due
    to the design of the stages.
    """
    rows = rank_steps(stage(0, (1, 1, 1), 15), stage(1, (3, 3, 9), 15))
    chosen = SimulationSettings(ideal=ideal, minimum_steps=1, ops_together=ops_together)
    found = simulate_job(rows, manifest(pp_size=2), chosen)
    (job,) = found["job_slowdown"].to_pylist()
    assert (job["simulated_step_s"], job["ideal_step_s"]) == (16.0, ideal_step_s)
    assert job["slowdown"] == 16 / ideal_step_s
    first_s = max(3 * forward_s[1], 3 * 1) + 1
    assert found["stage_slowdown"]["slowdown"].to_pylist() == [first_s / ideal_step_s, 16 / ideal_step_s]
