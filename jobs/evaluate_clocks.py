"""Evaluate the correction of clocks on generated jobs: the slowdown and causes of the same job on one clock?

Seeds 0 to 99,999 are for tuning, those from 1,000,000 on are kept for evaluation.
"""

import sys
from collections.abc import Sequence

import pandas as pd

from jobs.cli import Parser, not_negative, positive
from jobs.evaluation.clocks import SkewedJob, by_kind_and_skew, judge, rows_of, summary
from jobs.evaluation.report import FORMATS, Section, rendered
from jobs.synthetic.mechanisms.clocks import SKEWS
from schemas.vocabulary import EXIT_DONE


def main(argv: Sequence[str] | None = None) -> int:
    """Print the evaluation; returns the exit status."""
    args = _parser().parse_args(argv)
    judged: list[SkewedJob] = []
    seed = args.seed
    while len(judged) < args.jobs:
        found = judge(seed, args.skew or "", args.most_ops)
        judged += [] if found is None else [found]
        seed += 1
    rows = rows_of(judged)
    sections = [
        Section("All jobs", "", pd.DataFrame([summary(rows)])),
        Section("Kinds of jobs by skews", "", by_kind_and_skew(rows)),
        Section("Worst errors", "", rows.sort_values("error", ascending=False).head(args.list_worst)),
    ]
    heading = f"{len(rows)} generated jobs on several hosts, of seeds {args.seed} to {seed - 1}."
    sys.stdout.write(rendered(heading, sections, args.format))
    return EXIT_DONE


def _parser() -> Parser:
    parser = Parser(prog="evaluate_clocks", description="Judge the correction of clocks.", allow_abbrev=False)
    parser.add_argument("--jobs", type=positive, default=500, metavar="N", help="jobs (%(default)s)")
    parser.add_argument("--seed", type=not_negative, required=True, metavar="S", help="seed of the first job")
    parser.add_argument("--skew", choices=list(SKEWS), help="one way to be off alone")
    parser.add_argument(
        "--most-ops", type=positive, default=15_000, metavar="N", help="ops of a job (about %(default)s)"
    )
    parser.add_argument(
        "--list-worst", type=not_negative, default=5, metavar="N", help="list the N largest errors"
    )
    parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], help="(%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
