"""Evaluate how often intervals of savings contain the truth, if a tenth of a day's steps is logged.

`python -m tests.evaluation.coverage --seed S` prints the tables. Each job has one fault, of any size and
window, and the nuisances of sampled jobs. The log has every tenth step, steps drawn at random, or bursts of
five steps. The true saving comes from a rerun of all steps of the day without the fault. A job counts only if
the diagnosis names its fault. Seeds 0 to 99,999 may be used for tuning; seeds from 1,000,000 on are kept for
evaluation.
"""

import sys
from functools import partial
from typing import Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jobs.runtime.arguments import Arguments, command, not_negative, option, positive
from jobs.synthetic.job import recorded_job
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.mechanisms.workers import SickHost
from jobs.synthetic.sample_faults import FAULTS, Setting, nuisances
from jobs.synthetic.sample_job import own_hosts, sample_workload
from jobs.synthetic.shape import JobIdentity, JobShape
from jobs.synthetic.simulation import BURST, JobPlan, Simulation, child_rng
from schemas.intervals import STUDENT
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN, Exit, Status
from tests.evaluation.judge import Row
from tests.evaluation.report import FORMATS, Section, drawn, percent, rendered
from udfs.what_if import simulate_job

CLASSES: Final = {
    "worker": "slow_worker",
    "host": "slow_worker",
    "stage": "stage_imbalance",
    "pause": "pause",
    "data": "data_imbalance",
    "link": "communication",
}
"""Classes of faults, and the cause of each."""
DAY: Final = 200
"""Number of steps in a day of a job."""
TOGETHER: Final = 10
"""Number of jobs whose savings are added to one sum."""
ROUNDS: Final = 100
"""Number of sums that each job is drawn into; many sums of the same jobs give a steadier estimate than
one."""
DESIGNS: Final = ("even", "random", "bursts")


def judge(of: str, seed: int, part: int) -> Row | None:
    """Judge the interval of a job with a fault of class `of`; None if the job's cause is not named."""
    rng = child_rng(seed, of)
    shape = _shape(rng)
    setting = Setting(shape, sample_workload(seed, shape), DAY, own_hosts(shape, JobIdentity()))
    fault = _fault(of, rng, setting)
    if fault is None:
        return None
    plan = JobPlan(shape, (fault, *nuisances(rng, setting)), seed, workload=setting.workload)
    simulation = Simulation(plan)
    with_s, without_s = (simulation.step_us(simulation.timeline(each)).sum() for each in ((), {0}))
    job, design = recorded_job(simulation), DESIGNS[seed % len(DESIGNS)]
    steps = np.searchsorted(plan.step_numbers, np.asarray(job.rank_steps["step"]))
    rows = job.rank_steps.set_column(0, "step", pa.array(steps))
    rows = rows.filter(pc.is_in(rows["step"], pa.array(_logged(design, rng, part))))
    facts = job.manifest | {"gpu_hours": with_s * 1e-6 * shape.world_size / 3600}
    found = simulate_job(rows, facts)
    causes = {row["cause"]: row for row in found[JOB_CAUSES].to_pylist()}
    row = causes.get(CLASSES[of], {"is_cause": False})
    if found[JOB_SLOWDOWN]["status"][0].as_py() != Status.ANALYSED or not row["is_cause"]:
        return None
    true, low, high = 1 - without_s / with_s, row["time_saved_fraction_low"], row["time_saved_fraction_high"]
    return {
        "class": of,
        "seed": seed,
        "design": design,
        "is_flagged": row["flag_reason"] is not None,
        "true": 100 * true,
        "saved": 100 * row["time_saved_fraction"],
        "width": 100 * (high - low),
        "shared": 100 * row["diagnosis_error_fraction"],
        "freedom": row["interval_freedom"] or np.inf,
        "inside": bool(low <= true <= high),
        "below": bool(true < low),
        "above": bool(true > high),
    }


def _shape(rng: np.random.Generator) -> JobShape:
    dp_size, pp_size = int(rng.choice([2, 3, 4])), int(rng.choice([2, 3, 4]))
    tp_size = int(rng.choice([2, 4, 8]))
    return JobShape(dp_size, pp_size, microbatches=int(rng.integers(2, 7)), steps=DAY, tp_size=tp_size)


def _fault(of: str, rng: np.random.Generator, setting: Setting) -> Mechanism | None:
    """Draw a fault of class `of`; None if the layout allows none, or if the draw belongs to another class."""
    fault = FAULTS[CLASSES[of]](rng, setting)
    is_wanted = isinstance(fault, SickHost) == (of == "host")
    return fault if is_wanted else None


