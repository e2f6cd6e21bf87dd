"""Named query: answer a headline question of the paper, or a question of fleet owners, over any period.

For example `straggler headline straggling --from 2026-01-01 --to 2026-03-31`; --help lists the queries.
"""

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from jobs.entry_points.command import reader_entry_point
from jobs.reading.left_out import FIX_FIRST, not_in_fix_first
from jobs.runtime.arguments import AS_LISTS, FORMAT, PERIOD, Arguments, not_negative, option
from jobs.runtime.fitting import complain_fitting
from jobs.runtime.plural import plural
from jobs.runtime.printing import write
from jobs.runtime.settings import Settings, SettingsError
from jobs.runtime.terminal import complain
from jobs.warehouse.reader import Reader
from schemas.queries import QUERIES
from schemas.sql_files import first_sentence
from schemas.vocabulary import JOB_SLOWDOWN

_HOSTS_SHOWN: Final = 10
"""Without --limit, the query hosts prints only slow hosts, and at most this many: a fleet has thousands."""


@reader_entry_point(
    "named_query",
    option("name NAME", "name of a query listed below", choices=QUERIES),
    *PERIOD,
    FORMAT,
    AS_LISTS,
    option(
        "--limit N",
        f"maximum number of rows, 0 for all (default: all; `hosts` without --format: {_HOSTS_SHOWN} slow)",
        not_negative,
    ),
    epilog="\n".join(f"  {each.name:<20}{first_sentence(each.meaning)}" for each in QUERIES.values()),
)
def main(reader: Reader, _settings: Settings, args: Arguments) -> None:
    """Answer a named query over a period that includes its first and last day."""
    if args.first and args.last and args.last < args.first:
        raise SettingsError(f"--to {args.last} lies before --from {args.first}")
    result = reader.ask(QUERIES[args.name].over(args.first, args.last), args.limit or 0)
    if args.first or args.last:
        ((first, last),) = reader.ask(f"SELECT min(log_date), max(log_date) FROM {JOB_SLOWDOWN}").rows
        if first is not None and (
            str(args.first or first) > str(last) or str(args.last or last) < str(first)
        ):
            complain(f"no day of this period has rows: the first is {first}, the last {last}")
    is_chosen = args.name == "hosts" and args.limit is None and args.format is None
    count = len(result.rows)
    slow: Sequence[Sequence[object]] = ()
    if is_chosen:
        verdict = result.columns.index("verdict")
        slow = [row for row in result.rows if row[verdict] is not None]
        result = replace(result, rows=slow[:_HOSTS_SHOWN])
    write(result, args.format, sys.stdout, as_lists=args.as_lists)
    shown = len(result.rows)
    if is_chosen and shown < count:
        which = f"{shown} of {len(slow):,} slow hosts are shown" if slow else "no host is slow"
        complain(f"{which}, of {count:,} hosts (--limit 0 shows all)")
    elif result.is_cut:
        complain(f"shown: only the first {plural(shown, 'row')} (--limit 0 shows all)")
    if args.name == FIX_FIRST and (without := not_in_fix_first(reader, args.first, args.last)):
        complain_fitting(without)


if __name__ == "__main__":
    sys.exit(main())
