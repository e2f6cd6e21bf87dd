"""Evaluate the diagnosis on generated jobs with known truth, and on faults injected into published traces.

Seeds 0 to 99,999 are for tuning. Seeds from 1,000,000 on are kept for evaluation: whoever changes the
diagnosis never looks at single jobs of theirs.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, TypeVar

import pandas as pd
from rich.progress import track

from jobs.cli import Parser
from jobs.evaluation import score
from jobs.evaluation.classes import CLASSES
from jobs.evaluation.diagnosis import Diagnose, NoDiagnosisError
from jobs.evaluation.indicators import beside
from jobs.evaluation.listing import worst, wrong_labels
from jobs.evaluation.report import FORMATS, Section, rendered
from jobs.evaluation.sample import USUAL, VARIANTS, JudgedJob, Variant, healthy_seeds, judge_job, tables
from jobs.synthetic.simulation import LABELS
from schemas.vocabulary import EXIT_DONE, EXIT_FAILED
from udfs.what_if import simulate_job

LAST_FOR_TUNING: Final = 99_999
FIRST_KEPT: Final = 1_000_000
"""Seeds from here on are kept for evaluation."""

T = TypeVar("T")


@dataclass(frozen=True)
class Wanted:
    """What to evaluate.

    jobs, seed  : so many jobs, of the seeds from `seed` on
    healthy     : more jobs, of the seeds after those, all drawn without a fault
    sensitivity : so many of the jobs again under other conditions
    """

    jobs: int
    seed: int
    healthy: int
    sensitivity: int
    most_ops: int


@dataclass(frozen=True)
class Evaluated:
    """Answers beside their truth: of the jobs, of the healthy ones, and of the jobs by other conditions."""

    answers: pd.DataFrame
    healthy: pd.DataFrame
    variants: dict[str, pd.DataFrame]
    last_seed: int


def evaluate(wanted: Wanted, workers: int = 1, diagnose: Diagnose = simulate_job) -> Evaluated:
    """Judge generated jobs; the same seeds give the same scores, whatever the number of processes.

    raises : NoDiagnosisError where the simulation gives no causes.
    """
    seeds = range(wanted.seed, wanted.seed + wanted.jobs)
    healthy = healthy_seeds(seeds.stop, wanted.healthy)
    again = [(seed, variant) for variant in VARIANTS for seed in seeds[: wanted.sensitivity]]
    tasks = [(seed, USUAL) for seed in (*seeds, *healthy)] + again
    judge = partial(_judge, diagnose=diagnose, most_ops=wanted.most_ops)
    with _done(judge, tasks, workers) as judged:
        found = list(track(judged, "jobs", len(tasks), disable=not sys.stdout.isatty(), transient=True))
    ours, rest = found[: wanted.jobs], found[wanted.jobs :]
    varied = rest[len(healthy) :]
    return Evaluated(
        answers=tables(ours)[1],
        healthy=tables(rest[: len(healthy)])[1] if healthy else pd.DataFrame(),
        variants={
            variant.name: tables([job for job in varied if job.variant == variant.name])[1]
            for variant in VARIANTS
            if varied
        },
        last_seed=max([*seeds, *healthy]),
    )


def sections(found: Evaluated, classes: Sequence[str], cause: str | None = None) -> list[Section]:
    """Tables of an evaluation; of one cause alone where it is named."""
    answers = found.answers if cause is None else found.answers[found.answers.cause == cause]
    chosen = {name: CLASSES[name] for name in classes}
    first = answers[answers.seed < answers.seed.min() + _seeds_of(found)]
    made = [
        Section(
            "Classes of layouts",
            "Errors of the saved fraction over all causes and jobs of a class; labels at 2.5 % saved.",
            score.by_class(answers, chosen),
        ),
        Section("Causes", "", score.by_cause(answers, chosen)),
        Section(
            "Slow workers located",
            "Of jobs whose slow worker costs at least 2.5 %: is the cell named worst the slow one?",
            score.located(found.answers, chosen),
        ),
        Section("Calibration", "Rows are causes of jobs.", score.calibration(answers)),
        Section(
            "The paper's indicators as labels",
            "Each only where the job straggles (slowdown from 1.1 on).",
            beside(found.answers),
        ),
    ]
    if not found.healthy.empty:
        note = "Jobs drawn without a fault, extra ones."
        made.insert(2, Section("Labels on healthy jobs", note, score.healthy_labels(found.healthy)))
    if found.variants:
        compared = score.sensitivity(first, found.variants, ("dp4pp2", "dp2pp2", "detectable"))
        made.append(Section("Sensitivity", "The same jobs under other conditions.", compared))
    return made


def _seeds_of(found: Evaluated) -> int:
    return max((frame.seed.nunique() for frame in found.variants.values()), default=0)


def _judge(task: tuple[int, Variant], diagnose: Diagnose, most_ops: int) -> JudgedJob:
    seed, variant = task
    return judge_job(seed, variant, diagnose, most_ops)


@contextmanager
def _done(work: Callable[[Any], T], tasks: Sequence[Any], workers: int) -> Iterator[Iterator[T]]:
    """Results in the order of the tasks, by this process or by others."""
    if workers == 1:
        yield map(work, tasks)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield pool.map(work, tasks, chunksize=4)


def main(argv: Sequence[str] | None = None, diagnose: Diagnose = simulate_job) -> int:
    """Print the evaluation; returns the exit status."""
    args = _parser().parse_args(argv)
    wanted = Wanted(args.jobs, args.seed, args.healthy, min(args.sensitivity, args.jobs), args.most_ops)
    classes = args.classes or list(CLASSES)
    try:
        found = evaluate(wanted, args.workers, diagnose)
    except NoDiagnosisError as error:
        sys.stderr.write(f"evaluate_diagnosis: error: {error}\n")
        return EXIT_FAILED
    made = sections(found, classes, args.only_cause)
    made += _lists(found, classes, args)
    sys.stdout.write(rendered(_heading(wanted, found), made, args.format))
    return EXIT_DONE


def _lists(found: Evaluated, classes: Sequence[str], args: argparse.Namespace) -> list[Section]:
    rows = pd.concat([found.answers, found.healthy])
    inside = pd.concat([CLASSES[name].holds(rows) for name in classes], axis=1).any(axis=1)
    rows = rows[inside & (True if args.only_cause is None else rows.cause == args.only_cause)]
    made = []
    if args.list_wrong:
        made.append(Section("Wrong labels", "Worst errors first.", wrong_labels(rows)))
    if args.list_worst:
        made.append(Section("Largest errors", "", worst(rows, args.list_worst)))
    return made


def _heading(wanted: Wanted, found: Evaluated) -> str:
    """Which seeds were used, and what they are for."""
    last = wanted.seed + wanted.jobs - 1
    used = f"{wanted.jobs} generated jobs of seeds {wanted.seed} to {last}"
    if wanted.healthy:
        used += f"; {wanted.healthy} healthy jobs of seeds {last + 1} to {found.last_seed}"
    purpose = "neither for tuning alone nor for evaluation alone"
    if found.last_seed <= LAST_FOR_TUNING:
        purpose = "for tuning"
    elif wanted.seed >= FIRST_KEPT:
        purpose = "kept for evaluation"
    return f"{used}. These seeds are {purpose}."


def _parser() -> Parser:
    parser = Parser(
        prog="evaluate_diagnosis",
        description="Judge the diagnosis by generated jobs with known truth.",
        epilog="Seeds 0 to 99,999 are for tuning; seeds from 1,000,000 on are kept for evaluation.",
        allow_abbrev=False,
    )
    parser.add_argument("--jobs", type=_count, default=500, metavar="N", help="generated jobs (%(default)s)")
    parser.add_argument("--seed", type=_natural, required=True, metavar="S", help="seed of the first job")
    parser.add_argument("--workers", type=_count, default=1, metavar="N", help="processes (%(default)s)")
    parser.add_argument(
        "--healthy", type=_natural, default=200, metavar="N", help="extra healthy jobs (%(default)s)"
    )
    parser.add_argument(
        "--sensitivity",
        type=_natural,
        default=200,
        metavar="N",
        help="jobs to judge again with 6 %% op noise, and with 4 steps (%(default)s)",
    )
    parser.add_argument(
        "--most-ops", type=_count, default=60_000, metavar="N", help="ops of a job (about %(default)s)"
    )
    parser.add_argument("--published", type=Path, metavar="DIR", help="folder of the published traces")
    parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], help="(%(default)s)")
    parser.add_argument("--list-wrong", action="store_true", help="list wrong labels, worst errors first")
    parser.add_argument("--list-worst", type=_count, metavar="N", help="list the N largest errors")
    parser.add_argument("--only-cause", choices=LABELS, help="scores and lists of one cause alone")
    parser.add_argument(
        "--class", dest="classes", action="append", choices=list(CLASSES), help="of some classes alone"
    )
    return parser


def _count(text: str) -> int:
    """Read a number of at least 1; argparse tells what is wrong with another."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _natural(text: str) -> int:
    """Read a number of at least 0."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return number


if __name__ == "__main__":
    sys.exit(main())
