"""Two jobs can have the same log and different slowdowns; then no replay of the log can find the slowdown."""

import numpy as np

from tests.evaluation.blocking.draw import EVERY, MOST_UNKNOWN, alike, simulated_job, true_slowdown
from tests.evaluation.blocking.workers import Floats, Job, Pipeline, Times

JOB = Job(4, 2, 6, 6, EVERY, is_eager=True, is_fused=True, is_gpipe=False)


def with_a_heavy_stage() -> Times:
    rng = np.random.default_rng(1)

    def noisy(mean_s: float, *shape: int) -> Floats:
        values: Floats = mean_s * np.exp(0.02 * rng.standard_normal((*shape, JOB.steps, JOB.dp)))
        return values

    compute, transfer = (noisy(mean_s, 2, JOB.pp, JOB.microbatches) for mean_s in (0.03, 0.003))
    compute[:, -1] *= 1.3
    own = noisy(0.03, JOB.pp)
    late = np.zeros((JOB.pp, JOB.steps, JOB.dp))
    return Times(compute, transfer, transfer * 0.3, own, own / 2, late, launch_s=8e-6)


def test_when_data_came_that_a_call_hides_changes_the_slowdown_and_not_the_log() -> None:
    """When data arrive during a blocking call changes the slowdown, but not the log."""
    times = with_a_heavy_stage()
    pipeline = Pipeline(JOB, times)
    pipeline.run()
    sooner, later = alike(pipeline)
    assert not np.array_equal(sooner.transfer, later.transfer)
    log = simulated_job(JOB, times).rank_steps
    assert simulated_job(JOB, sooner).rank_steps.equals(log)
    assert simulated_job(JOB, later).rank_steps.equals(log)
    assert true_slowdown(JOB, later) / true_slowdown(JOB, sooner) - 1 < -MOST_UNKNOWN
