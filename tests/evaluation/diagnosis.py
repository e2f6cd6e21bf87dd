"""Evaluate the diagnosis on generated jobs with known truth, and on faults injected into published traces.

Seeds 0 to 99,999 are for tuning. Seeds from 1,000,000 on are reserved for evaluation: a change of the
diagnosis must not look at their single jobs.
"""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import click

from jobs.runtime.arguments import Arguments, command, not_negative, option, positive
from jobs.synthetic.simulation import LABELS
from schemas.vocabulary import EXIT_DONE
from tests.evaluation.answers import Diagnose
from tests.evaluation.classes import CLASSES
from tests.evaluation.evaluate import evaluate
from tests.evaluation.published import trace_folders
from tests.evaluation.report import FORMATS, rendered
from tests.evaluation.sections import heading, sections
from udfs.what_if import simulate_job


def main(argv: Sequence[str] | None = None, diagnose: Diagnose = simulate_job) -> int:
    """Print the evaluation; returns the exit status."""
    body = partial(_print, diagnose)
    return command("tests.evaluation.diagnosis", *_OPTIONS, epilog=_SEEDS, described_by=_print)(body)(argv)


def _print(diagnose: Diagnose, args: Arguments) -> int:
    """Judge the diagnosis by generated jobs with known truth."""
    folders = [] if args.published is None else trace_folders(args.published)
    if args.published is not None and not folders:
        raise click.UsageError(f"no trace-NAME.parquet in the folders of {args.published}")
    found = evaluate(args, folders, diagnose)
    sys.stdout.write(rendered(heading(found, args), sections(found, args), args.format))
    return EXIT_DONE


_SEEDS: Final = "Seeds 0 to 99,999 are for tuning; seeds from 1,000,000 on are kept for evaluation."
_OPTIONS: Final = (
    option("--jobs N", "generated jobs", positive, default=500),
    option("--seed S", "seed of the first job", not_negative, required=True),
    option("--workers N", "processes", positive, default=1),
    option("--healthy N", "extra healthy jobs", not_negative, default=200),
    option(
        "--sensitivity N",
        "jobs to judge again with 6 % op noise, with 4 steps, with both",
        not_negative,
        default=200,
    ),
    option("--most-ops N", "ops of a job, about", positive, default=60_000),
    option("--published DIR", "folder of the published traces, for injected faults", Path),
    option("--format FORMAT", "how to print it", choices=FORMATS, default=FORMATS[0]),
    option("--list-wrong", "list wrong labels, worst errors first"),
    option("--list-worst N", "list the N largest errors", not_negative, default=0),
    option("--only-cause CAUSE", "scores and lists of one cause alone", choices=LABELS),
    option("--class CLASS", "of some classes alone", dest="classes", multiple=True, choices=CLASSES),
)


if __name__ == "__main__":
    sys.exit(main())
