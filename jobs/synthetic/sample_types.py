"""Random types of GPU for a job's hosts."""

import numpy as np

from jobs.synthetic.mechanisms.gpu_types import MixedTypes
from jobs.synthetic.sample_faults import log_uniform
from jobs.synthetic.shape import GPUS_PER_HOST, JobIdentity, JobShape

FASTEST = "H100"
SLOWER = ("A100", "L40S")


def mixed_types(rng: np.random.Generator, shape: JobShape) -> MixedTypes | None:
    """10 to 60 % of the hosts have slower GPUs: 1.2 to 2.5 times as long, backwards 0.9 to 1.1 times that.

    Half the time hosts are drawn one by one, else those of whole dp ranks; in one job of four the slower
    hosts are of two types. The GPUs of one worker are of one type. None in a job on one host.
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
