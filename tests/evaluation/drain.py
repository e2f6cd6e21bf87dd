"""Evaluate the view drain on generated fleets, in comparison with simpler lists and with chance.

`python -m tests.evaluation.drain --seed S` prints the tables. Hosts of generated jobs are slow for one to
three days, for weeks, or again and again. Each morning a policy may drain some hosts; from then on healthy
spares run their jobs. DrainTerms states what a drain costs. All policies meet the same jobs and the same
periods of slowness. What a drain saves is known, because the same steps are simulated with and without the
slow host. Seeds 0 to 99,999 may be used for tuning; seeds from 1,000,000 on are kept for evaluation.
"""

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Final

import numpy as np
import pandas as pd

from jobs.runtime.arguments import Arguments, command, not_negative, option, positive
from jobs.synthetic.simulation import child_rng
from schemas.vocabulary import Exit
from tests.evaluation.drain_fleets import Rows, World
from tests.evaluation.fleet_course import TERMS, Course, without_host
from tests.evaluation.report import FORMATS, Section, rendered

FIRST_MORNING: Final = 3
"""Number of days that are observed before hosts are drained for the first time."""
LISTS: Final = {
    "drain": "SELECT host FROM drain WHERE verdict IN ('drain', 'probably')",
    "fix_first": "SELECT host FROM fix_first WHERE host IS NOT NULL",
    "host_record": "SELECT host FROM host_record WHERE verdict IS NOT NULL",
}
STATES: Final = "SELECT host, state, probability, expected_gpu_hours, expected_low, expected_high FROM drain"


def follow(world: World, name: str, most: int | Mapping[int, int], rng: np.random.Generator) -> Course:
    """Simulate a fleet in which each morning the first hosts of a list are drained; a host is drained once.

    name : key of LISTS; any other name: hosts are drawn at random
    most : number of drains each morning, or by day; on days that are not keys no host is drained
    """
    course = Course(world)
    for day in range(world.days):
        serving = course.run(day)
        allowed = most if isinstance(most, int) else most.get(day, 0)
        if day + 1 < FIRST_MORNING or not allowed:
            continue
        there = [host for job in serving for host in job.hosts if not host.startswith("spare")]
        if name in LISTS:
            left = set(there)
            listed = [host for host in course.warehouse.ask(LISTS[name])["host"].unique() if host in left]
        else:
            listed = [str(host) for host in rng.permutation(there)]
        if name == "drain":
            course.predictions += _predicted(course, day)
        for host in listed[:allowed]:
            course.drain(host, day)
    return course


def _predicted(course: Course, day: int) -> Rows:
    """Return each host's loss as the view drain expects it, and its true loss without any drain."""
    world, found = course.world, []
    jobs = {host: job for job in course.jobs.values() for host in job.hosts}
    ahead = range(day + 1, day + 1 + TERMS.days)
    for state in course.warehouse.ask(STATES).to_dict(orient="records"):
        job = jobs.get(state["host"])
        if job is None or any(later not in job.days for later in ahead):
            continue
        spared = without_host(job, state["host"])
        slow = world.is_slow(state["host"], job, ahead)
        came = 0.0
        for later in ahead:
            unit, without = world.ran(job, later), world.ran(spared, later)
            came += unit.gpu_hours * (1 - world.step_us(without) / world.step_us(unit))
        found.append(
            {
                **{str(name): value for name, value in state.items()},
                "slow": float(np.mean(slow)),
                "came": came,
            }
        )
    return found


def judged(world: World, most: int, seed: int) -> dict[str, Course]:
    """Run each policy on equal copies of one fleet."""
    own = follow(world, "drain", most, child_rng(seed, "own"))
    as_many = Counter(since - 1 for since in own.drained.values())
    return {
        "drain": own,
        "fix_first, as many": follow(world, "fix_first", as_many, child_rng(seed, "list")),
        "fix_first, each morning": follow(world, "fix_first", most, child_rng(seed, "list")),
        "host_record, as many": follow(world, "host_record", as_many, child_rng(seed, "record")),
        "chance, as many": follow(world, "by chance", as_many, child_rng(seed, "chance")),
    }


def tables(found: Mapping[int, Mapping[str, Course]]) -> list[Section]:
    """Tables of GPU-hours by policy and fleet, and of the losses that drain expects and the true losses."""
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
        Section(
            "Hours by policy",
            "The table shows GPU-hours over all fleets; a drain is false if the host is not slow afterwards.",
            summed,
        ),
        Section("By fleet", "", rows),
        Section(
            "Expected and came",
            "For hosts not drained before, the table shows the share of the next days on which they were "
            "slow, and the GPU-hours lost to them on these days, beside what the view predicted.",
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
    option("--jobs N", "jobs of each", positive, default=30),
    option("--days N", "days of each", positive, default=42),
    option("--most N", "hosts that may be drained each morning", positive, default=3),
    option("--seed S", "seed of the first fleet", not_negative, required=True),
    option("--most-ops N", "ops of a job on a day, about", positive, default=1_000),
    option("--format FORMAT", "how to print it", choices=FORMATS, default=FORMATS[0]),
)
def main(args: Arguments) -> int:
    """Compare lists of hosts to drain by the GPU-hours that draining these hosts saves."""
    seeds = range(args.seed, args.seed + args.fleets)
    found = {
        seed: judged(World(seed, args.jobs, args.days, args.most_ops), args.most, seed) for seed in seeds
    }
    heading = (
        f"{args.fleets} fleets of {args.jobs} jobs over {args.days} days, of seeds {seeds[0]} to {seeds[-1]}."
    )
    sys.stdout.write(rendered(heading, tables(found), args.format))
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
