"""Rerun jobs with a mitigation in place; tests.evaluation.mitigations takes these reruns as the truth.

A rerun has the same random draws as the first run, and does what the plan of the mitigation says:

- the stages get the layers that were advised;
- dp ranks exchange microbatches by their true work;
- sequences are packed evenly;
- garbage is collected after the last op of a step, as often as was advised, in pauses of the same lengths;
- the named host's workers become as fast as their peers;
- one replica is removed, and the others are simulated alone;
- a slow replica gets lighter microbatches and the others heavier ones, so that computes change in proportion;
- communication takes no time, except that a step lasts at least as long as a worker's communication.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jobs.synthetic.conditions import Cell, Conditions
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.mechanisms.nuisances import ExpertImbalance, UnlikeGpus
from jobs.synthetic.mechanisms.work import UnevenLayers
from jobs.synthetic.mechanisms.workers import OneWorker, SickHost, UnsynchronisedGc
from jobs.synthetic.program import build_program
from jobs.synthetic.simulation import JobPlan, Simulation
from jobs.synthetic.timeline import EventSimulation
from schemas.mitigations import (
    COLLECTIONS,
    HOST_EXCHANGED,
    LAYERS,
    LIGHTER_REPLICA,
    OVER_DP_RANKS,
    OVERLAP,
    REPLICA_REMOVED,
    SEQUENCES,
)
from schemas.vocabulary import OP_TYPE_GROUPS, OP_TYPES
from tests.evaluation.exchanged_microbatches import Exchanged
from tests.evaluation.exposed import timeline_in_no_time
from udfs.kernel.diagnosis.other_workers import LEAST_REPLICAS

RUNS: Final = 4_000
"""Number of random runs over which a true saving is averaged."""


@dataclass(frozen=True)
class PlannedCollections(UnsynchronisedGc):
    """Planned garbage collection: in every n-th step all workers collect together, after their last op.

    planned_steps : the number n
    """

    planned_steps: int = 1

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Add to every step the mean length of a planned collection / the steps between collections."""
        place, before_s = conditions.place, conditions.added_s.copy()
        super().change(conditions, rng)
        lengths_s = conditions.added_s - before_s
        conditions.added_s[:] = before_s
        taken_s = lengths_s[lengths_s > 0.0]
        if not taken_s.size:
            return
        together = rng.choice(taken_s, (RUNS, place.shape.pp_size * place.shape.dp_size))
        stages = place.pp_rank[place.recorded]
        rows = np.array([place.recorded[stages == stage][-1] for stage in np.unique(stages)])
        conditions.added_s[rows] += together.max(axis=1).mean() / self.planned_steps


PlannedCollections.__name__ = UnsynchronisedGc.__name__  # equal names give equal draws


@dataclass(frozen=True)
class ExchangedGpus(UnlikeGpus):
    """GPUs of unequal speeds, of which some were replaced by GPUs of the usual speed.

    exchanged : workers with replaced GPUs, as (dp_rank, pp_rank)
    """

    exchanged: Sequence[Cell] = ()

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        """Scale the computes of all workers as drawn, except those on replaced GPUs."""
        before = conditions.factor.copy()
        super().change(conditions, rng)
        for dp_rank, pp_rank in self.exchanged:
            rows = conditions.place.pp_rank == pp_rank
            conditions.factor[rows, :, dp_rank] = before[rows, :, dp_rank]


ExchangedGpus.__name__ = UnlikeGpus.__name__  # equal names give equal draws


@dataclass(frozen=True)
class OtherWeights(Mechanism):
    """Multiply the compute times of each dp rank by its entry in `weights`, as if it had other data."""

    weights: Sequence[float]

    def change(self, conditions: Conditions, rng: np.random.Generator) -> None:
        del rng
        conditions.factor[conditions.place.computes] *= np.asarray(self.weights)


class Run(NamedTuple):
    """A job with the fault that a mitigation treats, and its other faults.

    layers : number of layers of each chunk of the model
    advice : text of the mitigation's plan; None if the simulator proposes none
    """

    plan: JobPlan
    trouble: Mechanism
    others: Sequence[Mechanism]
    layers: Sequence[int]
    advice: str | None

    def with_instead(self, *mechanisms: Mechanism) -> JobPlan:
        """Return the job's plan with the given mechanisms in place of the fault."""
        return replace(self.plan, mechanisms=[*mechanisms, *self.others])


def step_s(plan: JobPlan) -> float:
    """Simulate a job and return its mean step time. [s]"""
    return float(_steps_us(Simulation(plan)).mean()) / 1e6


def _steps_us(simulation: Simulation) -> NDArray[np.float64]:
    return simulation.step_us(simulation.timeline())


def _with_layers(run: Run) -> tuple[Mechanism, ...]:
    if run.advice is None or " instead of " not in run.advice:
        return (run.trouble,)
    after = [float(each) for each in run.advice.split(" instead of ")[0].split(", ")]
    if sum(after) != sum(run.layers):
        raise AssertionError(f"{run.advice}: layers were lost")
    uneven = UnevenLayers(tuple(after))
    return (uneven,) if isinstance(run.trouble, UnevenLayers) else (run.trouble, uneven)


