"""Evaluate the diagnosis on generated jobs with known causes, and on published traces with injected faults.

Seeds 0 to 99,999 may be used for tuning. Seeds from 1,000,000 on are reserved for evaluation: whoever changes
the diagnosis must not look at single jobs of these seeds.
"""

import sys
from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import click
import pandas as pd

from jobs.runtime.arguments import Arguments, command, not_negative, option, positive
from jobs.runtime.progress import spread
from schemas.vocabulary import Exit
from tests.evaluation import score
from tests.evaluation.judge import USUAL, VARIANTS, Diagnose, Row, Variant, healthy_seeds, judge_job
from tests.evaluation.published import (
    causes_of,
    injection_list,
    injection_scores,
    injections,
    judge_injection,
    trace_folders,
)
from tests.evaluation.report import FORMATS, Section, rendered
from udfs.what_if import simulate_job

LAST_FOR_TUNING: Final = 99_999
FIRST_RESERVED: Final = 1_000_000
"""Seeds from here on are reserved for evaluation."""

COMPARED: Final = ("dp4pp2", "dp2pp2", "detectable")
"""Keys of the classes of jobs for which the report shows how noise and few steps change the scores."""


def main(argv: Sequence[str] | None = None, diagnose: Diagnose = simulate_job) -> int:
    """Run the command: print the evaluation, and return the exit status."""
    body = partial(_print, diagnose)
    return command("tests.evaluation.diagnosis", *_OPTIONS, epilog=_SEEDS, described_by=_print)(body)(argv)


def _print(diagnose: Diagnose, args: Arguments) -> int:
    """Evaluate the diagnosis on generated jobs and print the tables."""
    folders = [] if args.published is None else trace_folders(args.published)
    if args.published is not None and not folders:
        raise click.UsageError(f"no trace-NAME.parquet in the folders of {args.published}")
    found = evaluate(args, folders, diagnose)
    sys.stdout.write(rendered(heading(found, args), sections(found, args), args.format))
    return Exit.DONE


_SEEDS: Final = "Seeds 0 to 99,999 are for tuning; seeds from 1,000,000 on are kept for evaluation."
_OPTIONS: Final = (
    option("--jobs N", "generated jobs", positive, default=500),
    option("--seed S", "seed of the first job", not_negative, required=True),
    option("--workers N", "processes", positive, default=1),
    option("--healthy N", "extra healthy jobs", not_negative, default=200),
    option(
        "--sensitivity N",
        "jobs to judge again with 6 % op noise, with 4 steps, and with both",
        not_negative,
        default=200,
    ),
    option("--most-ops N", "ops of a job, about", positive, default=60_000),
    option("--published DIR", "folder of the published traces, for injected faults", Path),
    option("--format FORMAT", "how to print it", choices=FORMATS, default=FORMATS[0]),
    option("--list-wrong", "list wrong labels, worst errors first"),
    option("--list-worst N", "list the N largest errors", not_negative, default=0),
)


class Evaluated(NamedTuple):
    """Results of the diagnosis beside the truth: one row per job and cause.

    answers   : of the generated jobs
    healthy   : of additional jobs, all without a fault
    again     : of the first jobs, drawn again with more noise, fewer steps or skewed clocks
    injected  : one row per fault injected into a published trace
    published : one row per cause of a published trace without injected faults
    """

    answers: pd.DataFrame
    healthy: pd.DataFrame
    again: pd.DataFrame
    injected: pd.DataFrame
    published: pd.DataFrame


def evaluate(args: Arguments, traces: Sequence[Path], diagnose: Diagnose) -> Evaluated:
    """Judge as many generated jobs as the arguments ask for, and published traces with injected faults.

    The same seeds give the same answers, whatever the number of processes.

    traces   : folders of published traces
    diagnose : with several processes, a function defined at module level, so that it can be pickled
    """
    seeds = range(args.seed, args.seed + args.jobs)
    tasks = [(seed, USUAL) for seed in (*seeds, *healthy_seeds(seeds.stop, args.healthy))]
    tasks += [(seed, variant) for variant in VARIANTS for seed in seeds[: args.sensitivity]]
    judge = partial(_judge, diagnose=diagnose, most_ops=args.most_ops)
    judged = pd.DataFrame(chain.from_iterable(spread("jobs", judge, tasks, args.workers)))
    is_usual = judged.variant == USUAL.name
    inject = partial(judge_injection, diagnose=diagnose)
    return Evaluated(
        answers=judged[is_usual & (judged.seed < seeds.stop)],
        healthy=judged[is_usual & (judged.seed >= seeds.stop)],
        again=judged[~is_usual],
        injected=pd.DataFrame(spread("injected faults", inject, injections(traces), args.workers)),
        published=pd.DataFrame(row for folder in traces for row in causes_of(folder, diagnose)),
    )


