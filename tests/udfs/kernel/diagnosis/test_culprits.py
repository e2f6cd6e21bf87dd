"""Culprits and their losses are right for lost times written by hand."""

import numpy as np
import pytest

from jobs.synthetic.shape import JobShape
from tests.support.random_jobs import generate_job
from tests.udfs.kernel.diagnosis.kernel_jobs import found_in, job_of
from udfs.kernel import cause
from udfs.kernel import op_type as ot
from udfs.kernel.cause import COMES_AND_GOES, Culprit
from udfs.kernel.diagnosis.block_times import KeptDelays
from udfs.kernel.diagnosis.culprits import blame


def test_a_culprit_has_the_time_lost_in_a_step_that_struck_it_not_in_a_mean_step() -> None:
    """A culprit's effect is its mean lost time in the steps that it hits, not in all steps."""
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
