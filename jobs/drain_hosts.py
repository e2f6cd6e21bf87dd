"""Drain: list the hosts to drain now, by GPU-hours saved in the next days less the cost of the drain.

`straggler drain --days 7` asks the view drain by the terms of the settings, as of the last day with results,
and says why, how sure that is, and when the answer would be no. Nothing is written.
"""

import sys
from dataclasses import replace
from typing import Final

from jobs.entry_points.command import reader_entry_point
from jobs.report.news_words import drain_text
from jobs.runtime.arguments import AS_LISTS, FORMAT, Arguments, log_date, not_negative, option, positive
from jobs.runtime.fitting import complain_fitting
from jobs.runtime.printing import write
from jobs.runtime.settings import Settings
from jobs.warehouse.reader import Reader
from schemas.drain import HISTORY_DAYS, NO_VERDICT
from schemas.views import drain_by

_SHOWN: Final = 10
_NONE: Final = f"no host to drain: none that serves jobs has lost them time in the last {HISTORY_DAYS} days"


def _days(text: str) -> int:
    if (days := positive(text)) > HISTORY_DAYS:
        raise ValueError(f"{days} days are more than the {HISTORY_DAYS} by which hosts are judged")
    return days


@reader_entry_point(
    "drain_hosts",
    option("--days N", "days over which a drain has to pay (default: as in the settings)", _days),
    option("--as-of DATE", "as if the warehouse ended with this day", log_date),
    option("--limit N", "most rows to show; 0: all", not_negative, default=_SHOWN),
    FORMAT,
    AS_LISTS,
)
def main(reader: Reader, settings: Settings, args: Arguments) -> None:
    """Print which hosts to drain now, largest saving first."""
    terms = settings.drain.terms
    if args.days is not None:
        terms = replace(terms, days=args.days)
    sql = drain_by(terms, args.as_of)
    result = reader.ask(sql, args.limit)
    write(result, args.format, sys.stdout, as_lists=args.as_lists)
    if args.format is not None:
        return
    rows = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
    for row in rows:
        if row["verdict"] not in NO_VERDICT:
            complain_fitting(drain_text(row, terms.days))
    if not rows:
        complain_fitting(_before(reader, args) or _NONE)


def _before(reader: Reader, args: Arguments) -> str:
    """Print a note if the warehouse begins later than the requested day."""
    first = reader.ask("SELECT min(log_date) AS first FROM job_slowdown", 1).rows[0][0]
    if args.as_of is None or first is None or args.as_of >= first:
        return ""
    return f"no host to drain: there is no data up to {args.as_of}; the first day is {first}"


if __name__ == "__main__":
    sys.exit(main())
