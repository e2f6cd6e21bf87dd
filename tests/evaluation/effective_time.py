"""Evaluate the split of GPU-hours on generated runs, which start, save checkpoints, fail and continue.

`python -m tests.evaluation.effective_time --seed S` prints the tables. Only some steps of a run are recorded,
in bursts, so that errors include the sampling error. Seeds 0 to 99,999 may be used for tuning; seeds from
1,000,000 on are kept for evaluation.
"""

import sys
from dataclasses import replace
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from jobs.runtime.arguments import Arguments, command, not_negative, option, positive
from jobs.synthetic.job import recorded_job
from jobs.synthetic.run_events import Part, RunHabits, run_through
from jobs.synthetic.sample_job import sample_job
from jobs.synthetic.simulation import BURST, JobPlan, Simulation, child_rng
from schemas.vocabulary import FIXABLE_CAUSES, JOB_SLOWDOWN, JOB_TIME, Exit, RunEvent, Status
from tests.evaluation.judge import Row
from tests.evaluation.report import FORMATS, Section, rendered
from udfs.errors import TraceError
from udfs.kernel.arrays import Floats
from udfs.what_if import simulate_job

BURSTS_APART: Final = 8
"""Of each group of this number of bursts of steps, one burst is recorded."""
PARTS: Final = (
    "productive",
    "straggling",
    "late_start",
    "lost_work",
    "outage",
    "startup",
    "checkpoint",
    "evaluation",
    "unknown",
)
FIXED: Final = "ettr less lost to causes"
"""A second estimate of the productive share of GPU-hours: ETTR minus the hours lost to the causes found. The
first estimate uses the paper's ideal instead."""
_WORST: Final = ("failures", "silent", "steps", "true_ettr", "error_ettr", "error_unknown")