def _exchanged(run: Run) -> tuple[Mechanism, ...]:
    experts = next((each for each in run.others if isinstance(each, ExpertImbalance)), None)
    return (Exchanged(**vars(run.trouble), experts=experts, seed=run.plan.seed),)


def _packed(run: Run) -> tuple[Mechanism, ...]:
    left = run.trouble.without()
    return () if left is None else (left,)


def _planned(run: Run) -> tuple[Mechanism, ...]:
    if run.advice is None or not isinstance(run.trouble, UnsynchronisedGc):
        return (run.trouble,)
    (every,) = re.findall(r"after every (\d+) steps", run.advice)
    return (PlannedCollections(**vars(run.trouble), planned_steps=int(every)),)


INSTEAD: Final[dict[str, Callable[[Run], tuple[Mechanism, ...]]]] = {
    LAYERS: _with_layers,
    OVER_DP_RANKS: _exchanged,
    SEQUENCES: _packed,
    COLLECTIONS: _planned,
}
"""For each mitigation of work or pauses, the mechanisms that replace the fault."""


def _changed_s(mitigation: str, run: Run) -> float:
    """Mean step time of the job after the proposed mitigation. [s]"""
    return step_s(run.with_instead(*INSTEAD[mitigation](run)))


def _host_exchanged(run: Run) -> float:
    host, trouble = re.findall(r"replace (\S+) by", run.advice or "replace nothing by")[0], run.trouble
    own = [trouble.host] if isinstance(trouble, SickHost) else []
    if isinstance(trouble, OneWorker):
        rank = run.plan.shape.rank(trouble.dp_rank, trouble.pp_rank)
        own = [run.plan.identity.host_of(rank)]
    new = Simulation(run.plan).place.cells_on(host)
    others = [
        ExchangedGpus(each.spread, new) if isinstance(each, UnlikeGpus) else each for each in run.others
    ]
    left = [] if host in own else [run.trouble]
    return step_s(run._replace(others=others).with_instead(*left))


def _replica_removed(run: Run) -> float:
    """Time to process as many samples as one step of the full job, with one replica removed. [s]"""
    simulation, replicas = Simulation(run.plan), run.plan.shape.dp_size
    if run.advice is None:
        return step_s(run.plan)
    (removed,) = re.findall(r"without dp rank (\d+)", run.advice)
    kept = [each for each in range(replicas) if each != int(removed)]
    busy_us, delay_us = (each[..., kept] for each in simulation.times_us())
    timeline = EventSimulation(build_program(run.plan.shape)).run(busy_us, delay_us)
    return float(simulation.step_us(timeline).mean()) / 1e6 * replicas / (replicas - 1)


def _lightened(run: Run) -> float:
    if run.advice is None:
        return step_s(run.plan)
    slow = int(re.findall(r"give dp rank (\d+)", run.advice)[0])
    own, others = (float(each) / 100 for each in re.findall(r"([\d.]+)%", run.advice))
    weights = [own if each == slow else others for each in range(run.plan.shape.dp_size)]
    return step_s(run.with_instead(run.trouble, OtherWeights(weights)))


def _overlapped(run: Run) -> float:
    simulation, place = Simulation(run.plan), None
    if run.advice is None:
        return step_s(run.plan)
    (named,) = re.findall(r"run (\S+) beside", run.advice)
    place, shape = simulation.place, run.plan.shape
    types = [
        name for name in OP_TYPES if OP_TYPE_GROUPS.get(name, name) == named and name not in shape.absent
    ]
    without_us = simulation.step_us(timeline_in_no_time(simulation, place.rows(*types)))
    busy_us, _ = simulation.times_us()
    for name in types:
        for stage in range(shape.pp_size):
            stream_us = busy_us[place.rows(name, pp_rank=stage)].sum(axis=0).max(axis=-1)
            without_us = np.maximum(without_us, stream_us)
    return float(np.minimum(without_us, _steps_us(simulation)).mean()) / 1e6


class Case(NamedTuple):
    """A mitigation that is evaluated, with the fault that it treats.

    fault    : cause of the drawn fault
    kinds    : class names of the faults that the mitigation is for; empty: all faults of the cause
    true_s   : time of a step, or of the same number of samples, with the mitigation [s]
    least_pp, least_dp : smallest numbers of stages and of replicas
    """

    fault: str
    kinds: tuple[str, ...]
    true_s: Callable[[Run], float]
    least_pp: int = 1
    least_dp: int = 1


CASES: Final = {
    LAYERS: Case("stage_imbalance", ("LossLayer",), partial(_changed_s, LAYERS), least_pp=2),
    OVER_DP_RANKS: Case("data_imbalance", ("PackedSequences",), partial(_changed_s, OVER_DP_RANKS)),
    SEQUENCES: Case("data_imbalance", ("PackedSequences",), partial(_changed_s, SEQUENCES)),
    COLLECTIONS: Case("pause", ("UnsynchronisedGc",), partial(_changed_s, COLLECTIONS)),
    HOST_EXCHANGED: Case("slow_worker", (), _host_exchanged),
    REPLICA_REMOVED: Case("slow_worker", (), _replica_removed, least_dp=LEAST_REPLICAS),
    LIGHTER_REPLICA: Case("slow_worker", (), _lightened, least_dp=2),
    OVERLAP: Case("communication", (), _overlapped),
}
