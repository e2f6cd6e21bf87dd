"""Make a fleet of generated jobs with known truth: a landing folder, and the truth in its `_truth`.

With `--history` it is months of a fleet drawn like the paper's, of any size, written as fast as it can be
read: its truth says what was planned, and not what each cause really costs.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import date
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from jobs.cli import Parser, log_date, not_negative, positive
from jobs.progress import spread
from jobs.rank_log_writer import finish_day
from jobs.synthetic import paper
from jobs.synthetic.fleet import Fleet, plan_fleet, write_unit
from jobs.synthetic.history import History, plan_history
from jobs.synthetic.history_files import write_job, write_plan
from jobs.synthetic.truth_files import write_sick_hosts
from schemas.vocabulary import EXIT_DONE

FIRST_DAY: Final = date(2026, 1, 5)
MOST_OPS: Final = 150_000
OPS_PER_JOB: Final = 100_000
"""Of a history that is not told how many ops: what the paper's 3,079 jobs have at 300 million."""

T = TypeVar("T")


def run(landing: Path, fleet: Fleet, workers: int = 1) -> int:
    """Write a fleet into a landing folder; returns its recorded ops.

    The same fleet gives the same bytes, whatever the number of worker processes. A bar shows the progress
    where standard output is a terminal.
    """
    spells = [asdict(spell) for spell in fleet.spells]
    write_sick_hosts(landing, spells)
    return _write_all(landing, partial(write_unit, landing), fleet.units, fleet.log_dates, workers)


def run_history(landing: Path, history: History, workers: int = 1) -> int:
    """Write a history into a landing folder; returns its recorded ops. Else as run."""
    landing.mkdir(parents=True, exist_ok=True)
    write_plan(landing, history)
    lean = replace(history, jobs=())  # what every process is sent once for each job
    return _write_all(landing, partial(write_job, landing, lean), history.jobs, history.log_dates, workers)


def _write_all(
    landing: Path, write: Callable[[T], int], parts: Sequence[T], log_dates: Sequence[date], workers: int
) -> int:
    """Write all parts and finish the days; returns the sum of their ops."""
    ops = sum(spread("fleet", write, parts, workers))
    for day in log_dates:
        finish_day(landing, day)
    return ops


def main(argv: Sequence[str] | None = None) -> int:
    """Make a fleet; returns the exit status."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.landing.exists() and (not args.landing.is_dir() or any(args.landing.iterdir())):
        parser.error(f"{args.landing} is not an empty folder; name another --landing")
    if args.history:
        _make_history(parser, args)
        return EXIT_DONE
    if args.ops is not None:
        parser.error("--ops goes with --history; a fleet has --most-ops")
    if args.jobs is None:
        parser.error("a fleet needs --jobs")
    fleet = plan_fleet(args.jobs, args.days or 1, args.seed, args.first_day, args.most_ops or MOST_OPS)
    run(args.landing, fleet, args.workers)
    return EXIT_DONE


def _make_history(parser: Parser, args: argparse.Namespace) -> None:
    """Make a history; ends the process where it cannot be had in so few ops."""
    if args.most_ops is not None:
        parser.error("--most-ops goes with a fleet; a history has --ops")
    jobs, days = args.jobs or paper.JOBS, args.days or paper.DAYS
    try:
        history = plan_history(jobs, days, args.seed, args.first_day, args.ops or jobs * OPS_PER_JOB)
    except ValueError as error:
        parser.error(f"{error}; name more --ops or fewer --jobs")
    run_history(args.landing, history, args.workers)


def _parser() -> Parser:
    parser = Parser(
        prog="make_fleet",
        description="Generate rank logs of a fleet, with the truth about every job under _truth.",
        allow_abbrev=False,
    )
    parser.add_argument("--landing", type=Path, required=True, metavar="DIR", help="an empty or new folder")
    parser.add_argument(
        "--history",
        action="store_true",
        help="months of a fleet drawn like the paper's, without true savings",
    )
    parser.add_argument(
        "--jobs",
        type=positive,
        metavar="N",
        help=f"jobs over all days; a history has {paper.JOBS:,} if left out",
    )
    parser.add_argument("--days", type=positive, metavar="N", help=f"days (1; of a history {paper.DAYS})")
    parser.add_argument(
        "--seed", type=not_negative, default=0, metavar="N", help="another fleet (%(default)s)"
    )
    parser.add_argument("--workers", type=positive, default=1, metavar="N", help="processes (%(default)s)")
    parser.add_argument(
        "--first-day", type=log_date, default=FIRST_DAY, metavar="DATE", help="first log date (%(default)s)"
    )
    parser.add_argument(
        "--most-ops", type=positive, metavar="N", help=f"ops of a job of a fleet a day (about {MOST_OPS})"
    )
    parser.add_argument(
        "--ops", type=positive, metavar="N", help=f"ops of a history (about {OPS_PER_JOB:,} for each job)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
