"""Query: SQL over tables and views, printed as a table, CSV or JSON."""

import argparse
import sys
from collections.abc import Sequence

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame, SparkSession

from jobs.cli import Parser, common_parser, run_entry_point
from jobs.printing import FORMATS, Result, write
from jobs.settings import Settings
from jobs.warehouse import Warehouse

DEFAULT_LIMIT = 1000
"""Rows that are shown when the command does not say how many."""


class QueryError(Exception):
    """Raised for a query that cannot be asked: wrong SQL, unknown names, no tables."""


def run(spark: SparkSession, settings: Settings, sql: str) -> DataFrame:
    """Return the answer to a query over the warehouse.

    Raises QueryError where Spark does not understand the query, or where there are no tables at all.
    """
    warehouse = Warehouse(spark, settings.paths.warehouse)
    if not warehouse.register_views():
        raise QueryError(f"no tables in {warehouse.root}: run a night first, or name another --warehouse")
    try:
        return spark.sql(sql)
    except (AnalysisException, ParseException) as error:
        raise QueryError(str(error).strip().splitlines()[0]) from error


def main(argv: Sequence[str] | None = None) -> int:
    """Answer one query on standard output; returns the exit status."""
    parser = _parser()

    def body(spark: SparkSession, settings: Settings, args: argparse.Namespace) -> dict[str, int]:
        try:
            frame = run(spark, settings, args.sql)
        except QueryError as error:
            parser.error(str(error))
        result = Result.of(frame, args.limit)
        write(result, args.format, sys.stdout)
        if result.is_cut:
            sys.stderr.write(f"only the first {args.limit:,} rows are shown (--limit 0 shows all)\n")
        return {}

    return run_entry_point("query", parser, argv, body, is_recorded=False)


def _parser() -> Parser:
    parser = common_parser(
        "query", "Answer a SQL query over the warehouse's tables and views. Times are UTC."
    )
    parser.add_argument("sql", metavar="SQL", help='such as "SELECT * FROM straggling_jobs"')
    parser.add_argument(
        "--format", choices=FORMATS, default=FORMATS[0], help="table rounds numbers; csv and json are exact"
    )
    parser.add_argument(
        "--limit",
        type=_limit,
        default=DEFAULT_LIMIT,
        metavar="N",
        help="rows to show at most; 0: all (%(default)s)",
    )
    return parser


def _limit(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rows")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