def _judge(task: tuple[int, Variant], diagnose: Diagnose, most_ops: int) -> list[Row]:
    seed, variant = task
    return judge_job(seed, variant, diagnose, most_ops)


def heading(found: Evaluated, args: Arguments) -> str:
    """State which seeds were used, and whether they serve for tuning or for reporting."""
    last = args.seed + args.jobs - 1
    last_used = max([last, *found.healthy.seed])
    used = f"{args.jobs} generated jobs of seeds {args.seed} to {last}"
    if args.healthy:
        used += f"; {args.healthy} healthy jobs of seeds {last + 1} to {last_used}"
    purpose = "neither for tuning alone nor for evaluation alone"
    if last_used <= LAST_FOR_TUNING:
        purpose = "for tuning"
    elif args.seed >= FIRST_RESERVED:
        purpose = "kept for evaluation"
    return f"{used}. These seeds are {purpose}."


def sections(found: Evaluated, args: Arguments) -> list[Section]:
    """Return all tables of the evaluation."""
    made = [*_scores(found), *_published(found, list_wrong=args.list_wrong)]
    rows = pd.concat([found.answers, found.healthy])
    if args.list_wrong:
        made.append(Section("Wrong labels", "The worst errors come first.", score.wrong_labels(rows)))
    if args.list_worst:
        made.append(Section("Largest errors", "", score.worst(rows, args.list_worst)))
    return made


def _scores(found: Evaluated) -> list[Section]:
    """Tables of scores over generated jobs."""
    made = [
        Section(
            "Classes",
            "The table shows errors of the saved fraction over all causes and jobs of a class. A cause is "
            "labelled if its predicted saving is at least 2.5 %, and true if its true saving is at least "
            '2.5 %. "All detectable" excludes jobs in which a communication fault struck in all steps and '
            "hit whole collectives of the dp ranks, or the only link (pp = 2, dp = 1).",
            score.by_class(found.answers),
        ),
        Section("Causes", "", score.by_cause(found.answers)),
    ]
    if not found.healthy.empty:
        note = (
            "The table counts, in additional jobs drawn without a fault, labels of causes whose true saving "
            "is below 2.5 %."
        )
        made.append(Section("Labels on healthy jobs", note, score.healthy_labels(found.healthy)))
    made += [
        Section(
            "Slow workers located",
            "For jobs whose slow worker costs at least 2.5 %, the table shows how often the worker named "
            "worst is a slow one.",
            score.located(found.answers),
        ),
        Section(
            "Calibration",
            "Causes of jobs are grouped by their predicted saving; a bin includes its upper edge.",
            score.calibration(found.answers),
        ),
        Section(
            "The paper's indicators as labels",
            "An indicator labels a cause only in jobs that straggle, with a slowdown of at least 1.1.",
            score.indicators(found.answers),
        ),
    ]
    if not found.again.empty:
        usual = found.answers[found.answers.seed.isin(found.again.seed)]
        variants = {str(name): rows for name, rows in found.again.groupby("variant", sort=False)}
        note = (
            "Some of the jobs are evaluated again under other conditions; in jobs of 4 steps, faults last "
            "for all steps."
        )
        made.append(Section("Sensitivity", note, score.sensitivity(usual, variants, COMPARED)))
    return made


def _published(found: Evaluated, *, list_wrong: bool) -> list[Section]:
    if found.injected.empty:
        return []
    made = [
        Section(
            "Faults injected into published traces",
            '"Missed" counts faults that cost more than 3.5 % and are not labelled, "early" faults that cost '
            'less than 1.5 % and are labelled. "False labels" counts faults after which another cause is '
            "labelled that was not labelled before.",
            injection_scores(found.injected),
        ),
        Section("The published traces", "", found.published),
    ]
    if list_wrong:
        listed = injection_list(found.injected)
        made.append(Section("Wrong labels on injected faults", "The worst cases come first.", listed))
    return made


if __name__ == "__main__":
    sys.exit(main())
