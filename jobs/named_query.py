"""Named query: a headline figure of the paper, or a question of fleet owners, over any period.

`straggler headline straggling --from 2026-01-01 --to 2026-03-31`; --help lists the names.
"""

import sys

from jobs.reading.command import reader_entry_point
from jobs.reading.printing import write
from jobs.reading.reader import Reader
from jobs.runtime.arguments import FORMAT, PERIOD, Arguments, option
from jobs.runtime.settings import Settings, SettingsError
from schemas.queries import QUERIES
from schemas.sql_files import first_sentence


@reader_entry_point(
    "named_query",
    option("name NAME", "one of those below", choices=QUERIES),
    *PERIOD,
    FORMAT,
    epilog="\n".join(f"  {each.name:<20}{first_sentence(each.meaning)}" for each in QUERIES.values()),
)
def main(reader: Reader, _settings: Settings, args: Arguments) -> None:
    """Answer a named query over a period, both of its ends included."""
    if args.first and args.last and args.last < args.first:
        raise SettingsError(f"--to {args.last} lies before --from {args.first}")
    write(reader.ask(QUERIES[args.name].over(args.first, args.last)), args.format, sys.stdout)


if __name__ == "__main__":
    sys.exit(main())