def _logged(design: str, rng: np.random.Generator, part: int) -> list[int]:
    """Return the step numbers that a profiler logs in a day."""
    if design == "random":
        return sorted(rng.choice(DAY, DAY // part, replace=False).tolist())
    length = 1 if design == "even" else BURST
    first = int(rng.integers(part * length))
    return [step for step in range(DAY) if (step - first) % (part * length) < length]


def tables(judged: pd.DataFrame) -> list[Section]:
    """Tables of how often intervals contain the true saving: by class, by design of the log, and for sums."""
    columns = {
        "jobs": ("seed", "size"),
        "inside [%]": ("inside", percent),
        "too high [%]": ("below", percent),
        "too low [%]": ("above", percent),
        "flagged [%]": ("is_flagged", percent),
        "saved [%]": ("saved", "mean"),
        "width [%]": ("width", "median"),
    }
    note = (
        '"Inside" means that the interval contains the truth. "Saved" is the mean saving, and "width" the '
        "median width of the intervals, both in per cent of the step."
    )
    return [
        Section("By class of fault", note, judged.groupby("class", as_index=False).agg(**columns)),
        Section(
            "By class and what is logged",
            "",
            judged.groupby(["class", "design"], as_index=False).agg(**columns),
        ),
        Section(
            "Sums",
            f"Each sum is of {TOGETHER} jobs, whose errors are taken as independent; each job is drawn into "
            f"{ROUNDS} sums.",
            _summed(sums(judged), "class"),
        ),
        Section(
            "Sums by what is logged",
            "Each sum is of jobs of one class and one design.",
            _summed(
                pd.concat(sums(rows).assign(design=of) for of, rows in judged.groupby("design")), "design"
            ),
        ),
    ]


def sums(judged: pd.DataFrame) -> pd.DataFrame:
    """Sum the savings and intervals of randomly chosen jobs of one class; one row per sum."""
    few, shared = 1 / judged["freedom"], judged["shared"] ** 2
    variance = ((judged["width"] / 2) ** 2 - shared).clip(lower=0.0) / student_squared(few)
    parts = judged.assign(shared=shared, variance=variance, fourth=variance**2 * few)
    summed = ["true", "saved", "shared", "variance", "fourth"]
    found = pd.concat(
        pd.DataFrame(rows[summed].to_numpy()[_groups(len(rows))].sum(axis=1), columns=summed).assign(of=of)
        for of, rows in parts.groupby("class")
    )
    few = (found["fourth"] / found["variance"] ** 2).fillna(0.0)
    half = (found["variance"] * student_squared(few) + found["shared"]) ** 0.5
    inside = (found["saved"] - found["true"]).abs() <= half
    return found.assign(half=half, inside=inside).rename(columns={"of": "class"})


def _groups(jobs: int) -> NDArray[np.int64]:
    """Divide the jobs at random into sums of TOGETHER jobs, ROUNDS times; shape (sum, TOGETHER)."""
    rng, whole = np.random.default_rng(jobs), jobs // TOGETHER * TOGETHER
    rounds = [rng.permutation(jobs)[:whole].reshape(-1, TOGETHER) for _ in range(ROUNDS)]
    return np.concatenate(rounds)


def student_squared(few: pd.Series) -> pd.Series:
    """Square of Student's 95 % quantile for 1 / few degrees of freedom, by the formula that the SQL uses."""
    a, b, c, d = STUDENT
    return a + b * few / (1 - c * few + d * few**2)


def _summed(found: pd.DataFrame, by: str) -> pd.DataFrame:
    return found.groupby(by, as_index=False).agg(
        sums=("inside", "size"), **{"inside [%]": ("inside", percent)}
    )


@command(
    "tests.evaluation.coverage",
    option("--jobs N", "jobs of each class", positive, default=100),
    option("--seed S", "seed of the first job", not_negative, required=True),
    option("--part N", "one step in N is logged", positive, default=10),
    option("--classes NAMES", "only these classes, separated by commas", default=",".join(CLASSES)),
    option("--format FORMAT", "how to print it", choices=FORMATS, default=FORMATS[0]),
)
def main(args: Arguments) -> int:
    """Evaluate how often intervals of predicted savings contain the true savings."""
    found = [
        drawn(partial(judge, of, part=args.part), args.seed, args.jobs) for of in args.classes.split(",")
    ]
    last = max(seed for _, seed in found)
    heading = f"{args.jobs} jobs a class of seeds {args.seed} to {last}; one step of {args.part} is logged."
    sys.stdout.write(rendered(heading, tables(pd.concat([rows for rows, _ in found])), args.format))
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
