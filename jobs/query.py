"""Query: SQL over tables and views, printed as a table, CSV, JSON or Markdown.

The SQL is the argument, or standard input: `python -m jobs.query < question.sql`.
"""

import argparse
import logging
import re
import sys
import time
from collections.abc import Collection
from typing import Final

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from jobs.cli import FORMAT, entry_point, not_negative, option
from jobs.nearest import suggestion
from jobs.printing import Result, write
from jobs.progress import working
from jobs.settings import Settings, SettingsError
from jobs.warehouse.tables import Warehouse
from schemas.sql_files import VIEW_NAMES
from schemas.tables import TABLES
from schemas.views import mentioned
from schemas.vocabulary import EXIT_FAILED, TABLE_NAMES

DEFAULT_LIMIT: Final = 1000
"""Rows that are shown when the command does not say how many."""

_STANDARD_INPUT: Final = "-"
_NAMES: Final = (*TABLE_NAMES, *VIEW_NAMES)


class QueryError(SettingsError):
    """Raised for a query that cannot be asked: wrong SQL, unknown names, no tables."""


def run(spark: SparkSession, settings: Settings, sql: str, reads: Collection[str] = ()) -> DataFrame:
    """Return the answer to a query over the warehouse.

    reads : the tables and views that it reads, where they are known; else its words tell
    Raises QueryError where Spark does not understand the query, or where there are no tables at all.
    """
    # What is wrong with a query is told in one line; Spark's own logger would add pages of JSON.
    PySparkLogger.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    warehouse = Warehouse.of(spark, settings)
    if not warehouse.register_views(mentioned(" ".join(reads) or sql)):
        raise QueryError(f"no tables in {warehouse.root}: run a night first, or name another --warehouse")
    try:
        return spark.sql(sql)
    except (AnalysisException, ParseException) as error:
        raise QueryError(_advice(spark, error, sql)) from error


def _sql(text: str) -> str:
    """The SQL itself, or what standard input holds."""
    if text != _STANDARD_INPUT:
        return text
    if sys.stdin.isatty():
        raise argparse.ArgumentTypeError(
            'is missing: such as "SELECT * FROM straggling_jobs", or a file by <'
        )
    return sys.stdin.read()


def _advice(spark: SparkSession, error: PySparkException, sql: str) -> str:
    """Say what Spark does not understand and, for a table or column, which one may be meant."""
    condition, facts = error.getCondition() or "", error.getMessageParameters() or {}
    if condition == "TABLE_OR_VIEW_NOT_FOUND":
        name = facts.get("relationName", "").replace("`", "")
        return f"no table or view {name}: {suggestion(name, _NAMES)}"
    if condition.startswith("UNRESOLVED_COLUMN"):
        return _no_column(spark, facts, sql)
    return _first_line(error)


def _no_column(spark: SparkSession, facts: dict[str, str], sql: str) -> str:
    """Name a column like the one that is not there, of those read and those Spark knows of, or who has it."""
    name = facts.get("objectName", "").replace("`", "").split(".")[-1]
    words = set(re.findall(r"\w+", sql.lower()))
    read = [each for each in _NAMES if each in words]
    offered = facts.get("proposal", "").replace("`", "").split(", ")
    columns = [each.split(".")[-1] for each in offered if each]
    columns += [column for each in read for column in spark.table(each).columns]
    owners = [table.name for table in TABLES.values() if name.lower() in table.column_names]
    if owners and not set(owners) <= set(read):
        return f"no column {name} in {', '.join(read) or 'the query'}: {', '.join(owners)} have it"
    return f"no column {name}: {suggestion(name, list(dict.fromkeys(columns)))}"


def _first_line(error: PySparkException) -> str:
    return str(error).strip().splitlines()[0]


@entry_point(
    "query",
    option(
        "sql SQL",
        'such as "SELECT * FROM straggling_jobs"; - or nothing: read from standard input',
        _sql,
        nargs="?",
        default=_STANDARD_INPUT,
    ),
    FORMAT,
    option("--limit N", "rows to show at most; 0: all (%(default)s)", not_negative, default=DEFAULT_LIMIT),
    is_recorded=False,
)
def main(spark: SparkSession, settings: Settings, args: argparse.Namespace) -> dict[str, int]:
    """Answer a SQL query over the warehouse's tables and views. Times are UTC."""
    started = time.monotonic()
    try:
        with working("query: asking"):
            result = Result.of(run(spark, settings, args.sql), args.limit)
    except PySparkException as error:
        sys.stderr.write(f"query: error: {_first_line(error)}\n")
        raise SystemExit(EXIT_FAILED) from error
    write(result, args.format, sys.stdout)
    if result.is_cut:
        sys.stderr.write(f"only the first {args.limit:,} rows are shown (--limit 0 shows all)\n")
    elif sys.stdout.isatty():
        sys.stderr.write(f"{len(result.rows):,} rows in {time.monotonic() - started:.1f} s\n")
    return {}


if __name__ == "__main__":
    sys.exit(main())
