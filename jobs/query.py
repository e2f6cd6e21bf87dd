"""Query: answer SQL over tables and views, as text for the terminal, tabs, CSV, JSON, Markdown or a table.

A terminal gets the first 1,000 rows. A file or a pipe gets all rows, which are read and written in batches.

The SQL is the argument or standard input: `straggler query < question.sql`. Without an argument, a terminal
gets a prompt, which keeps the tables open, so that later answers come faster.
"""

import sys
import time
from typing import Final

from jobs.entry_points.command import reader_entry_point
from jobs.reading.left_out import not_in_fix_first, reads_fix_first
from jobs.reading.limits import batches_within_limits, with_limited_heap, within_limits
from jobs.reading.prompt import ask_on
from jobs.runtime.arguments import AS_LISTS, FORMAT, Arguments, not_negative, option
from jobs.runtime.fitting import complain_fitting
from jobs.runtime.plural import plural
from jobs.runtime.printing import write_batches
from jobs.runtime.settings import Settings
from jobs.runtime.terminal import complain
from jobs.warehouse.reader import Reader

DEFAULT_LIMIT: Final = 1000
"""Most rows that a terminal gets without --limit."""

DEFAULT_TIMEOUT_S: Final = 60

_STANDARD_INPUT: Final = "-"


def _sql(text: str) -> str | None:
    """Return the argument, or for `-` the text of standard input; None if standard input is a terminal."""
    if text != _STANDARD_INPUT:
        return text
    return None if sys.stdin.isatty() else sys.stdin.read()


@reader_entry_point(
    "query",
    option(
        "sql SQL",
        'such as "SELECT * FROM straggling_jobs", in Spark\'s SQL; left out: a prompt, or standard input',
        _sql,
        default=_STANDARD_INPUT,
    ),
    FORMAT,
    AS_LISTS,
    option(
        "--limit N",
        f"maximum number of rows; 0: all (default: {DEFAULT_LIMIT:,} at a terminal, else all)",
        not_negative,
    ),
    option(
        "--timeout S",
        "longest that the engine may work [s], with a memory limit of a quarter of the machine; 0: no limits",
        not_negative,
        default=DEFAULT_TIMEOUT_S,
    ),
    settings_of=lambda settings, args: with_limited_heap(settings, args.timeout),
)
def main(reader: Reader, _settings: Settings, args: Arguments) -> None:
    """Answer SQL queries over the warehouse's tables and views. Times are UTC."""
    if args.sql is None:
        ask_on(reader, lambda sql: _answer(reader, sql, args))
    else:
        _answer(reader, args.sql, args)


def _answer(reader: Reader, sql: str, args: Arguments) -> None:
    started = time.monotonic()
    limit = args.limit
    if limit is None:
        limit = DEFAULT_LIMIT if sys.stdout.isatty() else 0
    batches = batches_within_limits(reader, reader.batches(sql, limit), args.timeout)
    count, is_cut = write_batches(batches, args.format, sys.stdout, as_lists=args.as_lists)
    if is_cut:
        complain(f"shown: only the first {plural(limit, 'row')} (--limit 0 shows all)")
    elif sys.stdout.isatty():
        complain(f"{plural(count, 'row')} in {time.monotonic() - started:.2f} s")
    if reads_fix_first(sql) and (
        without := within_limits(reader, lambda: not_in_fix_first(reader), args.timeout)
    ):
        complain_fitting(without)


if __name__ == "__main__":
    sys.exit(main())
