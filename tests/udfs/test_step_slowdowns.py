"""A worker's slowdowns in single steps agree with its slowdown over all steps."""

import numpy as np
import pytest

from jobs.synthetic.mechanisms.workers import WeakGpu
from jobs.synthetic.shape import JobShape
from tests.support.random_jobs import generate_job
from udfs.what_if import SimulationSettings, simulate_job

JOB = generate_job(JobShape(dp_size=3, pp_size=2, steps=12), [WeakGpu(2, 1, 1.6, 0.4)], seed=5)


@pytest.mark.parametrize("ops_together", [1_000_000, 300])
def test_a_worker_that_is_slow_in_some_steps_is_hot_in_those_alone(ops_together: int) -> None:
    tables = simulate_job(JOB.rank_steps, JOB.manifest, SimulationSettings(ops_together=ops_together))
    workers = tables["worker_slowdown"].to_pandas()
    by_step = np.stack(workers.step_slowdowns)
    ideal_s = tables["step_slowdown"]["ideal_step_s"].to_numpy()
    np.testing.assert_allclose(by_step @ ideal_s / ideal_s.sum(), workers.slowdown, rtol=1e-6)
    is_slow = (workers.dp_rank == 2) & (workers.pp_rank == 1)
    hot = by_step[is_slow][0] > 1.1
    assert 1 <= hot.sum() < len(hot)
    assert by_step[is_slow][:, ~hot].max() < 1.05
    assert by_step[~is_slow].max() < 1.05
