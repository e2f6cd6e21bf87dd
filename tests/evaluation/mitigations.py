"""Evaluate predicted savings of mitigations on jobs with a fault, by reruns with the mitigation.

`python -m tests.evaluation.mitigations --seed S` prints the tables; tests.evaluation.mitigated_runs describes
the rerun. Checkpoint intervals are judged by the mean time of many random runs with the same rate of
failures. Seeds 0 to 99,999 may be used for tuning; seeds from 1,000,000 on are kept for evaluation.
"""

import re
import sys
from dataclasses import replace
from functools import cache
from typing import Any, Final

import numpy as np
import pandas as pd

from jobs.runtime.arguments import Arguments, command, not_negative, option, positive
from jobs.synthetic.job import GeneratedJob, recorded_job
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.run_events import Part, RunHabits, run_through
from jobs.synthetic.sample_faults import FAULTS, Setting, log_uniform
from jobs.synthetic.sample_job import sample_job
from jobs.synthetic.shape import JobShape
from jobs.synthetic.simulation import JobPlan, Simulation, child_rng
from schemas.mitigations import CHECKPOINTS, LAYERS
from schemas.vocabulary import JOB_SLOWDOWN, Exit, Status
from tests.evaluation.judge import Row
from tests.evaluation.mitigated_runs import CASES, RUNS, Run, step_s
from tests.evaluation.report import FORMATS, Section, rendered
from udfs.mitigations import Mitigation, mitigated
from udfs.what_if import simulate_job

NOTE: Final = (
    "The table shows savings and their errors, in per cent of the recorded step, for jobs with an answer. "
    '"Alone" means that the job has no fault of another cause.'
)
LAYERS_OF_CHUNK: Final = (4, 13)
"""Least number of layers of a chunk, and one more than the most."""
NEAR: Final = 1.0
"""Errors of at most this size count as near. [% of the step]"""
SURE: Final = 1.0
"""The sign of a saving is judged only if the true saving or loss is at least this large. [% of the step]"""


def judge(seed: int, mitigation: str, most_ops: int) -> Row | None:
    """Compare the predicted with the true saving of a mitigation; None if it does not apply to the job."""
    if mitigation == CHECKPOINTS:
        return _judge_checkpoints(seed)
    case, plan = CASES[mitigation], sample_job(seed, most_ops=most_ops)
    shape, rng = plan.shape, child_rng(seed, "mitigation")
    hosts = tuple(dict.fromkeys(plan.identity.host_of(rank) for rank in range(shape.world_size)))
    setting = Setting(shape, plan.workload, shape.steps, hosts if len(hosts) > 1 else ())
    trouble = FAULTS[case.fault](child_rng(seed, "trouble"), setting)
    if trouble is None or shape.pp_size < case.least_pp or shape.dp_size < case.least_dp:
        return None
    if case.kinds and type(trouble).__name__ not in case.kinds:
        return None
    others = [each for each in plan.mechanisms if each.cause is None or _is_apart(each, trouble)]
    plan = replace(plan, mechanisms=[trouble, *others])
    job = recorded_job(Simulation(plan))
    (unit,) = simulate_job(job.rank_steps, job.manifest)[JOB_SLOWDOWN].to_pylist()
    if unit["status"] != Status.ANALYSED:
        return None
    layers = [int(rng.integers(*LAYERS_OF_CHUNK))] * (shape.last_chunk + 1)
    found = mitigated(job.rank_steps, job.manifest, layers if mitigation == LAYERS else None)
    answer = next((each for each in found.answers if each.mitigation == mitigation), None)
    run = Run(plan, trouble, others, layers, None if answer is None else answer.plan)
    true = 1 - case.true_s(run) / step_s(plan)
    return _row(seed, mitigation, answer, true, alone=not any(each.cause for each in others))


def _row(seed: int, mitigation: str, answer: Mitigation | None, true: float, *, alone: bool) -> Row:
    saved = 0.0 if answer is None else answer.time_saved_fraction
    return {
        "seed": seed,
        "mitigation": mitigation,
        "answered": answer is not None,
        "saved": 100 * saved,
        "true": 100 * true,
        "error": 100 * (saved - true),
        "sure": abs(100 * true) >= SURE,
        "right": np.sign(saved) == np.sign(true),
        "alone": alone,
    }


def _is_apart(other: Mechanism, trouble: Mechanism) -> bool:
    """Return whether the other fault of the job has a different cause than the fault under evaluation."""
    return other.cause != trouble.cause


@cache
def _healthy() -> GeneratedJob:
    """Return a job without faults, because only its events matter for checkpoints."""
    return recorded_job(Simulation(JobPlan(JobShape(dp_size=2, steps=10), seed=1)))


