"""Simulate a fleet day by day; hosts are drained and jobs are changed between days."""

from dataclasses import dataclass, field, replace
from typing import Final

from jobs.synthetic.fleet import FleetJob
from schemas.drain import DrainTerms
from tests.evaluation.drain_fleets import ASKED, Rows, Warehouse, World, gpus_of_host

TERMS: Final = DrainTerms()


@dataclass
class Course:
    """A fleet under a policy, with the GPU-hours that the policy's actions saved and cost so far.

    returned, by_changes : GPU-hours saved by drains, and by changes of jobs
    drained, changed : first day with the new state, by host, and by (job_id, mitigation)
    false : number of drains of hosts that would not have been slow in the following TERMS.days days
    """

    world: World
    returned: float = 0.0
    by_changes: float = 0.0
    cost: float = 0.0
    drained: dict[str, int] = field(default_factory=dict)
    changed: dict[tuple[str, str], int] = field(default_factory=dict)
    false: int = 0
    predictions: Rows = field(default_factory=list)
    warehouse: Warehouse = field(default_factory=Warehouse)

    def __post_init__(self) -> None:
        """Start with all jobs as they were drawn."""
        self.jobs = {job.job_id: job for job in self.world.fleet.jobs}

    def run(self, day: int) -> list[FleetJob]:
        """Simulate a day, add its rows and its savings to the course, and return the jobs that ran."""
        world, serving = self.world, [job for job in self.jobs.values() if day in job.days]
        found = [world.results(job, day) for job in serving]
        self.warehouse.add({name: [each[name] for each in found] for name in ASKED} if found else {})
        originals = {job.job_id: job for job in world.fleet.jobs}
        for job in serving:
            first, now = originals[job.job_id], world.ran(job, day)
            step_us = world.step_us(now)
            left_us = world.step_us(world.ran(replace(job, hosts=first.hosts), day))
            saved = 1 - step_us / world.step_us(world.ran(first, day))
            by_drains = 1 - step_us / left_us
            self.returned += now.gpu_hours * by_drains
            self.by_changes += now.gpu_hours * (saved - by_drains)
        return serving

    def drain(self, host: str, day: int) -> None:
        """Replace a host by a healthy spare in its job, from the end of `day` on."""
        (job,) = (each for each in self.jobs.values() if host in each.hosts)
        self.cost += self._pause_gpu_hours(job) + gpus_of_host(job.shape) * TERMS.spare_hours
        self.drained[host] = day + 1
        self.jobs[job.job_id] = without_host(job, host)
        self.false += not any(self.world.is_slow(host, job, range(day + 1, day + 1 + TERMS.days)))

    def change(self, after: FleetJob, what: str, day: int) -> None:
        """Restart a job in its changed form, from the end of `day` on."""
        self.cost += self._pause_gpu_hours(after)
        self.changed[after.job_id, what] = day + 1
        self.jobs[after.job_id] = after

    def _pause_gpu_hours(self, job: FleetJob) -> float:
        return job.shape.world_size * (TERMS.restart_minutes + TERMS.redone_minutes) / 60


def without_host(job: FleetJob, host: str) -> FleetJob:
    """Return the job with a healthy spare in place of `host`."""
    return replace(job, hosts=tuple(f"spare of {each}" if each == host else each for each in job.hosts))
