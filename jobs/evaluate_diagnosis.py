"""Evaluate the diagnosis on generated jobs with known truth, and on faults injected into published traces.

Seeds 0 to 99,999 are for tuning. Seeds from 1,000,000 on are kept for evaluation: whoever changes the
diagnosis never looks at single jobs of theirs.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from jobs.cli import Parser, not_negative, positive
from jobs.evaluation.classes import CLASSES
from jobs.evaluation.diagnosis import Diagnose, NoDiagnosisError
from jobs.evaluation.evaluate import evaluate
from jobs.evaluation.published import trace_folders
from jobs.evaluation.report import FORMATS, rendered
from jobs.evaluation.sections import heading, sections
from jobs.synthetic.simulation import LABELS
from schemas.vocabulary import EXIT_DONE, EXIT_FAILED
from udfs.what_if import simulate_job


def main(argv: Sequence[str] | None = None, diagnose: Diagnose = simulate_job) -> int:
    """Print the evaluation; returns the exit status."""
    parser = _parser()
    args = parser.parse_args(argv)
    folders = [] if args.published is None else trace_folders(args.published)
    if args.published is not None and not folders:
        parser.error(f"no trace-NAME.parquet in the folders of {args.published}")
    try:
        found = evaluate(args, folders, diagnose)
    except NoDiagnosisError as error:
        sys.stderr.write(f"evaluate_diagnosis: error: {error}\n")
        return EXIT_FAILED
    sys.stdout.write(rendered(heading(found, args), sections(found, args), args.format))
    return EXIT_DONE


def _parser() -> Parser:
    parser = Parser(
        prog="evaluate_diagnosis",
        description="Judge the diagnosis by generated jobs with known truth.",
        epilog="Seeds 0 to 99,999 are for tuning; seeds from 1,000,000 on are kept for evaluation.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--jobs", type=positive, default=500, metavar="N", help="generated jobs (%(default)s)"
    )
    parser.add_argument("--seed", type=not_negative, required=True, metavar="S", help="seed of the first job")
    parser.add_argument("--workers", type=positive, default=1, metavar="N", help="processes (%(default)s)")
    parser.add_argument(
        "--healthy", type=not_negative, default=200, metavar="N", help="extra healthy jobs (%(default)s)"
    )
    parser.add_argument(
        "--sensitivity",
        type=not_negative,
        default=200,
        metavar="N",
        help="jobs to judge again with 6 %% op noise, with 4 steps, with both (%(default)s)",
    )
    parser.add_argument(
        "--most-ops", type=positive, default=60_000, metavar="N", help="ops of a job (about %(default)s)"
    )
    parser.add_argument(
        "--published", type=Path, metavar="DIR", help="folder of the published traces, for injected faults"
    )
    parser.add_argument("--format", choices=FORMATS, default=FORMATS[0], help="(%(default)s)")
    parser.add_argument("--list-wrong", action="store_true", help="list wrong labels, worst errors first")
    parser.add_argument(
        "--list-worst", type=not_negative, default=0, metavar="N", help="list the N largest errors"
    )
    parser.add_argument("--only-cause", choices=LABELS, help="scores and lists of one cause alone")
    parser.add_argument(
        "--class", dest="classes", action="append", choices=list(CLASSES), help="of some classes alone"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
