"""Evaluate the cost of mixed GPU types on generated jobs, and on the same jobs with equally fast GPUs.

`python -m tests.evaluation.gpu_types --jobs 200 --seed 5000` prints the results.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from jobs.synthetic.job import recorded_job
from jobs.synthetic.mechanisms.workers import MixedTypes
from jobs.synthetic.sample_job import sample_job
from jobs.synthetic.shape import JobShape
from jobs.synthetic.simulation import JobPlan, Simulation, true_savings
from schemas.vocabulary import GPU_TYPE_SLOWDOWN, JOB_CAUSES, JOB_SLOWDOWN, Status
from tests.support.sampled import with_gpu_types
from udfs.kernel.diagnosis.diagnose import LEAST_SAVED
from udfs.what_if import simulate_job

MIXED, SLOW = "mixed_hardware", "slow_worker"
SEED = 5000
MOST_OPS = 60_000


class Judged(NamedTuple):
    """One evaluated job: true savings, the diagnosis' answers, and the errors of these answers.

    true, found, flag : by cause: true saving as a share of T_actual, whether the cause is named, its flag
    saved_error       : error of time_saved_fraction of mixed_hardware
    are_culprits_right : whether mixed_hardware's culprits are exactly the workers on slower types
    factor_errors     : relative errors of the found slowdown factors, by slower type and direction
    """

    true: dict[str, float]
    found: dict[str, bool]
    flag: dict[str, str | None]
    saved_error: float
    are_culprits_right: bool
    factor_errors: list[float]


def jobs(count: int, seed: int) -> Iterator[JobPlan]:
    """Draw jobs on several hosts with several GPU types."""
    while count:
        plan = with_gpu_types(sample_job(seed, most_ops=MOST_OPS))
        if isinstance(plan.mechanisms[-1:] and plan.mechanisms[-1], MixedTypes):
            count -= 1
            yield plan
        seed += 1


def judge(plan: JobPlan) -> Judged | None:
    """Diagnose a job with mixed GPU types; None if it is not analysed, or has no rows by GPU type."""
    simulation = Simulation(plan)
    job = recorded_job(simulation)
    found = simulate_job(job.rank_steps, job.manifest)
    types = {row["gpu_type"]: row for row in found[GPU_TYPE_SLOWDOWN].to_pylist()}
    if not types or found[JOB_SLOWDOWN].column("status")[0].as_py() != Status.ANALYSED:
        return None
    causes = {row["cause"]: row for row in found[JOB_CAUSES].to_pylist()}
    true = true_savings(simulation).time_saved_fraction
    mixed = plan.mechanisms[-1]
    assert isinstance(mixed, MixedTypes)
    return Judged(
        {name: true[name] for name in (MIXED, SLOW)},
        {name: causes[name]["is_cause"] for name in (MIXED, SLOW)},
        {name: causes[name]["flag_reason"] for name in (MIXED, SLOW)},
        causes[MIXED]["time_saved_fraction"] - true[MIXED],
        _cells(causes[MIXED], plan.shape) == mixed.slow_cells(simulation.place).keys(),
        _factor_errors(types, mixed),
    )


def _cells(row: dict[str, Any], shape: JobShape) -> set[tuple[int, int]]:
    """Workers, as (dp_rank, pp_rank), that the culprits in a row of job_causes include."""
    return {
        (dp_rank, pp_rank)
        for dp_rank, pp_rank in shape.cells
        for each in row["culprits"]
        if each["dp_rank"] in (None, dp_rank) and each["pp_rank"] in (None, pp_rank)
    }


def _factor_errors(types: dict[str, dict[str, Any]], mixed: MixedTypes) -> list[float]:
    names = ("forward_factor", "backward_factor")
    best = [min(mixed.factors[name][k] for name in types if name in mixed.factors) for k in (0, 1)]
    return [
        row[each] / (mixed.factors[name][k] / best[k]) - 1.0
        for name, row in types.items()
        for k, each in enumerate(names)
        if row["is_slower"]
    ]


def alike(plan: JobPlan) -> JobPlan:
    """Return the same job with the same names of GPU types, but with all types equally fast."""
    *others, mixed = plan.mechanisms
    assert isinstance(mixed, MixedTypes)
    equal = MixedTypes(mixed.types, dict.fromkeys(mixed.factors, (1.0, 1.0)))
    return replace(plan, mechanisms=(*others, equal))


def report(count: int, seed: int) -> str:
    """Evaluate generated jobs twice, as drawn and with all GPU types equally fast, and format the results."""
    plans = list(jobs(count, seed))
    unlike = [judged for plan in plans if (judged := judge(plan)) is not None]
    equal = [judged for plan in plans if (judged := judge(alike(plan))) is not None]
    lines = [
        f"{count} jobs from seed {seed}",
        *_lines("unlike types", unlike),
        *_lines("types all alike", equal),
    ]
    return "\n".join(lines)


def _lines(what: str, found: Sequence[Judged]) -> Iterator[str]:
    yield f"{what}: {len(found)} jobs analysed"
    for cause in (MIXED, SLOW):
        for flagged in (False, True):
            some = [each for each in found if (each.flag[cause] is not None) == flagged]
            counts = Counter((each.true[cause] >= LEAST_SAVED, each.found[cause]) for each in some)
            yield (
                f"  {cause}, {'flagged' if flagged else 'not flagged'}: right {counts[True, True]}, missed "
                f"{counts[True, False]}, wrong {counts[False, True]}, rightly not {counts[False, False]}"
            )
    trusted = [each for each in found if each.flag[MIXED] is None]
    yield _errors("time_saved_fraction of mixed_hardware", [each.saved_error for each in trusted])
    named = [each.are_culprits_right for each in trusted if each.found[MIXED]]
    yield f"  culprits of mixed_hardware: right in {sum(named)} of {len(named)} jobs"
    yield _errors("type factors (relative)", [error for each in trusted for error in each.factor_errors])


def _errors(what: str, errors: Sequence[float]) -> str:
    if not errors:
        return f"  error of {what}: none"
    median, p90, worst = np.quantile(np.abs(errors), [0.5, 0.9, 1.0])
    return (
        f"  error of {what}, {len(errors)} not flagged: median {median:.4f}, p90 {p90:.4f}, worst {worst:.4f}"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Print the evaluation of GPU types."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=SEED)
    args = parser.parse_args(argv)
    print(report(args.jobs, args.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
