"""Simulation of a job, which can be rerun with the same random draws but without some of its mechanisms.

Reruns show what each cause and each mechanism really costs, to which the evaluation compares the diagnosis.
"""

import zlib
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from jobs.synthetic.conditions import Conditions, Place
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.program import build_program
from jobs.synthetic.shape import JobIdentity, JobShape, Workload
from jobs.synthetic.timeline import EventSimulation, Timeline, Times
from schemas.vocabulary import FIXABLE_CAUSES

ROUNDING = 1e-9
"""Two times that differ relatively by less than this count as equal."""
BURST = 5
"""Number of successive steps that the profiler records in a burst."""
BETWEEN_BURSTS = 100
"""Number of steps between two bursts, which are not recorded."""

Kind = Literal["healthy", "single", "several"]


def child_rng(seed: int, name: str) -> np.random.Generator:
    """Return a random generator for one purpose, whose draws do not depend on those for other purposes."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


@dataclass(frozen=True)
class JobPlan:
    """Complete definition of a job: the same plan gives the same logs, bit for bit.

    lost_ranks : global ranks whose logs are lost
    """

    shape: JobShape
    mechanisms: Sequence[Mechanism] = ()
    seed: int = 0
    identity: JobIdentity = field(default_factory=JobIdentity)
    workload: Workload = field(default_factory=Workload)
    lost_ranks: Sequence[int] = ()

    @property
    def causes(self) -> list[str]:
        """Return the distinct causes of the mechanisms, without nuisances."""
        return sorted({each.cause for each in self.mechanisms if each.cause is not None})

    @property
    def kind(self) -> Kind:
        """Return the kind of job by its number of causes: healthy, single or several."""
        kinds: tuple[Kind, ...] = ("healthy", "single", "several")
        return kinds[min(len(self.causes), 2)]

    @property
    def step_numbers(self) -> list[int]:
        """Return the numbers of the recorded steps: bursts of BURST, with gaps of BETWEEN_BURSTS."""
        steps = range(self.shape.steps)
        return [self.identity.first_step + step + step // BURST * BETWEEN_BURSTS for step in steps]

    def day(self, day: int, seed: int, identity: JobIdentity, more: Sequence[Mechanism] = ()) -> "JobPlan":
        """Return the plan of one day, with the windows of mechanisms converted from all days to that day.

        day : counted from 0
        seed : seed of that day's draws
        more : further mechanisms, whose windows already count the recorded steps of that day
        """
        steps = self.shape.steps
        parts = [mechanism.part(day * steps, (day + 1) * steps) for mechanism in self.mechanisms]
        there = [part for part in parts if part is not None]
        return replace(self, mechanisms=(*there, *more), seed=seed, identity=identity)


class Simulation:
    """Event simulation of a generated job, as its JobPlan defines it.

    The seed of a mechanism's draws consists of the job's seed, the mechanism's class, and how many mechanisms
    of that class precede it. So its draws stay the same if a mechanism of another class is removed.
    """

    def __init__(self, plan: JobPlan) -> None:
        self.plan = plan
        ops = build_program(plan.shape)
        self.place = Place(plan.shape, ops, plan.identity.host_of)
        self._events = EventSimulation(ops)
        lanes = (len(ops), plan.shape.steps, plan.shape.dp_size)
        self._noise: Times = self.rng("noise").standard_normal(lanes)
        np.exp(np.multiply(self._noise, plan.workload.noise, out=self._noise), out=self._noise)
        self._launch_us: Times = self.rng("launch").exponential(plan.workload.launch_s * 1e6, lanes)

    def rng(self, name: str) -> np.random.Generator:
        """Return a random generator that depends only on the job's seed and the purpose."""
        return child_rng(self.plan.seed, name)

    def conditions(self, without: Collection[int] = ()) -> Conditions:
        """Return the conditions under all mechanisms but those at the positions `without`."""
        conditions = Conditions(self.place, self.plan.workload)
        seen: Counter[str] = Counter()
        for number, mechanism in enumerate(self.plan.mechanisms):
            name = type(mechanism).__name__
            rng = self.rng(f"{name} {seen[name]}")
            seen[name] += 1
            left = mechanism.without() if number in without else mechanism
            if left is not None:
                left.change(conditions, rng)
        return conditions

    def times_us(self, without: Collection[int] = (), *, is_launch_free: bool = False) -> tuple[Times, Times]:
        """Return busy times and delays of ops, the arguments of EventSimulation.run. [us]"""
        conditions = self.conditions(without)
        delay_us = conditions.delay_us(self._launch_us)
        if is_launch_free:
            delay_us[self.place.first_forwards] = 0.0
        return conditions.busy_us(self._noise), delay_us

    def timeline(self, without: Collection[int] = (), *, is_launch_free: bool = False) -> Timeline:
        """Run the job without the mechanisms at the positions `without`; return starts and ends of its ops.

        is_launch_free : also without any delay of the stages' first forward-computes, by storage or by the
            host
        """
        return self._events.run(*self.times_us(without, is_launch_free=is_launch_free))

    @cached_property
    def _times_as_it_ran(self) -> tuple[Times, Times]:
        """Return busy times and delays with all mechanisms. [us]"""
        return self.times_us()

    def slowed_by(self, number: int) -> NDArray[np.bool_]:
        """Return where a mechanism lengthens or delays any op; bool, shape (step, dp_rank, pp_rank).

        An op that only waits for a slowed op does not count.
        """
        both = zip(self._times_as_it_ran, self.times_us({number}), strict=True)
        busy, delay = (with_it > without_it * (1 + ROUNDING) for with_it, without_it in both)
        of_stage = [self.place.pp_rank == pp_rank for pp_rank in range(self.plan.shape.pp_size)]
        return np.stack([(busy | delay)[rows].any(axis=0) for rows in of_stage], axis=-1)

    def step_us(self, timeline: Timeline) -> NDArray[np.float64]:
        """Return step times, shape (step,): latest end minus earliest start of the recorded ops. [us]"""
        rows = self.place.recorded
        starts_us, ends_us = timeline.start_us[rows], timeline.end_us[rows]
        span_us: NDArray[np.float64] = ends_us.max(axis=(0, 2)) - starts_us.min(axis=(0, 2))
        return span_us

    def places_of(self, causes: Collection[str | None]) -> frozenset[int]:
        """Return the positions of the mechanisms with any of these causes; None stands for nuisances."""
        return frozenset(
            number for number, mechanism in enumerate(self.plan.mechanisms) if mechanism.cause in causes
        )


