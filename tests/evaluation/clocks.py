"""Evaluate the correction of clocks on jobs that are simulated with wrong clocks and with right clocks.

`python -m tests.evaluation.clocks --seed S` prints the tables. Seeds 0 to 99,999 may be used for tuning;
seeds from 1,000,000 on are kept for evaluation.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pandas as pd

from jobs.runtime.arguments import Arguments, command, not_negative, option, positive
from jobs.synthetic.job import GeneratedJob, recorded_job
from jobs.synthetic.mechanisms.nuisances import ClockSkew
from jobs.synthetic.sample_job import own_hosts, sample_job
from jobs.synthetic.simulation import JobPlan, Simulation, child_rng
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN, Exit, Status
from tests.evaluation.judge import Row
from tests.evaluation.report import FORMATS, Section, rendered
from tests.evaluation.skews import SKEWS, draw_clocks
from udfs.errors import TraceError
from udfs.what_if import SimulationSettings, simulate_job

FROM_ONE_CLOCK: Final = SimulationSettings(
    clock_floor_s=float("inf"), clock_floor_fraction=float("inf"), diagnosed=True
)
"""Settings under which the simulator corrects no clock."""

RIGHT: Final = 1e-3
WRONG: Final = 5e-3
"""Bounds on the relative error of a slowdown: RIGHT for a corrected unit, WRONG for any analysed unit."""


@dataclass(frozen=True)
class Answer:
    status: str
    slowdown: float
    causes: frozenset[str]
    is_corrected: bool


def kind_of(plan: JobPlan) -> str:
    """Return how the hosts of a job are connected: by replicas, by a pipeline, by both, or not at all."""
    shape = plan.shape
    pipeline = "" if shape.pp_size == 1 else "virtual pipeline" if shape.vpp_size > 1 else "pipeline"
    replicas = "replicas" if shape.dp_size > 1 else ""
    return " and ".join(filter(None, (replicas, pipeline))) or "one worker"


def judge(seed: int, skew: str = "", most_ops: int = 15_000) -> Row | None:
    """Simulate a job with right and with wrong clocks, and compare the results; None if it has one host.

    skew    : name of a clock error in SKEWS; empty: drawn
    returns : status, relative error of the slowdown, and whether the causes are those found with right
              clocks: with the simulator's correction, and (`ignored_`) without it
    """
    drawn = sample_job(seed, most_ops=most_ops)
    others = tuple(each for each in drawn.mechanisms if not isinstance(each, ClockSkew))
    plan = replace(drawn, mechanisms=others)
    hosts = own_hosts(plan.shape, plan.identity)
    if len(hosts) < 2 or kind_of(plan) == "one worker":
        return None
    rng = child_rng(seed, f"clocks {skew}")
    chosen = skew or str(rng.choice(list(SKEWS)))
    clocks = draw_clocks(rng, hosts, plan.shape.steps, chosen)
    job, skewed = (
        recorded_job(Simulation(replace(plan, mechanisms=mechanisms)))
        for mechanisms in (others, (*others, clocks))
    )
    true, ignored = _simulated(job, FROM_ONE_CLOCK), _simulated(skewed, FROM_ONE_CLOCK)
    found = _simulated(skewed, SimulationSettings())
    return {
        "seed": seed,
        "kind": kind_of(plan),
        "skew": chosen,
        "hosts": len(hosts),
        "status": found.status,
        "ignored_status": ignored.status,
        "ignored_error": abs(ignored.slowdown / true.slowdown - 1),
        "error": abs(found.slowdown / true.slowdown - 1),
        "ignored_causes_kept": ignored.causes == true.causes,
        "causes_kept": found.causes == true.causes,
        "is_corrected": found.is_corrected,
    }


def _simulated(job: GeneratedJob, settings: SimulationSettings) -> Answer:
    try:
        tables = simulate_job(job.rank_steps, job.manifest, settings)
    except TraceError:
        return Answer(Status.CORRUPT_TRACE, np.nan, frozenset(), is_corrected=False)
    (row,) = tables[JOB_SLOWDOWN].to_pylist()
    causes = frozenset(each["cause"] for each in tables[JOB_CAUSES].to_pylist() if each["is_cause"])
    slowdown = np.nan if row["slowdown"] is None else float(row["slowdown"])
    return Answer(row["status"], slowdown, causes, bool(row["is_clock_corrected"]))


def by_kind_and_skew(judged: pd.DataFrame) -> pd.DataFrame:
    """Return one row per kind of job and clock error: worst errors, and how many jobs get the same causes."""
    percent = judged.assign(error=100 * judged.error, ignored_error=100 * judged.ignored_error)
    columns = {
        "jobs": ("seed", "size"),
        "corrected": ("is_corrected", "sum"),
        "worst error, clocks ignored [%]": ("ignored_error", "max"),
        "worst error [%]": ("error", "max"),
        "causes kept, clocks ignored": ("ignored_causes_kept", "sum"),
        "causes kept": ("causes_kept", "sum"),
    }
    return percent.groupby(["kind", "skew"], as_index=False).agg(**columns)


def summary(rows: pd.DataFrame) -> Mapping[str, float]:
    """Return the worst error, and the shares of jobs with right results, with and without the correction."""
    is_right = rows.error <= RIGHT
    analysed, ignored = rows.status == Status.ANALYSED, rows.ignored_status == Status.ANALYSED
    return {
        "jobs": len(rows),
        "right to 0.1 % [%]": 100 * float(is_right.mean()),
        "right to 0.1 %, clocks ignored [%]": 100 * float((rows.ignored_error <= RIGHT).mean()),
        "worst error [%]": 100 * float(rows.error.max()),
        "analysed and wrong by over 0.5 %": int((analysed & ~(rows.error <= WRONG)).sum()),
        "the same, clocks ignored": int((ignored & ~(rows.ignored_error <= WRONG)).sum()),
        "causes kept [%]": 100 * float(rows.causes_kept.mean()),
        "causes kept, clocks ignored [%]": 100 * float(rows.ignored_causes_kept.mean()),
    }


@command(
    "tests.evaluation.clocks",
    option("--jobs N", "jobs", positive, default=500),
    option("--seed S", "seed of the first job", not_negative, required=True),
    option("--skew SKEW", "only this kind of clock error", choices=SKEWS),
    option("--most-ops N", "ops of a job, about", positive, default=15_000),
    option("--list-worst N", "list the N largest errors", not_negative, default=5),
    option("--format FORMAT", "how to print it", choices=FORMATS, default=FORMATS[0]),
)
def main(args: Arguments) -> int:
    """Run the command line: evaluate the correction of clocks."""
    judged: list[Row] = []
    seed = args.seed
    while len(judged) < args.jobs:
        found = judge(seed, args.skew or "", args.most_ops)
        judged += [] if found is None else [found]
        seed += 1
    rows = pd.DataFrame(judged)
    sections = [
        Section("All jobs", "", pd.DataFrame([summary(rows)])),
        Section("Kinds of jobs by skews", "", by_kind_and_skew(rows)),
        Section("Worst errors", "", rows.sort_values("error", ascending=False).head(args.list_worst)),
    ]
    heading = f"{len(rows)} generated jobs on several hosts, of seeds {args.seed} to {seed - 1}."
    sys.stdout.write(rendered(heading, sections, args.format))
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
