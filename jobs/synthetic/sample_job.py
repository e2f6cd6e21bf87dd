"""Random jobs: layout, usual times, faults and nuisances, all from one seed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np

from jobs.synthetic.identity import GPUS_PER_HOST, JobIdentity
from jobs.synthetic.job import GeneratedJob, recorded_job
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.sample_faults import FAULTS, Setting, nuisances
from jobs.synthetic.sample_layout import child_rng, sample_shape, sample_workload
from jobs.synthetic.shape import JobShape
from jobs.synthetic.simulation import JobPlan, Simulation

Kind = Literal["healthy", "single", "several"]
KINDS: Final[dict[Kind, float]] = {"healthy": 0.25, "single": 0.45, "several": 0.3}
"""Shares of jobs with no fault, with one, and with two to four of different causes."""
LOST_LOGS: Final = 0.3
"""Share of jobs that lost the logs of some ranks, of those that record more than one rank of a worker."""
SEEDS: Final = 2**63


@dataclass(frozen=True)
class SampledJob:
    """A job over all of its days.

    plan       : windows of its mechanisms count the recorded steps of all days
    lost_ranks : ranks whose logs are lost
    """

    plan: JobPlan
    lost_ranks: Sequence[int] = ()

    @property
    def causes(self) -> list[str]:
        """Causes of its mechanisms, nuisances left out."""
        return sorted({each.cause for each in self.plan.mechanisms if each.cause is not None})

    @property
    def kind(self) -> Kind:
        """How many causes were drawn; the truth says what they cost."""
        kinds: tuple[Kind, ...] = ("healthy", "single", "several")
        return kinds[min(len(self.causes), 2)]

    def day(self, day: int, seed: int, identity: JobIdentity, more: Sequence[Mechanism] = ()) -> JobPlan:
        """The job on one of its days, counted from 0.

        seed : of that day's draws
        more : further mechanisms, whose windows count the recorded steps of that day
        """
        steps = self.plan.shape.steps
        parts = [mechanism.part(day * steps, (day + 1) * steps) for mechanism in self.plan.mechanisms]
        there = [part for part in parts if part is not None]
        return replace(self.plan, mechanisms=(*there, *more), seed=seed, identity=identity)


def sample_job(
    seed: int,
    *,
    days: int = 1,
    has_own_hosts: bool = True,
    most_ops: int = 150_000,
) -> SampledJob:
    """Draw a job.

    The layout is that of sample_shape, usual times are those of sample_workload, strengths and chances stand
    with the functions of sample_faults, shares of healthy and faulty jobs in KINDS.

    days          : over which the windows of its mechanisms may stretch
    has_own_hosts : one of several hosts may be sick (only other jobs can show that all of a job is slow);
                    without, hosts get sick by themselves, as in a fleet
    most_ops      : most recorded ops on a day, about
    """
    shape = sample_shape(seed, most_ops)
    workload = sample_workload(seed, shape)
    hosts = own_hosts(shape, JobIdentity()) if has_own_hosts else ()
    setting = Setting(shape, workload, shape.steps * days, hosts if len(hosts) > 1 else ())
    rng = child_rng(seed, "faults")
    kind = list(KINDS)[int(rng.choice(len(KINDS), p=list(KINDS.values())))]
    faults = _faults(rng, kind, setting)
    mechanisms = (*faults, *nuisances(child_rng(seed, "nuisances"), setting))
    lost = _lost_ranks(child_rng(seed, "lost"), shape)
    return SampledJob(JobPlan(shape, mechanisms, seed, workload=workload), lost)


def run_sampled(plan: JobPlan, lost_ranks: Sequence[int]) -> tuple[GeneratedJob, Simulation]:
    """Run and record a job, as far as its logs were not lost; the simulation is there for its truth."""
    simulation = Simulation(plan)
    job = recorded_job(simulation)
    return (job.without_ranks(lost_ranks) if lost_ranks else job), simulation


def own_hosts(shape: JobShape, identity: JobIdentity) -> tuple[str, ...]:
    """List the hosts of a job, in the order of its ranks."""
    return tuple(dict.fromkeys(identity.host_of(rank) for rank in range(0, shape.world_size, GPUS_PER_HOST)))


def _faults(rng: np.random.Generator, kind: Kind, setting: Setting) -> list[Mechanism]:
    """Draw faults of different causes, as many as the kind has."""
    count = {"healthy": 0, "single": 1, "several": int(rng.integers(2, 5))}[kind]
    found: list[Mechanism] = []
    for cause in rng.permutation(list(FAULTS)):
        fault = FAULTS[str(cause)](rng, setting) if len(found) < count else None
        if fault is not None:
            found.append(fault)
    return found


def _lost_ranks(rng: np.random.Generator, shape: JobShape) -> tuple[int, ...]:
    """Draw ranks to lose: some workers' first, whose place another recorded rank then takes."""
    if shape.recorded_tp_ranks * shape.recorded_cp_ranks == 1 or rng.random() > LOST_LOGS:
        return ()
    workers = [(dp_rank, pp_rank) for pp_rank in range(shape.pp_size) for dp_rank in range(shape.dp_size)]
    return tuple(shape.rank(*worker) for worker in workers if rng.random() < 0.3)
