"""Random loads of data for a job that records them."""

from dataclasses import replace
from typing import Final

import numpy as np

from jobs.synthetic.mechanisms.nuisances import UnevenLoads
from jobs.synthetic.sample_faults import Setting, data_loading, log_uniform
from jobs.synthetic.simulation import JobPlan

SLOW_LOADS: Final = 0.5
"""Share of the jobs in which some loads are slow."""


def with_loads(rng: np.random.Generator, plan: JobPlan, setting: Setting) -> JobPlan:
    """The job, each worker of which also loads every microbatch; all else as it is.

    A load takes 2 to 50 % of a forward-compute and scatters by 5 to 80 %, both log-uniform. Half of the jobs
    load ahead, half in turn with their computes.
    """
    load_s = setting.compute_s * log_uniform(rng, 0.02, 0.5)
    uneven, slow = UnevenLoads(log_uniform(rng, 0.05, 0.8)), data_loading(rng, setting)
    mechanisms = (*plan.mechanisms, uneven)
    return replace(
        plan,
        shape=replace(plan.shape, loads_data=True, loads_in_turn=bool(rng.random() < 0.5)),
        workload=replace(plan.workload, usual_s={**plan.workload.usual_s, "data-load": load_s}),
        mechanisms=(*mechanisms, slow) if rng.random() < SLOW_LOADS else mechanisms,
    )
