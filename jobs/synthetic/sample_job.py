"""Random jobs: layout, usual times, faults and nuisances are all drawn from one seed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

import numpy as np

from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.sample_faults import FAULTS, Setting, log_uniform, nuisances
from jobs.synthetic.shape import GPUS_PER_HOST, USUAL_S, JobIdentity, JobShape, LineOrder, Workload
from jobs.synthetic.simulation import BURST, JobPlan, Kind, child_rng

KINDS: Final[dict[Kind, float]] = {"healthy": 0.25, "single": 0.45, "several": 0.3}
"""Shares of jobs with no fault, with one fault, and with two to four faults of different causes."""
LOST_LOGS: Final = 0.3
"""Share of jobs with lost logs, among the jobs that record more than one rank per worker."""
SEEDS: Final = 2**63
MOST_OPS: Final = 150_000
"""Approximate limit of the recorded ops of a job on a day."""

DP_SIZES: Final = (1, 2, 2, 3, 4, 4, 6, 8, 8, 12, 16)
PP_SIZES: Final = (1, 1, 2, 2, 3, 4, 4, 6, 8)
TP_SIZES: Final = (1, 2, 4, 8)
CP_SIZES: Final = (1, 1, 1, 1, 2)
"""Sizes to draw from; a size that is listed twice is twice as likely."""
UNRECORDED: Final = ("gc", "layernorm-grads-all-reduce", "optimizer")
"""Op types that a profiler may omit: without them, a replay still knows which op waits for which."""
OPS_PER_COMPUTE: Final = 3
"""Approximate ratio of recorded ops to computes."""


def sample_job(
    seed: int,
    *,
    days: int = 1,
    has_own_hosts: bool = True,
    most_ops: int = MOST_OPS,
) -> JobPlan:
    """Draw a random job.

    sample_shape draws its layout, sample_workload its usual times, and the functions of sample_faults its
    faults and nuisances. KINDS has the shares of healthy and faulty jobs.

    days          : number of days of the job; windows of mechanisms count the recorded steps of all days
    has_own_hosts : whether a sick host may be drawn, if the job has several (a job on one sick host is slow
        as a
                    whole, which only other jobs can show); false in a fleet, which draws sick hosts itself
    most_ops      : approximate limit of the recorded ops on a day
    """
    shape = sample_shape(seed, most_ops)
    workload = sample_workload(seed, shape)
    hosts = own_hosts(shape, JobIdentity()) if has_own_hosts else ()
    setting = Setting(shape, workload, shape.steps * days, hosts if len(hosts) > 1 else ())
    rng = child_rng(seed, "faults")
    kind = list(KINDS)[int(rng.choice(len(KINDS), p=list(KINDS.values())))]
    count = {"healthy": 0, "single": 1, "several": int(rng.integers(2, 5))}[kind]
    faults: list[Mechanism] = []
    for cause in rng.permutation(list(FAULTS)):
        fault = FAULTS[str(cause)](rng, setting) if len(faults) < count else None
        if fault is not None:
            faults.append(fault)
    mechanisms = (*faults, *nuisances(child_rng(seed, "nuisances"), setting))
    lost_ranks = _lost_ranks(child_rng(seed, "lost"), shape)
    return JobPlan(shape, mechanisms, seed, workload=workload, lost_ranks=lost_ranks)


def own_hosts(shape: JobShape, identity: JobIdentity) -> tuple[str, ...]:
    """List the hosts of a job in order of its ranks."""
    return tuple(dict.fromkeys(identity.host_of(rank) for rank in range(0, shape.world_size, GPUS_PER_HOST)))


def sample_shape(seed: int, most_ops: int = MOST_OPS) -> JobShape:
    """Draw a random layout.

    Sizes are drawn from the tuples above, microbatches from 1 to 16. A job has 10 to 40 recorded steps, but
    one job in ten has 4 to 9, which are too few to be analysed. One pipeline in three is virtual, with 2 or 3
    chunks per stage and a multiple of pp_size microbatches. Half of the jobs overlap gradient reductions,
    half batch transfers, and one in four has two buckets. Of no-op transfers a job records all, all but
    the first recv, or, unless the pipeline is virtual, none. One job in four lacks one of the op types
    of UNRECORDED. One in four records two ranks per worker, if its workers have two. Steps, and then
    microbatches, are reduced until about `most_ops` ops are recorded.
    """
    rng = child_rng(seed, "shape")
    pp_size = int(rng.choice(PP_SIZES))
    vpp_size = int(rng.integers(2, 4)) if pp_size > 1 and rng.random() < 1 / 3 else 1
    group = pp_size if vpp_size > 1 else 1
    microbatches = group * int(rng.integers(1, 1 + max(16 // group, 1)))
    tp_size, cp_size = int(rng.choice(TP_SIZES)), int(rng.choice(CP_SIZES))
    records_two = bool(rng.random() < 0.25)
    habits: list[Literal["all", "first_missing", "none"]] = ["all", "first_missing", "none"]
    orders: list[LineOrder] = ["start", "schedule", "op_type", "shuffled"]
    shape = JobShape(
        dp_size=int(rng.choice(DP_SIZES)),
        pp_size=pp_size,
        microbatches=microbatches,
        steps=int(rng.integers(4, 10) if rng.random() < 0.1 else rng.integers(10, 41)),
        vpp_size=vpp_size,
        tp_size=tp_size,
        cp_size=cp_size,
        overlapped=bool(rng.random() < 0.5),
        batched=bool(rng.random() < 0.5),
        noop_transfers=habits[int(rng.integers(0, 2 if vpp_size > 1 else 3))],
        absent=frozenset({str(rng.choice(UNRECORDED))} if rng.random() < 0.25 else ()),
        buckets=2 if rng.random() < 0.25 else 1,
        recorded_tp_ranks=2 if records_two and tp_size > 1 else 1,
        recorded_cp_ranks=2 if records_two and tp_size == 1 and cp_size > 1 else 1,
        line_order=orders[int(rng.integers(0, 4))],
    )
    return _cut(shape, group, most_ops)


def _cut(shape: JobShape, group: int, most_ops: int) -> JobShape:
    """Reduce the steps, to at least ten, then the microbatches, until about most_ops ops are recorded."""
    workers = len(shape.cells) * shape.recorded_tp_ranks * shape.recorded_cp_ranks
    per_step = workers * shape.microbatches * shape.vpp_size * 2 * OPS_PER_COMPUTE
    if shape.steps > 2 * BURST:
        shape = replace(shape, steps=int(np.clip(most_ops // per_step, 2 * BURST, shape.steps)))
    per_group = per_step * shape.steps * group // shape.microbatches
    groups = int(np.clip(most_ops // per_group, 1, shape.microbatches // group))
    return replace(shape, microbatches=groups * group)


def sample_workload(seed: int, shape: JobShape) -> Workload:
    """Draw random usual times.

    All are log-uniform: a forward-compute takes 5 to 120 ms, a backward-compute 1.5 to 2.5 times as long.
    Pipeline transfers take 0.1 to 1 times the values of USUAL_S, all other ops 0.3 to 2 times. The launch
    delay of an op is 5 to 30 us, the noise of its time 0.5 to 6 %: half of the jobs have less than 1.7 %.
    """
    rng = child_rng(seed, "workload")
    forward_s = log_uniform(rng, 0.005, 0.12) * shape.vpp_size
    transfer, collective = log_uniform(rng, 0.1, 1.0), log_uniform(rng, 0.3, 2.0)
    usual_s = {
        op_type: time_s * (transfer if op_type.endswith(("-send", "-recv")) else collective)
        for op_type, time_s in USUAL_S.items()
    }
    return Workload(
        forward_s=forward_s,
        backward_ratio=log_uniform(rng, 1.5, 2.5),
        launch_s=log_uniform(rng, 5e-6, 30e-6),
        noise=log_uniform(rng, 0.005, 0.06),
        usual_s=usual_s,
    )


def _lost_ranks(rng: np.random.Generator, shape: JobShape) -> Sequence[int]:
    """Draw the first ranks of some workers, whose logs are lost, so that a replay has to use another rank."""
    if shape.recorded_tp_ranks * shape.recorded_cp_ranks == 1 or rng.random() > LOST_LOGS:
        return ()
    return tuple(shape.rank(*cell) for cell in shape.cells if rng.random() < 0.3)
