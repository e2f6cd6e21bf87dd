"""Evaluate the cause data_loading on jobs whose logs have data-load ops, and on these logs without the ops.

`python -m tests.evaluation.loads --seed S` prints the tables. Seeds 0 to 99,999 may be used for tuning; seeds
from 1,000,000 on are kept for evaluation.
"""

import sys
from typing import Final

import pandas as pd

from jobs.runtime.arguments import Arguments, command, not_negative, option, positive
from jobs.synthetic.sample_job import sample_job
from schemas.vocabulary import Exit
from tests.evaluation import score
from tests.evaluation.judge import Row, judge_plan
from tests.evaluation.report import FORMATS, Section, rendered
from tests.support.sampled import with_loads

WITH_LOADS: Final = "with loads"
WITHOUT: Final = "without loads"
CAUSE: Final = "data_loading"


def judge(seed: int, most_ops: int = 60_000) -> list[Row]:
    """Judge a job twice, with and without data-load ops in its log; the column `variant` says which."""
    plan = sample_job(seed, most_ops=most_ops)
    return [*judge_plan(with_loads(plan), WITH_LOADS), *judge_plan(plan, WITHOUT)]


def sections(judged: pd.DataFrame) -> list[Section]:
    """Return all tables of the evaluation."""
    loads = judged[judged.cause == CAUSE]
    return [
        Section(
            "Slow loads",
            "Errors are of the saved fraction. A label means that the predicted saving is at least 2.5 %; "
            "the label is false if the true saving is less.",
            score.by_cause(loads).drop(columns=["cause"]),
        ),
        Section(
            "All causes",
            "The same jobs are diagnosed with loads, some of which are slow, and without loads.",
            by_cause(judged),
        ),
        Section("Calibration", "Slow loads are grouped by predicted saving.", score.calibration(loads)),
        Section("Wrong labels of slow loads", "The worst errors come first.", score.wrong_labels(loads)),
        Section("Largest errors of slow loads", "", score.worst(loads, 5)),
    ]


def by_cause(judged: pd.DataFrame) -> pd.DataFrame:
    """Scores of each cause over all jobs, separately for logs with and without data-load ops."""
    parts = []
    for logs, rows in judged.groupby("variant", sort=False):
        scores = score.by_cause(rows)
        of_all = scores[scores["class"] == score.CLASSES["all"].title].drop(columns=["class"])
        of_all.insert(1, "logs", logs)
        parts.append(of_all)
    return pd.concat(parts).sort_values("cause", kind="stable")


@command(
    "tests.evaluation.loads",
    option("--jobs N", "generated jobs", positive, default=200),
    option("--seed S", "seed of the first job", not_negative, required=True),
    option("--most-ops N", "ops of a job, about", positive, default=60_000),
    option("--format FORMAT", "how to print it", choices=FORMATS, default=FORMATS[0]),
)
def main(args: Arguments) -> int:
    """Evaluate how well the cause data_loading is found."""
    seeds = range(args.seed, args.seed + args.jobs)
    judged = pd.DataFrame(row for seed in seeds for row in judge(seed, args.most_ops))
    heading = (
        f"{args.jobs} generated jobs of seeds {seeds.start} to {seeds.stop - 1}, with loads and without."
    )
    sys.stdout.write(rendered(heading, sections(judged), args.format))
    return Exit.DONE


if __name__ == "__main__":
    sys.exit(main())
