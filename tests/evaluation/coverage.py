"""Evaluate intervals of savings: days of which a tenth of the steps is logged, beside the truth of all of them.

`python -m tests.evaluation.coverage --seed S` prints the tables. Each job has one fault, of any size and window,
and the nuisances of sampled jobs. Its log has every tenth step, steps drawn at random, or bursts of five;
the truth is the whole day run once more without the fault. Seeds 0 to 99,999 are for tuning, those from
1,000,000 on are kept for evaluation.
"""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.synthetic.job import recorded_job
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.mechanisms.workers import SickHost
from jobs.synthetic.sample_faults import FAULTS, Setting, nuisances
from jobs.synthetic.sample_job import own_hosts, sample_workload
from jobs.synthetic.shape import JobIdentity, JobShape
from jobs.synthetic.simulation import BURST, JobPlan, Simulation, child_rng
from schemas.vocabulary import JOB_CAUSES, JOB_SLOWDOWN, Status
from tests.evaluation.judge import Row
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
"""Steps of a day."""
PART: Final = 10
"""One step of so many is logged."""
DESIGNS: Final = ("even", "random", "bursts")


def judge(of: str, seed: int, part: int) -> Row | None:
    """Judge the interval of a job with a fault of this class; None where it is not analysed, or not named."""
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
        "inside": bool(low <= true <= high),
        "below": bool(true < low),
        "above": bool(true > high),
    }


def _shape(rng: np.random.Generator) -> JobShape:
    dp_size, pp_size = int(rng.choice([2, 3, 4])), int(rng.choice([2, 3, 4]))
    tp_size = int(rng.choice([2, 4, 8]))
    return JobShape(dp_size, pp_size, microbatches=int(rng.integers(2, 7)), steps=DAY, tp_size=tp_size)


def _fault(of: str, rng: np.random.Generator, setting: Setting) -> Mechanism | None:
    """Draw a fault of a class; None where the layout has none, or another one of its cause was drawn."""
    fault = FAULTS[CLASSES[of]](rng, setting)
    is_wanted = isinstance(fault, SickHost) == (of == "host")
    return fault if is_wanted else None


def _logged(design: str, rng: np.random.Generator, part: int) -> list[int]:
    """Numbers of the steps that a profiler logs of a day."""
    if design == "random":
        return sorted(rng.choice(DAY, DAY // part, replace=False).tolist())
    length = 1 if design == "even" else BURST
    first = int(rng.integers(part * length))
    return [step for step in range(DAY) if (step - first) % (part * length) < length]
