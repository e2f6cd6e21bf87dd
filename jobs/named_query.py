"""Named query: a headline figure of the paper, or what a fleet's owner asks, over any period.

`python -m jobs.named_query straggling --from 2026-01-01 --to 2026-03-31`; --help lists the names.
"""

import argparse
import sys

from pyspark.sql import DataFrame, SparkSession

from jobs import query
from jobs.cli import FORMAT, PERIOD, entry_point, option
from jobs.printing import Result, write
from jobs.progress import working
from jobs.settings import Settings
from schemas.queries import QUERIES
from schemas.sql_files import first_sentence


def run(spark: SparkSession, settings: Settings, args: argparse.Namespace) -> DataFrame:
    """Return the answer to the query that the arguments name; raises QueryError where there are no tables."""
    named = QUERIES[args.name]
    return query.run(spark, settings, named.over(args.first, args.last), named.sources)


@entry_point(
    "named_query",
    option("name NAME", "one of those below", choices=list(QUERIES)),
    *PERIOD,
    FORMAT,
    epilog="\n".join(f"  {each.name:<20}{first_sentence(each.meaning)}" for each in QUERIES.values()),
    is_recorded=False,
)
def main(spark: SparkSession, settings: Settings, args: argparse.Namespace) -> dict[str, int]:
    """Answer a named query over a period, both of its ends included."""
    with working(f"named_query: {args.name}"):
        result = Result.of(run(spark, settings, args))
    write(result, args.format, sys.stdout)
    return {}


if __name__ == "__main__":
    sys.exit(main())