@dataclass(frozen=True)
class Truth:
    """Fractions of the mean step time that reruns save: (T - T without some mechanisms) / T.

    actual_step_s       : T: mean step time with all mechanisms [s]
    time_saved_fraction : by cause, without all mechanisms of the cause
    all_causes_fraction : without the mechanisms of all causes
    nuisances_fraction  : without nuisances, but with the mechanisms of all causes
    mechanisms          : for each mechanism its name, cause, parameters and culprits, time_saved_fraction of
                          a rerun without it alone, and the steps and workers in which it lengthened or
                          delayed an op: `slowed_steps` (numbers) and `slowed_workers` ([dp_rank, pp_rank])
    """

    actual_step_s: float
    time_saved_fraction: dict[str, float]
    all_causes_fraction: float
    nuisances_fraction: float
    mechanisms: list[dict[str, Any]]


def true_savings(simulation: Simulation) -> Truth:
    """Rerun a job without each cause, and without each mechanism; return the fractions of time saved."""

    @cache
    def mean_us(without: frozenset[int], *, is_launch_free: bool) -> float:
        timeline = simulation.timeline(without, is_launch_free=is_launch_free)
        return float(simulation.step_us(timeline).mean())

    actual_us = mean_us(frozenset(), is_launch_free=False)

    def saved(without: frozenset[int], *, is_launch_free: bool = False) -> float:
        return (actual_us - mean_us(without, is_launch_free=is_launch_free)) / actual_us

    return Truth(
        actual_step_s=actual_us / 1e6,
        time_saved_fraction={
            cause: saved(simulation.places_of({cause}), is_launch_free=cause == "launch_delay")
            for cause in FIXABLE_CAUSES
        },
        all_causes_fraction=saved(simulation.places_of(FIXABLE_CAUSES), is_launch_free=True),
        nuisances_fraction=saved(simulation.places_of({None})),
        mechanisms=[
            {
                "mechanism": type(mechanism).__name__,
                "cause": mechanism.cause,
                "parameters": mechanism.parameters(),
                "time_saved_fraction": saved(frozenset({place})),
                "culprits": dict(mechanism.culprits(simulation.place)),
                **_struck(simulation, place),
            }
            for place, mechanism in enumerate(simulation.plan.mechanisms)
        ],
    )


def _struck(simulation: Simulation, place: int) -> dict[str, Any]:
    slowed, numbers = simulation.slowed_by(place), simulation.plan.step_numbers
    return {
        "slowed_steps": [numbers[step] for step in np.flatnonzero(slowed.any(axis=(1, 2)))],
        "slowed_workers": np.argwhere(slowed.any(axis=0)).tolist(),
    }
