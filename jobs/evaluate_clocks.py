"""Evaluate the correction of clocks on generated jobs: the slowdown and causes of the same job on one clock?

Seeds 0 to 99,999 are for tuning, those from 1,000,000 on are kept for evaluation.
"""

import sys
from collections.abc import Sequence

import pandas as pd

from jobs.cli import Parser, make_parser, not_negative, option, positive
from jobs.evaluation.clocks import by_kind_and_skew, judge, summary
from jobs.evaluation.diagnosis import Row
from jobs.evaluation.report import FORMATS, Section, rendered
from jobs.synthetic.mechanisms.clocks import SKEWS
from schemas.vocabulary import EXIT_DONE


def main(argv: Sequence[str] | None = None) -> int:
    """Print the evaluation; returns the exit status."""
    args = _parser().parse_args(argv)
    judged: list[Row] = []
    seed = args.seed
    while len(judged) < args.jobs:
        found = judge(seed, args.skew or "", args.most_ops)
        judged += [] if found is None else [found]
        seed += 1
    rows = pd.DataFrame(judged)
    sections = [
        Section("All jobs", "", pd.DataFrame([summary(rows)])),
        Section("Kinds of jobs by skews", "", by_kind_and_skew(rows)),
        Section("Worst errors", "", rows.sort_values("error", ascending=False).head(args.list_worst)),
    ]
    heading = f"{len(rows)} generated jobs on several hosts, of seeds {args.seed} to {seed - 1}."
    sys.stdout.write(rendered(heading, sections, args.format))
    return EXIT_DONE


def _parser() -> Parser:
    return make_parser(
        "evaluate_clocks",
        "Judge the correction of clocks.",
        option("--jobs N", "jobs (%(default)s)", positive, default=500),
        option("--seed S", "seed of the first job", not_negative, required=True),
        option("--skew", "one way to be off alone", choices=list(SKEWS)),
        option("--most-ops N", "ops of a job (about %(default)s)", positive, default=15_000),
        option("--list-worst N", "list the N largest errors", not_negative, default=5),
        option("--format", "(%(default)s)", choices=FORMATS, default=FORMATS[0]),
    )


if __name__ == "__main__":
    sys.exit(main())
