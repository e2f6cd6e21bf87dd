"""Query: SQL over tables and views, printed as a table, CSV or JSON."""

import argparse
import difflib
import logging
import sys
from collections.abc import Collection, Sequence
from typing import Final, Never

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from jobs.cli import Parser, add_format, common_parser, run_entry_point
from jobs.printing import Result, write
from jobs.settings import Settings
from jobs.warehouse import Warehouse
from schemas.views import VIEW_NAMES, mentioned
from schemas.vocabulary import EXIT_FAILED, EXIT_WRONG_SETTINGS, TABLE_NAMES

DEFAULT_LIMIT: Final = 1000
"""Rows that are shown when the command does not say how many."""


class QueryError(Exception):
    """Raised for a query that cannot be asked: wrong SQL, unknown names, no tables."""


def run(spark: SparkSession, settings: Settings, sql: str, reads: Collection[str] = ()) -> DataFrame:
    """Return the answer to a query over the warehouse.

    reads : the tables and views that it reads, where they are known; else its words tell
    Raises QueryError where Spark does not understand the query, or where there are no tables at all.
    """
    warehouse = Warehouse(spark, settings.paths.warehouse, settings.paths.silver)
    if not warehouse.register_views(mentioned(" ".join(reads) or sql)):
        raise QueryError(f"no tables in {warehouse.root}: run a night first, or name another --warehouse")
    try:
        return spark.sql(sql)
    except (AnalysisException, ParseException) as error:
        raise QueryError(_advice(error)) from error


def main(argv: Sequence[str] | None = None) -> int:
    """Answer one query on standard output; returns the exit status."""
    return run_entry_point("query", _parser(), argv, _answer, is_recorded=False)


def _answer(spark: SparkSession, settings: Settings, args: argparse.Namespace) -> dict[str, int]:
    # What is wrong with a query is told in one line; Spark's own logger would add pages of JSON.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        result = Result.of(run(spark, settings, args.sql), args.limit)
    except QueryError as error:
        _fail(str(error), EXIT_WRONG_SETTINGS)
    except PySparkException as error:
        _fail(_first_line(error), EXIT_FAILED)
    write(result, args.format, sys.stdout)
    if result.is_cut:
        sys.stderr.write(f"only the first {args.limit:,} rows are shown (--limit 0 shows all)\n")
    return {}


def _parser() -> Parser:
    parser = common_parser(
        "query", "Answer a SQL query over the warehouse's tables and views. Times are UTC."
    )
    parser.add_argument("sql", metavar="SQL", help='such as "SELECT * FROM straggling_jobs"')
    add_format(parser)
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


def _advice(error: PySparkException) -> str:
    """Say what Spark does not understand and, for a table, which one may be meant."""
    if error.getCondition() != "TABLE_OR_VIEW_NOT_FOUND":
        return _first_line(error)
    name = (error.getMessageParameters() or {}).get("relationName", "").strip("`")
    close = difflib.get_close_matches(name, (*TABLE_NAMES, *VIEW_NAMES), n=1)
    meant = f"did you mean {close[0]}?" if close else f"there are {', '.join((*TABLE_NAMES, *VIEW_NAMES))}"
    return f"no table or view {name}: {meant}"


def _first_line(error: PySparkException) -> str:
    return str(error).strip().splitlines()[0]


def _fail(message: str, status: int) -> Never:
    sys.stderr.write(f"query: error: {message}\n")
    raise SystemExit(status)


if __name__ == "__main__":
    sys.exit(main())
