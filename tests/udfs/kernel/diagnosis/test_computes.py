"""Steps and dp ranks that differ in their number of microbatches are compared with each other."""

from dataclasses import replace
from itertools import compress
from typing import Any, Final

import pyarrow as pa
import pytest

from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import JobShape
from tests.support.random_jobs import LATER, generate_job
from udfs.what_if import simulate_job

SHAPE: Final = JobShape(dp_size=3, pp_size=2, microbatches=6, steps=10)
SLOW: Final = WeakGpu(1, 0, 1.5)


def of_both(later: list[WeakGpu], microbatches: int) -> GeneratedJob:
    """Return a job of 10 healthy steps with 6 microbatches, then 8 steps with another number of them."""
    shape = replace(SHAPE, microbatches=microbatches, steps=8)
    parts = [generate_job(SHAPE, [], seed=3), generate_job(shape, later, seed=4, identity=LATER)]
    return GeneratedJob(pa.concat_tables([each.rank_steps for each in parts]), parts[0].manifest)


def answer(job: GeneratedJob) -> tuple[float, dict[str, dict[str, Any]]]:
    """Return the mean recorded step time of a job [s], and its rows of job_causes by cause."""
    tables = simulate_job(job.rank_steps, job.manifest)
    (row,) = tables["job_slowdown"].to_pylist()
    assert row["status"] == "analysed"
    return row["actual_step_s"], {each["cause"]: each for each in tables["job_causes"].to_pylist()}


@pytest.mark.parametrize("microbatches", [6, 7, 12, 4])
def test_a_worker_is_slow_in_steps_with_any_number_of_microbatches(microbatches: int) -> None:
    actual_s, causes = answer(of_both([SLOW], microbatches))
    healthy_s, _ = answer(of_both([], microbatches))
    assert causes["slow_worker"]["time_saved_fraction"] == pytest.approx(1 - healthy_s / actual_s, abs=0.01)
    (culprit,) = causes["slow_worker"]["culprits"]
    assert (culprit["pp_rank"], culprit["dp_rank"], culprit["course"]) == (0, 1, "from")


def with_fewer(job: GeneratedJob) -> GeneratedJob:
    """Return a job in which all dp ranks but dp rank 1 lack the last microbatch of each step."""
    rows = job.rank_steps.to_pylist()
    lists = [name for name in job.rank_steps.column_names if isinstance(rows[0][name], list)]
    for row in rows:
        kept = [each < SHAPE.microbatches - 1 or row["dp_rank"] == 1 for each in row["microbatch"]]
        row |= {name: list(compress(row[name], kept)) for name in lists}
    return GeneratedJob(pa.Table.from_pylist(rows, schema=job.rank_steps.schema), job.manifest)


def test_dp_ranks_with_more_microbatches_than_others_are_compared_by_what_one_takes() -> None:
    shape = replace(SHAPE, pp_size=1)
    actual_s, causes = answer(with_fewer(generate_job(shape, [replace(SLOW)], seed=5)))
    healthy_s, healthy = answer(with_fewer(generate_job(shape, [], seed=5)))
    assert not any(each["is_cause"] for each in healthy.values())
    assert causes["slow_worker"]["time_saved_fraction"] == pytest.approx(1 - healthy_s / actual_s, abs=0.01)
    (culprit,) = causes["slow_worker"]["culprits"]
    assert (culprit["pp_rank"], culprit["dp_rank"], culprit["course"]) == (0, 1, "always")


def test_a_job_without_a_fault_loses_nothing_whatever_its_numbers_of_microbatches() -> None:
    _, causes = answer(of_both([], 9))
    assert not any(each["is_cause"] for each in causes.values())