def draw_habits(rng: np.random.Generator, steps: int, step_s: float) -> RunHabits:
    """Draw how often and how long a run of `steps` steps of `step_s` seconds starts, saves and fails."""
    whole_s = steps * step_s
    return RunHabits(
        startup_s=whole_s * rng.uniform(0.005, 0.05),
        save_every=int(steps * rng.uniform(0.05, 0.3)) + 1,
        save_s=whole_s * rng.uniform(0.001, 0.01),
        mark_every=max(1, steps // 20),
        failures=int(rng.integers(0, 4)),
        silent=0.25,
        outage_s=whole_s * rng.uniform(0.005, 0.05),
        slow_first_s=step_s * rng.uniform(0, 5),
        evaluate_every=int(rng.choice([0, steps // 4])),
        evaluate_s=whole_s * rng.uniform(0, 0.01),
    )


def judge(seed: int, most_ops: int = 10_000) -> Row:
    """Draw a run; return its status, and for each part of its GPU-hours the true share and the error."""
    drawn = sample_job(seed, days=BURSTS_APART, most_ops=most_ops)
    steps = drawn.shape.steps * BURSTS_APART
    simulation = Simulation(replace(drawn, shape=replace(drawn.shape, steps=steps)))
    step_s = simulation.step_us(simulation.timeline()) / 1e6
    rng = child_rng(seed, "events")
    habits = draw_habits(rng, steps, float(step_s.mean()))
    # This draw has its own generator, so that naming evaluations changes nothing else in a run.
    is_named = bool(child_rng(seed, "evaluations").integers(0, 2))
    habits = replace(habits, names_evaluations=is_named)
    course = run_through(habits, step_s, Part(simulation.plan.identity.first_t0_us / 1e6), rng)
    true_s = course.spent_s | _split(simulation, step_s)
    true_s["unknown"] = true_s.pop("other")
    whole_s = course.now_s - course.part.begin_s
    job = recorded_job(simulation)
    gpus = drawn.shape.world_size
    facts = {"gpu_hours": whole_s * gpus / 3600, "events": course.events}
    try:
        tables = simulate_job(_sampled(job.rank_steps, simulation.plan), job.manifest | facts)
    except TraceError:
        return {"seed": seed, "status": "corrupt_trace"}
    (status,) = tables[JOB_SLOWDOWN]["status"].to_pylist()
    noted = sum(event["event"] == RunEvent.FAILURE for event in course.events)
    found = {"seed": seed, "status": status, "failures": habits.failures, "steps": steps}
    found["silent"] = habits.failures - noted
    for row in tables[JOB_TIME].to_pylist():
        hours = {name: row[f"{name}_gpu_hours"] / row["scheduled_gpu_hours"] for name in PARTS}
        shares = {name: true_s[name] / whole_s for name in PARTS}
        found |= {f"true_{name}": share for name, share in shares.items()}
        found |= {f"error_{name}": hours[name] - share for name, share in shares.items()}
        found |= {"true_ettr": float(step_s.sum()) / whole_s, "contradictions": row["contradictions"]}
        found["error_ettr"] = row["ettr"] - found["true_ettr"]
        left = row["ettr"] - row["lost_to_causes_gpu_hours"] / row["scheduled_gpu_hours"]
        found |= {f"true_{FIXED}": shares["productive"], f"error_{FIXED}": left - shares["productive"]}
    return found


def _split(simulation: Simulation, step_s: Floats) -> dict[str, float]:
    """Return the time of all steps without causes, and the times that stragglers and late starts add. [s]"""
    late = simulation.places_of({"launch_delay"})
    causes = simulation.places_of(FIXABLE_CAUSES)
    fixed_s, punctual_s = (
        float(simulation.step_us(simulation.timeline(without, is_launch_free=True)).sum()) / 1e6
        for without in (causes, late)
    )
    whole_s = float(step_s.sum())
    return {
        "productive": fixed_s,
        "straggling": punctual_s - fixed_s,
        "late_start": whole_s - punctual_s,
    }


def _sampled(rank_steps: pa.Table, plan: JobPlan) -> pa.Table:
    """Return the rows of every BURSTS_APART-th burst of steps, as only these are recorded."""
    numbers = [number for step, number in enumerate(plan.step_numbers) if step // BURST % BURSTS_APART == 0]
    return rank_steps.filter(pc.is_in(rank_steps["step"], pa.array(numbers, pa.int64())))


def by_part(judged: pd.DataFrame) -> pd.DataFrame:
    """Return one row for ETTR and for each part of the GPU-hours, with its true share and its errors."""
    rows = []
    for name in ("ettr", *PARTS, FIXED):
        error = 100 * judged[f"error_{name}"]
        rows.append(
            {
                "part": name,
                "true share [%]": 100 * judged[f"true_{name}"].mean(),
                "mean error [%]": error.mean(),
                "MAE [%]": error.abs().mean(),
                "p95 [%]": error.abs().quantile(0.95),
                "lowest [%]": error.min(),
                "highest [%]": error.max(),
            }
        )
    return pd.DataFrame(rows)


@command(
    "tests.evaluation.effective_time",
    option("--jobs N", "runs", positive, default=200),
    option("--seed S", "seed of the first run", not_negative, required=True),
    option("--most-ops N", "recorded ops of a run, about", positive, default=10_000),
    option("--format FORMAT", "how to print it", choices=FORMATS, default=FORMATS[0]),
)
def main(args: Arguments) -> int:
    """Evaluate the reported split of GPU-hours, and ETTR."""
    judged = pd.DataFrame([judge(seed, args.most_ops) for seed in range(args.seed, args.seed + args.jobs)])
    statuses = judged.groupby("status", as_index=False).agg(runs=("seed", "size"))
    analysed = judged[judged.status == Status.ANALYSED]
    sections = [
        Section("Statuses", "", statuses),
        Section("Analysed runs", "Errors are in shares of the run's GPU-hours.", by_part(analysed)),
        Section("Those with all failures in their events", "", by_part(analysed[analysed.silent == 0])),
        Section("Worst ETTR", "", analysed.sort_values("error_ettr").head(3)[["seed", *_WORST]]),
    ]
    heading = f"{len(judged)} generated runs of seeds {args.seed} to {args.seed + args.jobs - 1}."
    sys.stdout.write(rendered(heading, sections, args.format))
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
