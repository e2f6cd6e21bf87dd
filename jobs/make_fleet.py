"""Make a fleet of generated jobs with known truth: a landing folder, and the truth in its `_truth`."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict
from datetime import date
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from rich.progress import track

from jobs.cli import Parser, log_date
from jobs.rank_log_writer import finish_day
from jobs.synthetic.fleet import Fleet, plan_fleet, write_unit
from jobs.synthetic.truth_files import write_sick_hosts
from schemas.vocabulary import EXIT_DONE

FIRST_DAY: Final = date(2026, 1, 5)
MOST_OPS: Final = 150_000


def run(landing: Path, fleet: Fleet, workers: int = 1) -> int:
    """Write a fleet into a landing folder; returns its recorded ops.

    The same fleet gives the same bytes, whatever the number of worker processes. A bar shows the progress
    where standard output is a terminal.
    """
    spells = [asdict(spell) for spell in fleet.spells]
    write_sick_hosts(landing, spells)
    with _written(landing, fleet, workers) as written:
        ops = sum(
            track(written, "fleet", total=len(fleet.units), disable=not sys.stdout.isatty(), transient=True)
        )
    for day in fleet.log_dates:
        finish_day(landing, day)
    return ops


@contextmanager
def _written(landing: Path, fleet: Fleet, workers: int) -> Iterator[Iterator[int]]:
    """Recorded ops of each unit as it is written, by this process or by others."""
    write = partial(write_unit, landing)
    if workers == 1:
        yield map(write, fleet.units)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        yield pool.map(write, fleet.units)


def main(argv: Sequence[str] | None = None) -> int:
    """Make a fleet; returns the exit status."""
    parser = _parser()
    args = parser.parse_args(argv)
    if args.landing.exists() and (not args.landing.is_dir() or any(args.landing.iterdir())):
        parser.error(f"{args.landing} is not an empty folder; name another --landing")
    fleet = plan_fleet(args.jobs, args.days, args.seed, args.first_day, args.most_ops)
    run(args.landing, fleet, args.workers)
    return EXIT_DONE


def _parser() -> Parser:
    parser = Parser(
        prog="make_fleet",
        description="Generate rank logs of a fleet, with the truth about every job under _truth.",
        allow_abbrev=False,
    )
    parser.add_argument("--landing", type=Path, required=True, metavar="DIR", help="an empty or new folder")
    parser.add_argument("--jobs", type=_count, required=True, metavar="N", help="jobs over all days")
    parser.add_argument("--days", type=_count, default=1, metavar="N", help="days (%(default)s)")
    parser.add_argument("--seed", type=_seed, default=0, metavar="N", help="another fleet (%(default)s)")
    parser.add_argument("--workers", type=_count, default=1, metavar="N", help="processes (%(default)s)")
    parser.add_argument(
        "--first-day", type=log_date, default=FIRST_DAY, metavar="DATE", help="first log date (%(default)s)"
    )
    parser.add_argument(
        "--most-ops",
        type=_count,
        default=MOST_OPS,
        metavar="N",
        help="ops of a job a day (about %(default)s)",
    )
    return parser


def _count(text: str) -> int:
    """Read a number of at least 1; argparse tells what is wrong with another."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _seed(text: str) -> int:
    """Read a number of at least 0."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is less than 0")
    return number


if __name__ == "__main__":
    sys.exit(main())
