"""Evaluate the view drain: fleets whose hosts are drained as it says, beside today's lists and chance.

`python -m tests.evaluation.drain --seed S` prints the tables. Hosts of generated jobs are slow for one to
three days, for weeks, or again and again. Each morning a policy may drain one host: a healthy spare serves
its jobs from then on, and what that costs is what the terms say. All policies meet the same jobs and the same
spells. What a drain returns is known: the very same steps with and without the spell. Seeds 0 to 99,999 are
for tuning, those from 1,000,000 on are kept for evaluation.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pandas as pd

from jobs.runtime.arguments import Arguments, command, not_negative, option, positive
from jobs.synthetic.shape import GPUS_PER_HOST
from jobs.synthetic.simulation import child_rng
from schemas.drain import DrainTerms
from schemas.vocabulary import Exit
from tests.evaluation.drain_fleets import ASKED, Rows, World, asks
from tests.evaluation.report import FORMATS, Section, rendered

TERMS: Final = DrainTerms()
FIRST_MORNING: Final = 3
"""Days before the first drain."""
LISTS: Final = {
    "drain": "SELECT host FROM drain WHERE verdict IN ('drain', 'probably')",
    "fix_first": "SELECT host FROM fix_first WHERE host IS NOT NULL",
    "host_record": "SELECT host FROM host_record WHERE verdict IS NOT NULL",
}
STATES: Final = "SELECT host, state, probability, expected_gpu_hours, expected_low, expected_high FROM drain"


@dataclass
class Course:
    """What came of a policy: GPU-hours that drains returned and cost, and hosts drained, by morning."""

    returned: float = 0.0
    cost: float = 0.0
    drained: dict[str, int] = field(default_factory=dict)
    false: int = 0
    predictions: Rows = field(default_factory=list)


def follow(world: World, name: str, mornings: Sequence[int] | None, rng: np.random.Generator) -> Course:
    """Drain each morning the first host of a list that is still there.

    name     : of LISTS; else hosts are drawn
    mornings : on which; None: all
    """
    course, rows = Course(), {each: Rows() for each in ASKED}
    for day in range(world.days):
        serving = [job for job in world.fleet.jobs if day in job.days]
        for job in serving:
            ran = world.ran(job, day, course.drained)
            course.returned += ran.gpu_hours * (1 - ran.step_us / world.ran(job, day, {}).step_us)
            for each in ASKED:
                rows[each] += ran.rows[each]
        if day + 1 < FIRST_MORNING or (mornings is not None and day not in mornings):
            continue
        there = [host for job in serving for host in job.hosts if host not in course.drained]
        if name in LISTS:
            ask = asks(rows)
            listed = [host for host in ask(LISTS[name])["host"] if host in there]
            if name == "drain":
                course.predictions += _predicted(world, day, course, ask(STATES))
        else:
            listed = [str(host) for host in rng.permutation(there)]
        if listed:
            _drain(world, course, listed[0], day)
    return course


def _drain(world: World, course: Course, host: str, day: int) -> None:
    """Drain a host at the end of a day, and count what that costs."""
    (job,) = (each for each in world.fleet.jobs if host in each.hosts)
    hours = (TERMS.restart_minutes + TERMS.redone_minutes) / 60
    gpus = min(job.shape.world_size, GPUS_PER_HOST)
    course.cost += job.shape.world_size * hours + gpus * TERMS.spare_hours
    course.drained[host] = day + 1
    ahead = range(day + 1, day + 1 + TERMS.days)
    course.false += not any(each.host == host for later in ahead for each in world.spells_of(job, later))


def _predicted(world: World, day: int, course: Course, states: pd.DataFrame) -> Rows:
    """What is expected of the hosts left in, beside what they will cost if none is drained from now on."""
    found = []
    for state in states.to_dict(orient="records"):
        job = next((each for each in world.fleet.jobs if state["host"] in each.hosts), None)
        ahead = range(day + 1, day + 1 + TERMS.days)
        if job is None or state["host"] in course.drained or any(later not in job.days for later in ahead):
            continue
        units = [
            (
                world.ran(job, later, course.drained),
                world.ran(job, later, course.drained | {state["host"]: later}),
            )
            for later in ahead
        ]
        slow = [any(each.host == state["host"] for each in world.spells_of(job, later)) for later in ahead]
        came = sum(unit.gpu_hours * (1 - without.step_us / unit.step_us) for unit, without in units)
        found.append(
            {
                **{str(name): value for name, value in state.items()},
                "slow": float(np.mean(slow)),
                "came": came,
            }
        )
    return found


def judged(world: World, seed: int) -> dict[str, Course]:
    """Follow each policy through the same fleet."""
    own = follow(world, "drain", None, child_rng(seed, "own"))
    mornings = [since - 1 for since in own.drained.values()]
    return {
        "drain": own,
        "fix_first, as many": follow(world, "fix_first", mornings, child_rng(seed, "list")),
        "fix_first, each morning": follow(world, "fix_first", None, child_rng(seed, "list")),
        "host_record, as many": follow(world, "host_record", mornings, child_rng(seed, "record")),
        "chance, as many": follow(world, "by chance", mornings, child_rng(seed, "chance")),
    }


def tables(found: Mapping[int, Mapping[str, Course]]) -> list[Section]:
    """Hours by policy and by fleet, and whether what was expected came."""
    rows = pd.DataFrame(
        {"policy": name, "fleet": seed, "drains": len(course.drained), "false drains": course.false,
         "returned": course.returned, "cost": course.cost, "net": course.returned - course.cost}
        for seed, of_fleet in found.items() for name, course in of_fleet.items()
    )  # fmt: skip
    by_policy = rows.groupby("policy", sort=False)
    summed = by_policy[["drains", "false drains", "returned", "cost", "net"]].sum().reset_index()
    spread = by_policy["net"].agg(["min", "max"]).reset_index(drop=True)
    summed = summed.assign(**{"least net of a fleet": spread["min"], "most": spread["max"]})
    return [
        Section("Hours by policy", "GPU-hours over all fleets; false: not slow in the days ahead.", summed),
        Section("By fleet", "", rows),
        Section(
            "Expected and came",
            "Hosts left in, by state: the part of the next days on which they were slow, and GPU-hours lost.",
            _by_state(pd.DataFrame([each for of in found.values() for each in of["drain"].predictions])),
        ),
    ]


def _by_state(predictions: pd.DataFrame) -> pd.DataFrame:
    if predictions.empty:
        return predictions
    columns = {
        "mornings": ("host", "size"),
        "hosts": ("host", "nunique"),
        "probability": ("probability", "mean"),
        "slow": ("slow", "mean"),
        "expected": ("expected_gpu_hours", "sum"),
        "low": ("expected_low", "sum"),
        "high": ("expected_high", "sum"),
        "came": ("came", "sum"),
    }
    return predictions.groupby("state", as_index=False).agg(**columns)


@command(
    "tests.evaluation.drain",
    option("--fleets N", "fleets", positive, default=5),
    option("--jobs N", "jobs of each", positive, default=8),
    option("--days N", "days of each", positive, default=28),
    option("--seed S", "seed of the first fleet", not_negative, required=True),
    option("--most-ops N", "ops of a job on a day, about", positive, default=2_000),
    option("--format FORMAT", "how to print it", choices=FORMATS, default=FORMATS[0]),
)
def main(args: Arguments) -> int:
    """Judge drains."""
    seeds = range(args.seed, args.seed + args.fleets)
    found = {seed: judged(World(seed, args.jobs, args.days, args.most_ops), seed) for seed in seeds}
    heading = (
        f"{args.fleets} fleets of {args.jobs} jobs over {args.days} days, of seeds {seeds[0]} to {seeds[-1]}."
    )
    sys.stdout.write(rendered(heading, tables(found), args.format))
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
