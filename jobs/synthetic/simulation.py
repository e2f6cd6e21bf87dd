"""Simulation of a job, repeatable with the same random draws and without some of its mechanisms.

Reruns give the ground truth: the real cost of each cause and each mechanism.
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
"""Relative difference of two times below which they differ by rounding alone."""
BURST = 5
"""Profilers record steps in bursts of about this many."""
BETWEEN_BURSTS = 100
"""Steps that are not recorded after each burst."""

Kind = Literal["healthy", "single", "several"]


def child_rng(seed: int, name: str) -> np.random.Generator:
    """Return a random generator for one purpose, independent of draws for other purposes."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


@dataclass(frozen=True)
class JobPlan:
    """Complete definition of a job: the same plan gives the same job, bit for bit.

    lost_ranks : ranks whose logs are lost
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
        """Return the numbers of the recorded steps, which are bursts with gaps between them."""
        steps = range(self.shape.steps)
        return [self.identity.first_step + step + step // BURST * BETWEEN_BURSTS for step in steps]

    def day(self, day: int, seed: int, identity: JobIdentity, more: Sequence[Mechanism] = ()) -> "JobPlan":
        """Return the plan of one day, counted from 0; windows of this plan count the steps of all days.

        seed : of that day's draws
        more : further mechanisms, whose windows count the recorded steps of that day
        """
        steps = self.shape.steps
        parts = [mechanism.part(day * steps, (day + 1) * steps) for mechanism in self.mechanisms]
        there = [part for part in parts if part is not None]
        return replace(self, mechanisms=(*there, *more), seed=seed, identity=identity)


class Simulation:
    """Event simulation of a plan.

    Every mechanism draws from a separate seed, made of the job's, of its class and of how many of that
    class come before it: so one mechanism's draws do not depend on whether another is there.
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
        """Return the conditions under all mechanisms, with the mechanisms at `without` undone."""
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
        """Return the busy time of each op and its delay by the host, as EventSimulation takes them. [us]"""
        conditions = self.conditions(without)
        delay_us = conditions.delay_us(self._launch_us)
        if is_launch_free:
            delay_us[self.place.first_forwards] = 0.0
        return conditions.busy_us(self._noise), delay_us

    def timeline(self, without: Collection[int] = (), *, is_launch_free: bool = False) -> Timeline:
        """Run the job with the mechanisms at `without` undone.

        is_launch_free : also without any delay, slow storage or usual, of the stages' first forward-computes
        """
        return self._events.run(*self.times_us(without, is_launch_free=is_launch_free))

    @cached_property
    def _times_as_it_ran(self) -> tuple[Times, Times]:
        """Return busy times and delays with all mechanisms, cached for comparisons."""
        return self.times_us()

    def slowed_by(self, number: int) -> NDArray[np.bool_]:
        """Return a mask of the ops that a mechanism slows or delays; bool, shape (step, dp_rank, pp_rank).

        Ops that merely wait for others are not among them.
        """
        both = zip(self._times_as_it_ran, self.times_us({number}), strict=True)
        busy, delay = (with_it > without_it * (1 + ROUNDING) for with_it, without_it in both)
        of_stage = [self.place.pp_rank == pp_rank for pp_rank in range(self.plan.shape.pp_size)]
        return np.stack([(busy | delay)[rows].any(axis=0) for rows in of_stage], axis=-1)

    def step_us(self, timeline: Timeline) -> NDArray[np.float64]:
        """Return step times: latest end minus earliest start of recorded ops, by true clocks. [us]"""
        rows = self.place.recorded
        starts_us, ends_us = timeline.start_us[rows], timeline.end_us[rows]
        span_us: NDArray[np.float64] = ends_us.max(axis=(0, 2)) - starts_us.min(axis=(0, 2))
        return span_us

    def places_of(self, causes: Collection[str | None]) -> frozenset[int]:
        """Return positions of the mechanisms with any of these causes; None selects those without a cause."""
        return frozenset(
            number for number, mechanism in enumerate(self.plan.mechanisms) if mechanism.cause in causes
        )


@dataclass(frozen=True)
class Truth:
    """Fractions of step time saved by fixes: (T with - T without) / T with, T the mean actual step time.

    actual_step_s       : T with everything [s]
    time_saved_fraction : by cause, all of its mechanisms undone at once
    all_causes_fraction : all causes undone at once
    nuisances_fraction  : all nuisances undone at once, and no cause
    mechanisms          : of each its name, cause, parameters, own time_saved_fraction, culprits, and where it
                          really struck: `slowed_steps`, numbers of recorded steps, and `slowed_workers`,
                          [dp_rank, pp_rank], in which some op took longer or was delayed by it
    """

    actual_step_s: float
    time_saved_fraction: dict[str, float]
    all_causes_fraction: float
    nuisances_fraction: float
    mechanisms: list[dict[str, Any]]


def true_savings(simulation: Simulation) -> Truth:
    """Rerun the same job without each cause and without each mechanism, and return the time saved."""

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
    """Return the steps and workers in which a mechanism slows any op."""
    slowed, numbers = simulation.slowed_by(place), simulation.plan.step_numbers
    return {
        "slowed_steps": [numbers[step] for step in np.flatnonzero(slowed.any(axis=(1, 2)))],
        "slowed_workers": np.argwhere(slowed.any(axis=0)).tolist(),
    }
