"""Random jobs with features that generated fleets lack: data-loads, some of them slow, and GPU types."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from jobs.synthetic.conditions import Conditions
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.mechanisms.transfers import SlowReads
from jobs.synthetic.mechanisms.workers import MixedTypes
from jobs.synthetic.sample_faults import Setting, log_uniform, some_window
from jobs.synthetic.shape import GPUS_PER_HOST, JobIdentity, JobShape
from jobs.synthetic.simulation import JobPlan, child_rng

SLOW_LOADS: Final = 0.5
"""Share of the jobs in which some data-loads are slow."""
FASTEST: Final = "H100"
SLOWER: Final = ("A100", "L40S")


@dataclass(frozen=True)
class UnevenLoads(Mechanism):
    """Data-loads of random length, because samples differ in size and only some are cached.

    This scatter is noise; only loads that are far slower than the others have the cause data_loading.

    spread : standard deviation of the logarithm of a load's time
    """

    spread: float

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Multiply the length of every data-load by a random factor of mean 1."""
        rows = conditions.place.rows("data-load")
        logs = self.spread * rng.standard_normal((len(rows), *conditions.lanes))
        conditions.factor[rows] *= np.exp(logs - self.spread**2 / 2)


def _slow_loads(rng: np.random.Generator, setting: Setting) -> Mechanism:
    """Draw a fault: 0.3 to 100 % of the data-loads take longer, by 0.5 to 20 forward-computes."""
    mean_s = setting.compute_s * log_uniform(rng, 0.5, 20.0)
    share = log_uniform(rng, 0.003, 1.0)
    dp_rank = int(rng.integers(setting.shape.dp_size)) if rng.random() < 0.3 else None
    return SlowReads(mean_s, share, dp_rank, window=some_window(rng, setting))


def with_loads(plan: JobPlan) -> JobPlan:
    """Return the job with a recorded data-load for every microbatch of each worker.

    A load takes 2 to 50 % of a forward-compute, with noise of 5 to 80 %; both are drawn log-uniformly.
    Half of the jobs load ahead of their computes, and half in turn with them.
    """
    rng, setting = child_rng(plan.seed, "loads"), Setting(plan.shape, plan.workload, plan.shape.steps)
    load_s = setting.compute_s * log_uniform(rng, 0.02, 0.5)
    uneven, slow = UnevenLoads(log_uniform(rng, 0.05, 0.8)), _slow_loads(rng, setting)
    mechanisms = (*plan.mechanisms, uneven)
    return replace(
        plan,
        shape=replace(plan.shape, loads_data=True, loads_in_turn=bool(rng.random() < 0.5)),
        workload=replace(plan.workload, usual_s={**plan.workload.usual_s, "data-load": load_s}),
        mechanisms=(*mechanisms, slow) if rng.random() < SLOW_LOADS else mechanisms,
    )


def with_gpu_types(plan: JobPlan) -> JobPlan:
    """Return the job on several GPU types; unchanged if it has only one host."""
    types = _mixed_types(child_rng(plan.seed, "GPU types"), plan.shape)
    return plan if types is None else replace(plan, mechanisms=(*plan.mechanisms, types))


def _mixed_types(rng: np.random.Generator, shape: JobShape) -> MixedTypes | None:
    """Draw slower GPUs for 10 to 60 % of the hosts, by a factor of 1.2 to 2.5.

    In half of the jobs slower hosts are drawn one by one, else all hosts of a dp rank together. In a
    quarter of the jobs the slower hosts have two types. All GPUs of one worker have the same type.

    returns : None if all hosts would have the same type, as in a job on one host
    """
    identity = JobIdentity()
    slower = SLOWER if rng.random() < 0.25 else SLOWER[:1]
    share, by_dp_rank = float(rng.uniform(0.1, 0.6)), bool(rng.random() < 0.5)
    factors = {FASTEST: (1.0, 1.0)}
    for name in slower:
        factor = log_uniform(rng, 1.2, 2.5)
        factors[name] = factor, factor * float(rng.uniform(0.9, 1.1))
    per_worker = shape.tp_size * shape.cp_size
    together = [
        rank // per_worker % shape.dp_size if by_dp_rank else rank // max(per_worker, GPUS_PER_HOST)
        for rank in range(0, shape.world_size, GPUS_PER_HOST)
    ]
    groups = rng.permutation(np.unique(together))
    slow = groups[: max(1, round(share * len(groups)))] if len(groups) > 1 else groups[:0]
    type_of = {int(group): slower[place % len(slower)] for place, group in enumerate(slow)}
    if not type_of or len(type_of) == len(groups):
        return None
    hosts = [identity.host_of(rank) for rank in range(0, shape.world_size, GPUS_PER_HOST)]
    types = {host: type_of.get(group, FASTEST) for host, group in zip(hosts, together, strict=True)}
    return MixedTypes(types, factors)
