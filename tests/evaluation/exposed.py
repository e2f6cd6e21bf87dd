"""Evaluate the reported exposed communication of jobs by reruns in which the communication takes no time.

`python -m tests.evaluation.exposed --seed S` prints the tables. Seeds 0 to 99,999 may be used for tuning;
seeds from 1,000,000 on are kept for evaluation.
"""

import sys
from typing import Final

import pandas as pd

from jobs.runtime.arguments import Arguments, command, not_negative, option, positive
from jobs.synthetic.conditions import Rows
from jobs.synthetic.job import recorded_job
from jobs.synthetic.sample_job import sample_job
from jobs.synthetic.simulation import Simulation
from jobs.synthetic.timeline import Timeline
from schemas.vocabulary import (
    ALL_OP_TYPES,
    ALL_STAGES,
    EXPOSED_COMMUNICATION,
    JOB_SLOWDOWN,
    OP_TYPE_GROUPS,
    OP_TYPES,
    Exit,
    Status,
)
from tests.evaluation.judge import Row
from tests.evaluation.report import FORMATS, Section, rendered
from udfs.kernel.replay.exposed import COMMUNICATION
from udfs.what_if import simulate_job

NOTE: Final = "The table shows errors of exposed_s, in per cent of the recorded step."


def judge(seed: int, most_ops: int = 15_000) -> list[Row]:
    """Compare each row of exposed_communication with a rerun without the row's ops.

    Return one row for each; none if the job is not analysed.
    """
    plan = sample_job(seed, most_ops=most_ops)
    simulation = Simulation(plan)
    job = recorded_job(simulation)
    tables = simulate_job(job.rank_steps, job.manifest)
    (unit,) = tables[JOB_SLOWDOWN].to_pylist()
    if unit["status"] != Status.ANALYSED:
        return []
    return [
        {
            "seed": seed,
            "is_batched": plan.shape.batched and plan.shape.pp_size > 1,
            "of": row["op_type"] if row["pp_rank"] == ALL_STAGES else "each stage",
            "exposed_s": row["exposed_s"],
            "true_s": (true_s := _true_s(simulation, row["op_type"], row["pp_rank"])),
            "error": 100 * (row["exposed_s"] - true_s) / unit["actual_step_s"],
            "exposed": 100 * row["exposed_s"] / unit["actual_step_s"],
            "true": 100 * true_s / unit["actual_step_s"],
        }
        for row in tables[EXPOSED_COMMUNICATION].to_pylist()
    ]


def _true_s(simulation: Simulation, op_type: str, pp_rank: int) -> float:
    shape, place = simulation.plan.shape, simulation.place
    names = [
        OP_TYPES[code]
        for code in COMMUNICATION
        if op_type in (ALL_OP_TYPES, OP_TYPE_GROUPS.get(OP_TYPES[code], OP_TYPES[code]))
    ]
    recorded = [name for name in names if name not in shape.absent]
    rows = place.rows(*recorded, pp_rank=None if pp_rank == ALL_STAGES else pp_rank)
    return true_exposed_s(simulation, rows)


def true_exposed_s(simulation: Simulation, rows: Rows) -> float:
    """Mean step time minus that of a rerun in which the ops in `rows` take no time. [s]"""
    whole, without = (simulation.timeline(), timeline_in_no_time(simulation, rows))
    return float((simulation.step_us(whole) - simulation.step_us(without)).mean()) / 1e6


def timeline_in_no_time(simulation: Simulation, rows: Rows) -> Timeline:
    """Run a job again with the same draws, but with the ops in `rows` taking no time."""
    busy_us, delay_us = simulation.times_us()
    busy_us[rows] = 0.0
    return simulation._events.run(busy_us, delay_us)


def by(judged: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Summarise the errors for each combination of values of some columns."""
    sized = judged.assign(size=judged.error.abs())
    columns_of = {
        "rows": ("error", "size"),
        "mean exposed [%]": ("true", "mean"),
        "bias [%]": ("error", "mean"),
        "MAE [%]": ("size", "mean"),
        "p95 [%]": ("size", lambda each: each.quantile(0.95)),
        "worst [%]": ("size", "max"),
    }
    return sized.groupby([*columns], as_index=False).agg(**columns_of)


@command(
    "tests.evaluation.exposed",
    option("--jobs N", "jobs", positive, default=200),
    option("--seed S", "seed of the first job", not_negative, required=True),
    option("--most-ops N", "ops of a job, about", positive, default=15_000),
    option("--list-worst N", "list the N largest errors", not_negative, default=5),
    option("--format FORMAT", "how to print it", choices=FORMATS, default=FORMATS[0]),
)
def main(args: Arguments) -> int:
    """Compare the reported exposed communication with reruns in which it takes no time."""
    judged: list[Row] = []
    jobs, seed = 0, args.seed
    while jobs < args.jobs:
        found = judge(seed, args.most_ops)
        judged += found
        jobs += bool(found)
        seed += 1
    rows = pd.DataFrame(judged)
    worst = rows.reindex(rows.error.abs().sort_values(ascending=False).index).head(args.list_worst)
    sections = [
        Section("Exposed communication", NOTE, by(rows, "of")),
        Section("Where sends and recvs are recorded as one call", "", by(rows, "is_batched")),
        Section("Largest errors", "", worst),
    ]
    heading = f"{jobs} generated jobs, of seeds {args.seed} to {seed - 1}."
    sys.stdout.write(rendered(heading, sections, args.format))
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
