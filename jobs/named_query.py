"""Named query: a headline figure of the paper, or what a fleet's owner asks, over any period.

`python -m jobs.named_query straggling --from 2026-01-01 --to 2026-03-31`; --help lists the names.
"""

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from jobs import query
from jobs.cli import Parser, add_format, common_parser, log_date, run_entry_point
from jobs.printing import Result, write
from jobs.progress import working
from jobs.settings import Settings
from schemas.queries import QUERIES, NamedQuery
from schemas.vocabulary import EXIT_WRONG_SETTINGS


def run(spark: SparkSession, settings: Settings, args: argparse.Namespace) -> DataFrame:
    """Return the answer to the query that the arguments name; raises QueryError where there are no tables."""
    named = QUERIES[args.name]
    return query.run(spark, settings, named.over(args.first, args.last), named.sources)


def main(argv: Sequence[str] | None = None) -> int:
    """Answer one named query on standard output; returns the exit status."""
    return run_entry_point("named_query", _parser(), argv, _answer, is_recorded=False)


def _answer(spark: SparkSession, settings: Settings, args: argparse.Namespace) -> dict[str, int]:
    try:
        with working(f"named_query: {args.name}"):
            result = Result.of(run(spark, settings, args))
    except query.QueryError as error:
        sys.stderr.write(f"named_query: error: {error}\n")
        raise SystemExit(EXIT_WRONG_SETTINGS) from error
    write(result, args.format, sys.stdout)
    return {}


def _parser() -> Parser:
    parser = common_parser("named_query", "Answer a named query over a period, both of its ends included.")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(map(_told, QUERIES.values()))
    parser.add_argument("name", choices=list(QUERIES), metavar="NAME", help="one of those below")
    for end, name in (("from", "first"), ("to", "last")):
        parser.add_argument(
            f"--{end}",
            dest=name,
            type=log_date,
            metavar="DATE",
            help=f"{name} day, as 2026-01-05; open if left out",
        )
    add_format(parser)
    return parser


def _told(named: NamedQuery) -> str:
    """The name of a query and the first sentence of its meaning."""
    sentence = named.meaning.split(". ")[0].removesuffix(".")
    return f"  {named.name:<20}{sentence}."


if __name__ == "__main__":
    sys.exit(main())
