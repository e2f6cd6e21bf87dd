"""Random jobs of several runs ("wholes"), whose roles wait for each other in every iteration."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobs.synthetic.sample_faults import log_uniform
from jobs.synthetic.sample_job import SEEDS, sample_job
from jobs.synthetic.shape import JobIdentity
from jobs.synthetic.simulation import JobPlan, Simulation, child_rng
from jobs.synthetic.whole import ROLES, Run, Seconds, WholeSimulation
from schemas.vocabulary import FIXABLE_CAUSES


def sample_whole(seed: int, iterations: int = 12, most_ops: int = 3000) -> WholeSimulation:
    """Draw a random job of several runs, each with a role.

    A whole has two to five roles, and each role except the first waits for one or more earlier roles. One
    role in five has two jobs. In three of four wholes the first role of an iteration waits for the last
    roles of the iteration before; otherwise it waits only for itself, and runs ahead. Transitions between
    roles take about 0.05 to 2 s, and clocks of jobs differ by up to 5 ms.
    """
    rng = child_rng(seed, "whole")
    count = int(rng.integers(2, len(ROLES) + 1))
    roles = [ROLES[place] for place in sorted(rng.choice(len(ROLES), count, replace=False))]
    waits: dict[str, tuple[str, ...]] = {roles[0]: ()}
    for place, role in enumerate(roles[1:], start=1):
        chosen = rng.random(place) < 0.5
        chosen[int(rng.integers(place))] = True
        waits[role] = tuple(other for other, is_chosen in zip(roles, chosen, strict=False) if is_chosen)
    last = tuple(role for role in roles if not any(role in others for others in waits.values()))
    runs_ahead = bool(rng.random() < 0.25)
    length_s = log_uniform(rng, 0.005, 0.2) * 10
    runs = []
    for role in roles:
        for number in range(2 if rng.random() < 0.2 else 1):
            steps = int(rng.integers(1, 4))
            plan = _plan(int(rng.integers(SEEDS)), f"{role}-{number}", iterations * steps, most_ops)
            transition_s = length_s * rng.uniform(0.5, 1.5, iterations)
            before = () if waits[role] or runs_ahead else last
            clock_s = float(rng.uniform(0, 0.005))
            runs.append(Run(role, plan, waits[role], before, steps, transition_s, clock_s))
    return WholeSimulation(f"whole-{seed}", runs)


def _plan(seed: int, job_id: str, steps: int, most_ops: int) -> JobPlan:
    plan = sample_job(seed, has_own_hosts=False, most_ops=most_ops)
    fields: Mapping[str, Any] = {"gpu_hours": float(plan.shape.world_size)}
    identity = JobIdentity(job_id=job_id, fields=fields)
    return replace(plan, shape=replace(plan.shape, steps=steps), identity=identity, lost_ranks=())


def roles_of(whole: WholeSimulation) -> list[str]:
    """Return the roles of a job of several runs, in the order of ROLES."""
    return [role for role in ROLES if any(run.role == role for run in whole.runs)]


def time_s(whole: WholeSimulation, steps_s: Sequence[Seconds]) -> float:
    """Time from the first start to the last end, if steps have the given lengths. [s]"""
    starts_s = whole.starts_s(steps_s)
    ends_s = [start[-1] + steps[-1].sum() for start, steps in zip(starts_s, steps_s, strict=True)]
    return float(max(ends_s) - min(start[0] for start in starts_s))


def saved_fraction(whole: WholeSimulation, role: str, *, is_half: bool) -> float:
    """Return the saved share of time if a role has no causes of slowness, or takes half of its time."""

    def faster_s(run: Run, simulation: Simulation, as_it_is_s: Seconds) -> Seconds:
        if is_half:
            return as_it_is_s / 2
        without = simulation.places_of(FIXABLE_CAUSES)
        return run.lengths_s(simulation.timeline(without, is_launch_free=True))

    runs = zip(whole.runs, whole.simulations, whole.steps_s, strict=True)
    steps_s = [faster_s(*each) if each[0].role == role else each[2] for each in runs]
    return 1 - time_s(whole, steps_s) / time_s(whole, whole.steps_s)
