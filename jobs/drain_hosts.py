"""Drain: list the hosts to drain now, by GPU-hours saved in the next days less the cost of the drain.

`straggler drain --days 7` reads the view drain, with the costs that [drain] in the settings states, as of the
last day with results. For each host it prints the reason, the 90 % interval of the saving, and after how many
slow days a drain pays. Nothing is written.
"""

import sys
from dataclasses import replace
from datetime import date
from typing import Final

from jobs.entry_points.command import reader_entry_point
from jobs.report.news_words import advised, drain_text, kept_text
from jobs.report.wording import counted
from jobs.runtime.arguments import AS_LISTS, FORMAT, Arguments, log_date, not_negative, option, positive
from jobs.runtime.fitting import complain_fitting
from jobs.runtime.printing import write
from jobs.runtime.settings import Settings
from jobs.runtime.terminal import complain
from jobs.warehouse.reader import Reader
from schemas.drain import HISTORY_DAYS
from schemas.views import drain_by

_SHOWN: Final = 10
_NO_HOST: Final = "no host to drain"
_NONE: Final = f"{_NO_HOST}: none that serves jobs has lost them time in the last {HISTORY_DAYS} days"


def _days(text: str) -> int:
    if (days := positive(text)) > HISTORY_DAYS:
        raise ValueError(f"{days} days are more than the {HISTORY_DAYS} by which hosts are judged")
    return days


@reader_entry_point(
    "drain_hosts",
    option(
        "--days N", "number of days within which a drain has to pay off (default: as in the settings)", _days
    ),
    option("--as-of DATE", "ignore all later days of the warehouse", log_date),
    option("--limit N", "most rows to show; 0: all", not_negative, default=_SHOWN),
    FORMAT,
    AS_LISTS,
)
def main(reader: Reader, settings: Settings, args: Arguments) -> None:
    """Print which hosts to drain now, the host with the largest saving first."""
    terms = settings.drain.terms
    if args.days is not None:
        terms = replace(terms, days=args.days)
    sql = drain_by(terms, args.as_of)
    result = reader.ask(sql, args.limit)
    write(result, args.format, sys.stdout, as_lists=args.as_lists)
    note = _of_another_day(reader, args.as_of)
    if result.rows and note:
        complain_fitting(note)
    if args.format is not None:
        return
    rows = [dict(zip(result.columns, row, strict=True)) for row in result.rows]
    if result.is_cut:
        complain(f"shown: only the first {counted(len(rows), 'host')} (--limit 0 shows all)")
    for said in [
        *(drain_text(row, terms.days) for row in advised(rows)),
        *filter(None, map(kept_text, rows)),
    ]:
        complain_fitting(said)
    if not rows:
        complain_fitting(note if note.startswith(_NO_HOST) else "; ".join([*filter(None, [note]), _NONE]))


def _of_another_day(reader: Reader, as_of: date | None) -> str:
    """Return a note on the last day with data if this day is before `as_of`; otherwise an empty text."""
    if as_of is None:
        return ""
    days = f"SELECT min(log_date) AS first, max(log_date) FILTER (WHERE log_date <= DATE'{as_of}') AS last"
    first, last = reader.ask(f"{days} FROM job_slowdown", 1).rows[0]
    if first is None or last == as_of:
        return ""
    if last is None:
        return f"{_NO_HOST}: there is no data up to {as_of}; the first day is {first}"
    if (age := (as_of - last).days) >= HISTORY_DAYS:
        return f"{_NO_HOST}: the last day with data up to {as_of} is {last}, {age} days before"
    return f"as of {last}, the last day with data up to {as_of}: {counted(age, 'day')} before"


if __name__ == "__main__":
    sys.exit(main())
