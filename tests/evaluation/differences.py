"""Evaluate `straggler diff` on pairs of equal runs, and on pairs in which one run has an additional fault.

`python -m tests.evaluation.differences --seed S` prints the tables. Two equal runs have the same plan and
different random draws. In the other pairs, one run has an additional fault; the true difference is the cost
of that fault, from a rerun of the slower run without the fault. Seeds 0 to 99,999 may be used for tuning;
seeds from 1,000,000 on are kept for evaluation.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Final

import pandas as pd

from jobs.reading.difference import CONFIDENCE, FASTER, NOTHING_LOST, OF_CAUSE, SLOWER, Found, Part, find
from jobs.reading.side import Side
from jobs.reading.sides import day_of
from jobs.runtime.arguments import Arguments, command, not_negative, option, positive, probability
from jobs.synthetic.job import recorded_job
from jobs.synthetic.mechanisms.mechanism import Mechanism
from jobs.synthetic.mechanisms.nuisances import UnlikeGpus
from jobs.synthetic.sample_job import sample_job
from jobs.synthetic.simulation import JobPlan, Simulation
from schemas.unit import Unit
from schemas.vocabulary import JOB_SLOWDOWN, Exit, Status
from tests.evaluation.judge import Row
from tests.evaluation.report import FORMATS, Section, drawn, percent, rendered
from udfs.two_runs import ReadRun, divided, read_run
from udfs.what_if import SimulationSettings, simulate_job

OTHER_DRAWS: Final = 2**40
"""Number added to a job's seed to get the seed of the second run of the same plan."""
SETTINGS: Final = SimulationSettings()
LEAST_PERCENT: Final = (0.0, 1.0, 3.0, 10.0)
"""Lower bounds of the classes of pairs by true difference [% of the step time of the first run, A]."""
FAIL_ABOVE: Final = 0.03
SUMS: Final = 1e-9
SIZES: Final = (
    "Sizes of the reported differences are in per cent of the step of the first run (A). "
    '"Other GPUs" are those of pairs in which each worker has a speed of its own, drawn again for each run.'
)


def equal(seed: int, most_ops: int, confidence: float) -> Row | None:
    """Compare two runs of the same plan; None if either is not analysed."""
    plan = sample_job(seed, most_ops=most_ops)
    found = _compared(plan, replace(plan, seed=seed + OTHER_DRAWS), confidence)
    if found is None:
        return None
    named = [part for part in found.parts if part.of == OF_CAUSE and part.verdict in (SLOWER, FASTER)]
    return {
        "seed": seed,
        "faults": ", ".join(plan.causes) or "none",
        "relative": 100 * found.relative,
        "other GPUs": any(isinstance(each, UnlikeGpus) for each in plan.mechanisms),
        "verdict": found.verdict,
        "differs": found.verdict in (SLOWER, FASTER),
        "fails": found.exceeds(FAIL_ABOVE),
        "causes": ", ".join(part.part for part in named if part.part != NOTHING_LOST),
    }


def slower(seed: int, most_ops: int, confidence: float) -> Row | None:
    """Compare two runs of a plan, one with its first fault; None if it has none, or a run is not analysed."""
    plan = sample_job(seed, most_ops=most_ops)
    faults = [each for each in plan.mechanisms if each.cause is not None]
    if not faults:
        return None
    nuisances = [each for each in plan.mechanisms if each.cause is None]
    with_fault = replace(plan, mechanisms=(faults[0], *nuisances), seed=seed + OTHER_DRAWS)
    undone = faults[0].without()
    without = [*nuisances] if undone is None else [undone, *nuisances]
    found = _compared(replace(plan, mechanisms=without), with_fault, confidence)
    if found is None:
        return None
    true = 100 * _true(with_fault)
    causes = [part for part in found.parts if part.of == OF_CAUSE]
    return {
        "seed": seed,
        "fault": type(faults[0]).__name__,
        "class": max(each for each in LEAST_PERCENT if true >= each or each == LEAST_PERCENT[0]),
        "true": true,
        "relative": 100 * found.relative,
        "error": abs(100 * found.relative - true),
        "slower": found.verdict == SLOWER,
        "faster": found.verdict == FASTER,
        "cause": _largest(causes) == faults[0].cause,
        "in ops": _of_ops(found, faults[0]),
    }


