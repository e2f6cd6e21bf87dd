"""Wholes: several jobs in different roles, as in RLHF, that wait for each other in every iteration."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from jobs.synthetic.job import GeneratedJob, recorded_job
from jobs.synthetic.simulation import JobPlan, Simulation
from jobs.synthetic.timeline import Timeline

ROLES: Final = ("rollout", "reference", "reward", "critic", "actor")
"""In an iteration, a role may wait only for roles that precede it in this tuple."""
STARTED_US: Final = 1_767_600_000_000_000

Seconds = NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """One run of a whole (jobs that wait for each other), in one of its roles.

    waits_for : roles that must have ended the same iteration before the run starts it
    waits_for_before : roles besides its own that must have ended the previous iteration
    steps     : number of steps per iteration
    transition_s : time from the last end that the run waits for to its start, shape (iteration,)
    clock_s   : how far the clocks of its hosts are ahead of those of the other jobs
    """

    role: str
    plan: JobPlan
    waits_for: tuple[str, ...]
    waits_for_before: tuple[str, ...]
    steps: int
    transition_s: Seconds
    clock_s: float = 0.0

    def lengths_s(self, timeline: Timeline) -> Seconds:
        """Return the duration of each of the run's steps, shape (iteration, step). [s]"""
        lengths_s: Seconds = timeline.end_us.max(axis=(0, 2)).reshape(-1, self.steps) * 1e-6
        return lengths_s


class WholeSimulation:
    """Simulation of jobs that wait for each other: runs one by one, then their iterations placed in time."""

    def __init__(self, part_of: str, runs: Sequence[Run]) -> None:
        self.part_of, self.runs = part_of, runs
        self.simulations = [Simulation(run.plan) for run in runs]

    @cached_property
    def steps_s(self) -> list[Seconds]:
        """Return the duration of each step of each run, shape (iteration, step). [s]"""
        return [
            run.lengths_s(simulation.timeline())
            for run, simulation in zip(self.runs, self.simulations, strict=True)
        ]

    def starts_s(self, steps_s: Sequence[Seconds]) -> list[Seconds]:
        """Return the start of each iteration, shape (iteration,), for each run. [s]

        steps_s : durations of steps, for each run, as in the property steps_s
        """
        iterations = len(steps_s[0])
        starts_s = [np.zeros(iterations) for _ in self.runs]
        ends_s: defaultdict[tuple[int, str], float] = defaultdict(float)
        in_order = sorted(enumerate(self.runs), key=lambda each: ROLES.index(each[1].role))
        for iteration in range(iterations):
            for number, run in in_order:
                awaited_s = [ends_s[iteration, other] for other in run.waits_for]
                awaited_s += [ends_s[iteration - 1, other] for other in (*run.waits_for_before, run.role)]
                starts_s[number][iteration] = max(awaited_s) + run.transition_s[iteration]
                end_s = starts_s[number][iteration] + steps_s[number][iteration].sum()
                ends_s[iteration, run.role] = max(ends_s[iteration, run.role], end_s)
        return starts_s

    def recorded(self) -> list[GeneratedJob]:
        """Return the recorded job of each run, whose manifest states part_of, role and iterations."""
        found = []
        starts = zip(self.runs, self.simulations, self.steps_s, self.starts_s(self.steps_s), strict=True)
        for run, simulation, steps_s, starts_s in starts:
            before_s = np.cumsum(steps_s, axis=1) - steps_s
            t0_us = np.rint((starts_s[:, None] + before_s + run.clock_s).ravel() * 1e6).astype(np.int64)
            job = recorded_job(simulation, t0_us + STARTED_US)
            iteration = np.repeat(np.arange(len(steps_s)), run.steps).tolist()
            steps = dict(zip(map(str, run.plan.step_numbers), iteration, strict=True))
            fields = {"part_of": self.part_of, "role": run.role, "iterations": steps}
            found.append(GeneratedJob(job.rank_steps, job.manifest | fields))
        return found
