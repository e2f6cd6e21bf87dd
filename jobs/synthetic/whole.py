"""Wholes of several jobs that wait for each other in every iteration, and time saved by a faster role."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from jobs.synthetic.job import GeneratedJob, recorded_job
from jobs.synthetic.simulation import JobPlan, Simulation
from schemas.vocabulary import FIXABLE_CAUSES

ROLES: Final = ("rollout", "reference", "reward", "critic", "actor")
"""Each may wait for the ones before it."""
STARTED_US: Final = 1_767_600_000_000_000

Seconds = NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """One job that plays a role in a whole.

    waits_for : roles whose end in the same iteration it waits for
    waits_for_before : roles whose end in the iteration before it waits for, beside its own
    steps     : of an iteration, one after the other
    transition_s : from the last end that it waits for to its start, by iteration, shape (iteration,)
    clock_s   : how far the clocks of its hosts are ahead of those of the other jobs
    """

    role: str
    plan: JobPlan
    waits_for: tuple[str, ...]
    waits_for_before: tuple[str, ...]
    steps: int
    transition_s: Seconds
    clock_s: float = 0.0


class WholeSimulation:
    """A whole that can be rerun with the same draws, and a role without causes or twice as fast."""

    def __init__(self, part_of: str, runs: Sequence[Run]) -> None:
        self.part_of, self.runs = part_of, runs
        self._simulations = [Simulation(run.plan) for run in runs]

    @cached_property
    def roles(self) -> list[str]:
        """Roles of the whole, in the order of ROLES."""
        return [role for role in ROLES if any(run.role == role for run in self.runs)]

    @cached_property
    def steps_s(self) -> list[Seconds]:
        """Duration of each step of each run, shape (iteration, step). [s]"""
        return [self._length_s(number) for number in range(len(self.runs))]

    def _length_s(self, number: int, *, is_fixed: bool = False) -> Seconds:
        """Duration of each step of one run, shape (iteration, step). [s]"""
        simulation = self._simulations[number]
        without = simulation.places_of(FIXABLE_CAUSES) if is_fixed else ()
        timeline = simulation.timeline(without, is_launch_free=is_fixed)
        lengths_s: Seconds = timeline.end_us.max(axis=(0, 2)).reshape(-1, self.runs[number].steps) * 1e-6
        return lengths_s

    def starts_s(self, steps_s: Sequence[Seconds]) -> list[Seconds]:
        """Start of each iteration of each run, shape (iteration,). [s]"""
        iterations = len(steps_s[0])
        starts_s = [np.zeros(iterations) for _ in self.runs]
        ends_s = [dict.fromkeys(self.roles, 0.0) for _ in range(iterations + 1)]
        for iteration in range(iterations):
            for role in self.roles:
                for number in (number for number, run in enumerate(self.runs) if run.role == role):
                    run = self.runs[number]
                    awaited_s = [ends_s[iteration][other] for other in run.waits_for]
                    awaited_s += [ends_s[iteration - 1][other] for other in (*run.waits_for_before, role)]
                    starts_s[number][iteration] = max(awaited_s) + run.transition_s[iteration]
                    end_s = starts_s[number][iteration] + steps_s[number][iteration].sum()
                    ends_s[iteration][role] = max(ends_s[iteration][role], end_s)
        return starts_s

    def recorded(self) -> list[GeneratedJob]:
        """Run all roles and record their jobs."""
        return [
            self._recorded(number, starts_s) for number, starts_s in enumerate(self.starts_s(self.steps_s))
        ]

    def _recorded(self, number: int, starts_s: Seconds) -> GeneratedJob:
        steps_s, run = self.steps_s[number], self.runs[number]
        before_s = np.cumsum(steps_s, axis=1) - steps_s
        t0_us = np.rint((starts_s[:, None] + before_s + run.clock_s).ravel() * 1e6).astype(np.int64)
        job = recorded_job(self._simulations[number], t0_us + STARTED_US)
        iteration = np.repeat(np.arange(len(steps_s)), run.steps).tolist()
        steps = dict(zip(map(str, run.plan.step_numbers), iteration, strict=True))
        fields = {"part_of": self.part_of, "role": run.role, "iterations": steps}
        return GeneratedJob(job.rank_steps, job.manifest | fields)

    def time_s(self, steps_s: Sequence[Seconds]) -> float:
        """Time from the first start to the last end. [s]"""
        starts_s = self.starts_s(steps_s)
        ends_s = [start[-1] + steps[-1].sum() for start, steps in zip(starts_s, steps_s, strict=True)]
        return float(max(ends_s) - min(start[0] for start in starts_s))

    def saved_fraction(self, role: str, *, is_half: bool) -> float:
        """Fraction of time saved if a role's causes are undone, or its steps take half as long."""
        steps_s = [
            each if run.role != role else each / 2 if is_half else self._length_s(number, is_fixed=True)
            for number, (run, each) in enumerate(zip(self.runs, self.steps_s, strict=True))
        ]
        return 1 - self.time_s(steps_s) / self.time_s(self.steps_s)
