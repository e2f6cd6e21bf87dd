"""Slowdown of every worker in every step: what worker_slowdown says of all steps, step by step."""

import numpy as np
import pytest

from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import JobShape
from tests.random_jobs import generate_job
from tests.udfs.lines import manifest, rank_steps
from udfs.errors import NothingToReplayError
from udfs.layout import LayoutError
from udfs.step_workers import worker_steps
from udfs.what_if import SimulationSettings, simulate_job

SHAPE = JobShape(dp_size=3, pp_size=2, steps=12)
JOB = generate_job(SHAPE, [WeakGpu(2, 1, 1.6, 0.4)], seed=5)


@pytest.mark.parametrize("ops_together", [1_000_000, 300])
def test_steps_add_up_to_what_the_tables_say_of_the_unit(ops_together: int) -> None:
    settings = SimulationSettings(ops_together=ops_together)
    tables = simulate_job(JOB.rank_steps, JOB.manifest, settings)
    found = worker_steps(JOB.rank_steps, JOB.manifest, settings)
    workers = tables["worker_slowdown"].to_pandas()
    steps = tables["step_slowdown"].to_pandas()
    cells = list(zip(workers.dp_rank, workers.pp_rank, strict=True))
    told = found.to_pandas()
    assert told.step.unique().tolist() == steps.step.tolist()
    assert list(zip(told.dp_rank, told.pp_rank, strict=True)) == cells * len(steps)
    by_step = told.slowdown.to_numpy().reshape(len(steps), len(cells))
    ideal_s = steps.ideal_step_s.to_numpy()
    mean = (by_step * ideal_s[:, None]).sum(axis=0) / ideal_s.sum()
    np.testing.assert_allclose(mean, workers.slowdown, rtol=1e-12)


def test_a_worker_that_is_slow_in_some_steps_is_hot_in_those_alone() -> None:
    told = worker_steps(JOB.rank_steps, JOB.manifest).to_pandas()
    of_worker = told[(told.dp_rank == 2) & (told.pp_rank == 1)].slowdown.to_numpy()
    others = told[(told.dp_rank != 2) | (told.pp_rank != 1)].slowdown.to_numpy()
    hot = of_worker > 1.1
    assert 1 <= hot.sum() < len(of_worker)
    assert of_worker[~hot].max() < 1.05
    assert others.max() < 1.05


def test_without_a_complete_step_or_a_layout_there_is_nothing_to_tell() -> None:
    with pytest.raises(NothingToReplayError, match="no complete step"):
        worker_steps(rank_steps(), manifest())
    with pytest.raises(LayoutError):
        worker_steps(JOB.rank_steps, {"job_id": "a"})
