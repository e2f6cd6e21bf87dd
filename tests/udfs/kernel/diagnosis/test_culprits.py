"""For lost times made by hand, the right culprits are named, each with its own loss."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from jobs.synthetic.job import GeneratedJob
from jobs.synthetic.mechanisms.work import LossLayer
from jobs.synthetic.shape import JobShape
from tests.support.random_jobs import LATER, generate_job
from tests.udfs.kernel.diagnosis.kernel_jobs import found_in, job_of
from udfs.kernel import cause
from udfs.kernel import op_type as ot
from udfs.kernel.cause import COMES_AND_GOES, Culprit
from udfs.kernel.diagnosis.block_times import KeptDelays
from udfs.kernel.diagnosis.culprits import blame


def test_a_culprit_has_the_time_lost_in_a_step_that_struck_it_not_in_a_mean_step() -> None:
    """A culprit's effect is its mean lost time over the steps in which it was slow, not over all steps."""
    job = job_of(generate_job(JobShape(dp_size=2, pp_size=2, steps=8), [], seed=1))
    (block,) = job.blocks()
    delay_s = np.zeros((1, 8, 2))
    delay_s[0, [2, 5], 1] = 0.25, 0.75
    late = KeptDelays(np.array([block.graph.stages.index(1)]), delay_s)
    found = found_in([block._replace(delays=late)], job.layout)
    culprits, evidence = blame(cause.LAUNCH_DELAY, found, float("nan"))
    named = Culprit(1, 1, 0.5, 0.25, 2, 5, COMES_AND_GOES, ot.FORWARD_COMPUTE, lost_s=0.125)
    assert culprits == (named,)
    assert (evidence.effect, evidence.peers, evidence.samples) == (0.5, 3, 2)
    assert evidence.standard_error == pytest.approx(0.25 / np.sqrt(2))


def test_a_heavy_stage_is_heavy_in_steps_with_any_number_of_microbatches() -> None:
    """If the first 3 of 11 steps have 6 microbatches instead of 4, a heavy stage is named for all 11."""
    shape, heavy = JobShape(dp_size=2, pp_size=2, microbatches=4, steps=8), [LossLayer(0.1, 0.1)]
    first = generate_job(replace(shape, microbatches=6, steps=3), heavy, seed=1)
    later = generate_job(shape, heavy, seed=1, identity=LATER)
    job = job_of(GeneratedJob(pa.concat_tables([first.rank_steps, later.rank_steps]), first.manifest))
    culprits, _ = blame(cause.STAGE_IMBALANCE, found_in(job.blocks(), job.layout), float("nan"))
    assert [(each.stage, each.first_step, each.last_step) for each in culprits] == [(1, 0, 10)]
