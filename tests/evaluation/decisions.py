"""Compare two policies over many days: act on drain and mitigations each morning, or on fix_first.

`python -m tests.evaluation.decisions --seed S` prints the tables. Each morning an engineer may drain some
hosts and change some jobs. All policies act on copies of one fleet, and equal actions have equal results.
What an action saves is known, because the same steps are also simulated without the action. The view
fix_first orders and counts GPU-hours as in version 0.3.0, which had neither drain nor mitigations. Seeds 0 to
99,999 may be used for tuning; seeds from 1,000,000 on are kept for evaluation.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import pandas as pd

from jobs.runtime.arguments import Arguments, command, not_negative, option, positive
from jobs.synthetic.fleet import FleetJob
from jobs.synthetic.mechanisms.work import UnevenLayers
from schemas.mitigations import CAUSE_OF, LAYERS
from schemas.table import sql_strings
from schemas.vocabulary import MACHINE_CAUSES, MITIGATIONS, Exit
from tests.evaluation.drain import FIRST_MORNING, LISTS
from tests.evaluation.drain_fleets import World
from tests.evaluation.fleet_course import Course
from tests.evaluation.mitigated_runs import INSTEAD, Run
from tests.evaluation.report import FORMATS, Section, rendered
from udfs.simulate.mitigation_rows import LABEL

OF_DAY: Final = f"""
    SELECT job_id, mitigation, cause, plan, gpu_hours_saved FROM {MITIGATIONS}
    WHERE log_date = (SELECT max(log_date) FROM {MITIGATIONS}) AND time_saved_fraction > 0
    ORDER BY gpu_hours_saved DESC, job_id"""
"""Query for the newest mitigations of all jobs, those that save most GPU-hours first."""
FIX_FIRST: Final = "SELECT host, cause, job_ids FROM fix_first WHERE "
OF_MACHINES: Final = f"cause IN ({sql_strings(MACHINE_CAUSES)})"


class Policy(NamedTuple):
    """A rule by which an engineer chooses actions.

    hosts : query whose hosts are drained, the first rows first
    jobs  : query whose jobs and causes are fixed; None: the rows of mitigations, in their order
    """

    hosts: str
    jobs: str | None = None


POLICIES: Final = {
    "drain and mitigations": Policy(LISTS["drain"]),
    "fix_first": Policy(f"{FIX_FIRST} host IS NOT NULL AND {OF_MACHINES}", f"{FIX_FIRST} NOT {OF_MACHINES}"),
}
"""Queries of each policy. Under fix_first, hosts are drained for causes that lie in a machine, and jobs are
changed for other causes."""


class Mornings(NamedTuple):
    """Largest numbers of actions on a morning: hosts to drain, and jobs to change."""

    hosts: int
    jobs: int


def follow(world: World, policy: Policy, most: Mornings) -> Course:
    """Simulate a fleet day by day, with the actions that a policy chooses each morning."""
    course = Course(world)
    for day in range(world.days):
        serving = {job.job_id for job in course.run(day)}
        if day + 1 < FIRST_MORNING:
            continue
        there = {host for name in serving for host in course.jobs[name].hosts}
        hosts = [host for host in course.warehouse.ask(policy.hosts).host.dropna().unique() if host in there]
        advice = course.warehouse.ask(OF_DAY).to_dict(orient="records")
        chosen = list(_chosen(course, policy, advice, serving))[: most.jobs]
        for host in [each for each in hosts if not each.startswith("spare")][: most.hosts]:
            course.drain(host, day)
        for row in chosen:
            course.change(changed(course.jobs[row["job_id"]], row), row["mitigation"], day)
    return course


def _chosen(
    course: Course, policy: Policy, advice: Sequence[Mapping[Any, Any]], serving: set[str]
) -> Iterator[Mapping[Any, Any]]:
    """Yield the mitigations that the engineer carries out, in order, with at most one per job.

    Under fix_first, each listed pair of job and cause gets its best mitigation; pairs without one are
    skipped.
    """
    can = [
        row
        for row in advice
        if row["mitigation"] in INSTEAD
        and row["job_id"] in serving
        and (row["job_id"], row["mitigation"]) not in course.changed
    ]
    order = can
    if policy.jobs is not None:
        listed = course.warehouse.ask(policy.jobs)
        rows = zip(listed.job_ids, listed.cause, strict=True)
        fixes = [(str(job_id), str(cause)) for job_ids, cause in rows for job_id in job_ids]
        of_fix = {fix: [row for row in can if (row["job_id"], row["cause"]) == fix] for fix in fixes}
        order = [found[0] for found in of_fix.values() if found]
    done: set[str] = set()
    for row in order:
        if row["job_id"] not in done:
            done.add(row["job_id"])
            yield row


def changed(job: FleetJob, row: Mapping[str, Any]) -> FleetJob:
    """Return the job with a mitigation in place of the fault that it treats, or without change."""
    mitigation, mechanisms = row["mitigation"], job.plan.mechanisms
    of_cause = [each for each in mechanisms if each.cause == CAUSE_OF[mitigation]]
    if not of_cause:
        return job
    trouble = next((each for each in of_cause if isinstance(each, UnevenLayers)), of_cause[0])
    others = [each for each in mechanisms if each is not trouble]
    layers = [int(each) for each in str(job.fields["labels"][LABEL]).split(",")]
    found = INSTEAD[mitigation](Run(job.plan, trouble, others, layers, row["plan"]))
    fields = dict(job.fields)
    if mitigation == LAYERS:
        (uneven,) = (each for each in found if isinstance(each, UnevenLayers))
        fields["labels"] = {LABEL: ",".join(f"{each:g}" for each in uneven.layers)}
    return replace(job, plan=replace(job.plan, mechanisms=[*found, *others]), fields=fields)


def judged(world: World, most: Mornings) -> dict[str, Course]:
    """Run each policy on equal copies of one fleet."""
    return {name: follow(world, policy, most) for name, policy in POLICIES.items()}


def tables(found: Mapping[str, Course]) -> list[Section]:
    """Tables of the GPU-hours saved and spent under each policy, and of the changes made to jobs."""
    rows = [
        {
            "policy": name,
            "drains": len(course.drained),
            "false drains": course.false,
            "jobs changed": len(course.changed),
            "returned by drains": course.returned,
            "by changes": course.by_changes,
            "cost": course.cost,
            "net": course.returned + course.by_changes - course.cost,
        }
        for name, course in found.items()
    ]
    kinds = pd.DataFrame(
        {"policy": name, "mitigation": mitigation}
        for name, course in found.items()
        for _, mitigation in course.changed
    )
    counted = kinds.groupby(["policy", "mitigation"], sort=False).size().rename("jobs").reset_index()
    return [
        Section("GPU-hours by policy", "", pd.DataFrame(rows)),
        Section("Changes of jobs", "", counted),
    ]


@command(
    "tests.evaluation.decisions",
    option("--jobs N", "jobs", positive, default=300),
    option("--days N", "days", positive, default=60),
    option("--hosts N", "hosts that may be drained each morning", positive, default=2),
    option("--changes N", "jobs that may be changed each morning", positive, default=2),
    option("--seed S", "seed of the fleet", not_negative, required=True),
    option("--most-ops N", "ops of a job on a day, about", positive, default=1_000),
    option("--format FORMAT", "how to print it", choices=FORMATS, default=FORMATS[0]),
)
def main(args: Arguments) -> int:
    """Measure how many GPU-hours are saved by following each policy every morning."""
    world = World(args.seed, args.jobs, args.days, args.most_ops)
    gpu_hours = sum(24 * job.shape.world_size * len(job.days) for job in world.fleet.jobs)
    heading = (
        f"{args.jobs} jobs over {args.days} days of {gpu_hours:,} GPU-hours, seed {args.seed}; each morning "
        f"up to {args.hosts} hosts drained and {args.changes} jobs changed."
    )
    sys.stdout.write(
        rendered(heading, tables(judged(world, Mornings(args.hosts, args.changes))), args.format)
    )
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
