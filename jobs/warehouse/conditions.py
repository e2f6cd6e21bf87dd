"""What Spark is told of a table: its columns, and which of its rows are meant."""

from collections.abc import Collection, Sequence
from datetime import date
from itertools import groupby

from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from jobs.landing.files import Unit
from schemas.table import Table, sql_strings


def spark_schema(table: Table) -> StructType:
    """Columns of a table as Spark types."""
    return from_arrow_schema(table.arrow_schema)


def on_days(log_dates: Sequence[date]) -> str:
    """SQL that holds for rows of these days."""
    days = ", ".join(f"DATE'{day.isoformat()}'" for day in sorted(set(log_dates)))
    return f"log_date IN ({days})"


def on_units(log_dates: Sequence[date], units: Collection[Unit] | None) -> str:
    """SQL that holds for rows of these days, or of these units of theirs.

    The days stand by themselves: Delta then looks into no other day's files.
    """
    days = on_days(log_dates)
    if units is None:
        return days
    among = []
    for day, of_day in groupby(sorted(units), key=lambda unit: unit[0]):
        runs = ", ".join(f"({sql_strings(unit[1:])})" for unit in of_day)
        among.append(f"(log_date = DATE'{day.isoformat()}' AND (job_id, run_id) IN ({runs}))")
    return f"{days} AND ({' OR '.join(among) or 'false'})"