def _true(plan: JobPlan) -> float:
    """True slowdown by the first fault, as a fraction of the run's step time without that fault."""
    simulation = Simulation(plan)
    with_it, without = (simulation.step_us(simulation.timeline(each)).mean() for each in ((), {0}))
    return float(with_it / without) - 1


def _compared(a: JobPlan, b: JobPlan, confidence: float) -> Found | None:
    sides: list[Side] = []
    read: list[list[ReadRun]] = []
    for name, plan in (("a", a), ("b", b)):
        job = recorded_job(Simulation(plan))
        results = {
            table: rows.to_pylist(maps_as_pydicts="strict")
            for table, rows in simulate_job(job.rank_steps, job.manifest, SETTINGS).items()
        }
        if results[JOB_SLOWDOWN][0]["status"] != Status.ANALYSED:
            return None
        day = day_of(Unit(date.min, "generated", name), results, job.manifest)
        sides.append(Side(name, [day]))
        read.append([read_run(job.rank_steps, job.manifest, SETTINGS)])
    found = find(sides[0], sides[1], confidence, divided(*read))
    for kind in {part.of for part in found.parts}:
        total = sum(part.difference_s for part in found.parts if part.of == kind)
        if abs(total - found.difference_s) > SUMS * found.a.step_s:
            raise AssertionError(f"{kind}: parts add up to {total}, not to {found.difference_s}")
    return found


def _largest(parts: Sequence[Part]) -> str:
    return max(parts, key=lambda part: part.difference_s).part


def _of_ops(found: Found, fault: Mechanism) -> bool | None:
    """Return whether the fault's stage has the largest time difference; None if the fault has no stage."""
    stage = None if fault.cause == "communication" else getattr(fault, "pp_rank", None)
    stages = [part for part in found.parts if part.of == "stage"]
    return None if stage is None or not stages else _largest(stages) == f"stage {stage}"


def _tables(pairs: pd.DataFrame, faulty: pd.DataFrame) -> list[Section]:
    sized = pairs.assign(size=pairs.relative.abs(), named=pairs.causes != "", same=~pairs.differs)
    of_equal = {
        "pairs": ("seed", "size"),
        "differ by nothing [%]": ("same", percent),
        "--fail-above 3% [%]": ("fails", percent),
        "a cause differs [%]": ("named", percent),
        "median size [%]": ("size", "median"),
        "p95 size [%]": ("size", lambda each: each.quantile(0.95)),
    }
    columns = {
        "pairs": ("seed", "size"),
        "slower [%]": ("slower", percent),
        "faster [%]": ("faster", percent),
        "largest cause right [%]": ("cause", percent),
        "of places": ("in ops", "count"),
        "stage right [%]": ("in ops", percent),
        "median error [%]": ("error", "median"),
        "p95 error [%]": ("error", lambda each: each.quantile(0.95)),
    }
    by_class = faulty.groupby("class", as_index=False).agg(**columns)
    return [
        Section("Equal runs", SIZES, sized.groupby("other GPUs", as_index=False).agg(**of_equal)),
        Section(
            "A fault more, by its true cost",
            'The column "class" has the least cost of a fault, in per cent of the step of the first run (A).',
            by_class,
        ),
        Section("Equal runs that differ", "", pairs[pairs.differs]),
    ]


@command(
    "tests.evaluation.differences",
    option(
        "--pairs N", "pairs of equal runs, and the same number with a fault in one run", positive, default=200
    ),
    option("--seed S", "seed of the first pair", not_negative, required=True),
    option("--most-ops N", "ops of a job, about", positive, default=15_000),
    option("--confidence P", "of the interval", probability, default=CONFIDENCE),
    option("--format FORMAT", "how to print it", choices=FORMATS, default=FORMATS[0]),
)
def main(args: Arguments) -> int:
    """Evaluate comparisons of two runs by `straggler diff`."""
    how = {"most_ops": args.most_ops, "confidence": args.confidence}
    tables, last = zip(
        *(drawn(partial(judge, **how), args.seed, args.pairs) for judge in (equal, slower)), strict=True
    )
    heading = (
        f"{args.pairs} pairs of equal runs and as many with a fault, of seeds {args.seed} to {max(last)}."
    )
    sys.stdout.write(rendered(heading, _tables(*tables), args.format))
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