def _judge_checkpoints(seed: int) -> Row:
    """Compare the mean time of random runs at the run's own checkpoint interval and at the advised one."""
    rng = child_rng(seed, "checkpoints")
    steps_s = np.full(int(rng.integers(2_000, 8_000)), log_uniform(rng, 2.0, 20.0))
    save_s, failures = log_uniform(rng, 5.0, 120.0), int(rng.integers(2, 13))
    habits = RunHabits(save_every=round(log_uniform(rng, 10, 600)), save_s=save_s, failures=failures)
    course, job = run_through(habits, steps_s, Part(0.0), rng), _healthy()
    found = mitigated(job.rank_steps, job.manifest | {"events": course.events})
    answer = next((each for each in found.answers if each.mitigation == CHECKPOINTS), None)
    true = 0.0
    if answer is not None:
        work_s = steps_s.sum() + course.spent_s["lost_work"]
        every_s = [float(each) for each in re.findall(r"(\S+) s of work instead of (\S+) s", answer.plan)[0]]
        after, now = (
            _run_s(
                replace(habits, save_every=max(1, round(each / float(steps_s[0])))),
                steps_s,
                work_s / failures,
            )
            for each in every_s
        )
        true = 1 - after / now
    return _row(seed, CHECKPOINTS, answer, true, alone=True)


def _run_s(habits: RunHabits, steps_s: np.ndarray[Any, np.dtype[np.float64]], between_s: float) -> float:
    """Mean time of RUNS random runs with a failure every `between_s` seconds of work on average. [s]"""
    steps, step_s, every = len(steps_s), float(steps_s[0]), habits.save_every
    idle_s = habits.outage_s + habits.startup_s + habits.slow_first_s
    total_s, done = np.full(RUNS, habits.startup_s + habits.slow_first_s), np.zeros(RUNS)
    rng = np.random.default_rng(steps)
    while (done < steps).any():
        fails_at = done + rng.exponential(between_s / step_s, RUNS)
        until = np.minimum(fails_at, steps)
        saves = until // every - done // every
        total_s += (until - done) * step_s + saves * habits.save_s + np.where(until < steps, idle_s, 0.0)
        done = np.where(until < steps, until // every * every, steps)
    return float(total_s.mean())


def tables(judged: pd.DataFrame) -> list[Section]:
    """Table of errors of predicted savings by mitigation, and list of the ten largest errors."""
    key = ["mitigation", "alone"]
    answered = judged.groupby(key).answered.mean().mul(100).rename("answered [%]")
    sized = judged.assign(size=judged.error.abs(), near=judged.error.abs() <= NEAR)
    sized = sized[sized.answered]
    columns = {
        "jobs": ("seed", "size"),
        "mean saved [%]": ("true", "mean"),
        "bias [%]": ("error", "mean"),
        "MAE [%]": ("size", "mean"),
        "p95 [%]": ("size", lambda each: each.quantile(0.95)),
        "within 1 % [%]": ("near", lambda each: 100 * each.mean()),
    }
    sure = sized[sized.sure].groupby(key).right.agg(["size", "mean"])
    found = sized.groupby(key).agg(**columns).join([sure, answered]).reset_index()
    found = found.rename(columns={"size": "sure", "mean": "direction right [%]"})
    found["direction right [%]"] *= 100
    worst = (
        sized.reindex(sized["size"].sort_values(ascending=False).index)
        .head(10)
        .drop(columns=["size", "near", "answered"])
    )
    return [
        Section("Mitigations", NOTE, found),
        Section("Largest errors", "", worst),
    ]


@command(
    "tests.evaluation.mitigations",
    option("--jobs N", "jobs for each mitigation", positive, default=100),
    option("--seed S", "seed of the first job", not_negative, required=True),
    option("--only NAME", "only this mitigation", choices=(*CASES, CHECKPOINTS)),
    option("--most-ops N", "ops of a job, about", positive, default=15_000),
    option("--format FORMAT", "how to print it", choices=FORMATS, default=FORMATS[0]),
)
def main(args: Arguments) -> int:
    """Evaluate the predicted savings of mitigations."""
    judged: list[Row] = []
    last = args.seed
    for mitigation in (args.only,) if args.only else (*CASES, CHECKPOINTS):
        seed, jobs = args.seed, 0
        while jobs < args.jobs:
            row = judge(seed, mitigation, args.most_ops)
            judged += [] if row is None else [row]
            jobs += row is not None
            last = max(last, seed)
            seed += 1
    heading = f"{args.jobs} generated jobs for each mitigation, of seeds {args.seed} to {last}."
    sys.stdout.write(rendered(heading, tables(pd.DataFrame(judged)), args.format))
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
