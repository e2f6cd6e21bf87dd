"""Evaluate `straggler changes` on jobs of many days, some of which get a fault on one day and keep it.

`python -m tests.evaluation.changes --seed S` prints the tables. Random draws, including the GPUs' speeds, are
new on each day. The true cost of a fault is the step time with the fault minus that of the same steps without
the fault. Seeds 0 to 99,999 may be used for tuning; seeds from 1,000,000 on are kept for evaluation.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from typing import Final

import pandas as pd

from jobs.runtime.arguments import Arguments, command, not_negative, option, positive
from jobs.synthetic.job import recorded_job
from jobs.synthetic.mechanisms.mechanism import ALWAYS, Mechanism, Windowed
from jobs.synthetic.sample_job import sample_job
from jobs.synthetic.simulation import JobPlan, Simulation, child_rng
from schemas.job_changes import OF_LOST, OF_STEP
from schemas.unit import Unit
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN, STEP_SLOWDOWN, WORKER_SLOWDOWN, Exit, Status
from tests.evaluation.judge import Row
from tests.evaluation.report import FORMATS, Section, drawn, percent, rendered
from udfs.changes import Change, Point, changes_of, point_of
from udfs.what_if import simulate_job

FIRST: Final = date(2026, 1, 1)
LEAST_PERCENT: Final = (0.0, 2.0, 5.0, 10.0)
"""Lower bounds of the classes of faults by cost [% of the step time without the fault]."""
OF_DAY: Final = 2**32
"""Day N of a job has the job's seed plus N times this number."""


def steady(seed: int, days: int, most_ops: int) -> Row | None:
    """Count changes reported for a job with the same faults on all days; None if a day is not analysed."""
    plan = sample_job(seed, most_ops=most_ops)
    plan = replace(plan, mechanisms=[_always(each) for each in plan.mechanisms])
    points = _points([plan] * days, seed)
    if points is None:
        return None
    found = changes_of(points)
    kinds = {change.of for change in found}
    return {
        "seed": seed,
        "faults": ", ".join(plan.causes) or "none",
        "step time": OF_STEP in kinds,
        "lost": OF_LOST in kinds,
        "a cause": bool(kinds - {OF_STEP, OF_LOST}),
        "changes": _named(found),
    }


def meets(seed: int, days: int, most_ops: int) -> Row | None:
    """Compare a fault's true first day with the reported one; None if either is missing."""
    plan = sample_job(seed, most_ops=most_ops)
    faults = [_always(each) for each in plan.mechanisms if each.cause is not None]
    if not faults:
        return None
    nuisances = [each for each in plan.mechanisms if each.cause is None]
    begins = int(child_rng(seed, "begins").integers(min(2, days - 2), days - 1))
    undone = faults[0].without()
    before = replace(plan, mechanisms=[*([] if undone is None else [undone]), *nuisances])
    after = replace(plan, mechanisms=[faults[0], *nuisances])
    points = _points([before] * begins + [after] * (days - begins), seed)
    if points is None:
        return None
    simulation = Simulation(after)
    costs = [simulation.step_us(simulation.timeline(each)).mean() for each in ((), {0})]
    true = 100 * (float(costs[0] / costs[1]) - 1)
    found = [change for change in changes_of(points) if change.of == OF_STEP]
    off = [abs((change.since - FIRST).days - begins) for change in found]
    nearest = min(range(len(found)), key=off.__getitem__, default=None)
    is_found = nearest is not None and off[nearest] <= 1
    return {
        "seed": seed,
        "fault": type(faults[0]).__name__,
        "class": max(each for each in LEAST_PERCENT if true >= each or each == LEAST_PERCENT[0]),
        "true": true,
        "found": is_found,
        "day right": off[nearest] == 0 if nearest is not None and is_found else None,
        "cause right": found[nearest].cause == faults[0].cause if nearest is not None and is_found else None,
        "others": len(found) - is_found,
    }


def _always(mechanism: Mechanism) -> Mechanism:
    """Return the mechanism with a window that covers all steps of a day."""
    return replace(mechanism, window=ALWAYS) if isinstance(mechanism, Windowed) else mechanism


def _points(plans: Sequence[JobPlan], seed: int) -> list[Point] | None:
    points = []
    for day, plan in enumerate(plans):
        job = recorded_job(Simulation(replace(plan, seed=seed + OF_DAY * (day + 1))))
        found = simulate_job(job.rank_steps, job.manifest)
        if found[JOB_SLOWDOWN]["status"][0].as_py() != Status.ANALYSED:
            return None
        times_s = found[STEP_SLOWDOWN]["actual_step_s"].to_numpy()
        causes, hosts = found[JOB_CAUSES].to_pylist(), found[WORKER_SLOWDOWN]["host"].to_pylist()
        unit = Unit(FIRST + timedelta(day), "generated", "r0")
        points.append(point_of(unit, job.manifest, times_s, causes, hosts))
    return points


def _named(found: Sequence[Change]) -> str:
    return ", ".join(f"{change.of} {100 * change.change:+.1f} %" for change in found)


def tables(quiet: pd.DataFrame, faulty: pd.DataFrame) -> list[Section]:
    """Tables of false alarms, and of how many faults are found and on which day."""
    alarms = {
        "jobs": len(quiet),
        **{f"{name} [%]": 100 * quiet[name].mean() for name in ("step time", "lost", "a cause")},
    }
    columns = {
        "jobs": ("seed", "size"),
        "found [%]": ("found", percent),
        "day right [%]": ("day right", percent),
        "cause right [%]": ("cause right", percent),
        "other changes": ("others", "sum"),
    }
    return [
        Section(
            "False alarms",
            "The table shows for how many steady jobs a change was reported.",
            pd.DataFrame([alarms]),
        ),
        Section(
            "A fault begins",
            'The column "class" has the least cost of a fault, in per cent of the step. "Found" means that a '
            "change is reported within a day of the true one.",
            faulty.groupby("class", as_index=False).agg(**columns),
        ),
        Section("Steady jobs with a change", "", quiet[quiet.changes != ""]),
    ]


@command(
    "tests.evaluation.changes",
    option(
        "--jobs N",
        "jobs without a change, and the same number with a fault on one day",
        positive,
        default=100,
    ),
    option("--days N", "days of each", positive, default=14),
    option("--seed S", "seed of the first job", not_negative, required=True),
    option("--most-ops N", "ops of a job on a day, about", positive, default=4_000),
    option("--format FORMAT", "how to print it", choices=FORMATS, default=FORMATS[0]),
)
def main(args: Arguments) -> int:
    """Run the command line: evaluate how well changes are found."""
    how = {"days": args.days, "most_ops": args.most_ops}
    judged, last = zip(
        *(drawn(partial(judge, **how), args.seed, args.jobs) for judge in (steady, meets)), strict=True
    )
    jobs = f"{args.jobs} steady jobs and as many with a fault, {args.days} days each"
    heading = f"{jobs}, of seeds {args.seed} to {max(last)}."
    sys.stdout.write(rendered(heading, tables(*judged), args.format))
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
