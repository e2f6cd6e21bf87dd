"""Backfill: the stages of a night over a range of days, in blocks that share a session, gates and commits."""

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Final

from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from jobs.cli import Parser, common_parser, log_date, run_entry_point
from jobs.settings import Settings, SettingsError
from jobs.stages import STAGES

BLOCK_DAYS: Final = 7
"""Days that share one gate and one commit per table: a commit costs more than a small day's rows."""

_LOG = logging.getLogger(__name__)


def run(
    spark: SparkSession, settings: Settings, log_dates: Sequence[date], stages: Sequence[str]
) -> dict[str, int]:
    """Run the named stages over these days, block by block; returns rows per table, over all blocks."""
    rows: dict[str, int] = {}
    with _progress() as progress:
        task = progress.add_task("backfill", total=len(log_dates), what="")
        for block in _blocks(log_dates):
            for stage in stages:
                progress.update(task, what=f"{stage} {block[0]} .. {block[-1]}")
                started = time.monotonic()
                for table, count in STAGES[stage](spark, settings, block).items():
                    rows[table] = rows.get(table, 0) + count
                _LOG.info("%s %s .. %s: %.1f s", stage, block[0], block[-1], time.monotonic() - started)
            progress.advance(task, len(block))
    return rows


def _progress() -> Progress:
    """A bar on standard error, with the days done and the time left; silent where nobody watches."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("days,"),
        TimeRemainingColumn(),
        TextColumn("left, {task.fields[what]}"),
    )
    return Progress(*columns, console=console, disable=not console.is_terminal)


def _parser() -> Parser:
    parser = common_parser("backfill", "Run stages of the night again over a range of log dates.")
    parser.add_argument(
        "--from", dest="first", type=log_date, required=True, metavar="DATE", help="first day"
    )
    parser.add_argument("--to", dest="last", type=log_date, required=True, metavar="DATE", help="last day")
    stages_help = f"some of {','.join(STAGES)}; all when left out"
    parser.add_argument("--stages", type=_stages, default=list(STAGES), metavar="A,B", help=stages_help)
    parser.add_argument("--dry-run", action="store_true", help="say what would be done and do nothing")
    return parser


def _stages(text: str) -> list[str]:
    """Stages as named on the command line, in the order in which they depend on each other."""
    named = text.split(",")
    unknown = [name for name in named if name not in STAGES]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not a stage; stages are {', '.join(STAGES)}")
    return [name for name in STAGES if name in named]


def main(argv: Sequence[str] | None = None) -> int:
    """Backfill a range of log dates; returns the exit status."""

    def body(spark: SparkSession, settings: Settings, args: argparse.Namespace) -> dict[str, int]:
        log_dates = _days(args.first, args.last)
        if args.dry_run:
            _tell_plan(log_dates, args.stages)
            return {}
        return run(spark, settings, log_dates, args.stages)

    return run_entry_point("backfill", _parser(), argv, body)


def _tell_plan(log_dates: Sequence[date], stages: Sequence[str]) -> None:
    """Say what would be done, a line per block."""
    for block in _blocks(log_dates):
        sys.stdout.write(f"{block[0]} .. {block[-1]}: {', '.join(stages)} of {len(block)} days\n")


def _blocks(log_dates: Sequence[date]) -> list[Sequence[date]]:
    return [log_dates[first : first + BLOCK_DAYS] for first in range(0, len(log_dates), BLOCK_DAYS)]


def _days(first: date, last: date) -> list[date]:
    """Days of the range, both ends among them; raises SettingsError where it runs backwards."""
    if last < first:
        raise SettingsError(f"--to {last} lies before --from {first}")
    return [first + timedelta(days=day) for day in range((last - first).days + 1)]


if __name__ == "__main__":
    sys.exit(main())
