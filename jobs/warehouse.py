"""The one module that touches Delta: where tables lie, how they are read, replaced and appended to."""

from collections.abc import Collection, Iterable, Sequence
from datetime import date
from functools import cached_property
from itertools import groupby
from typing import Final

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
from delta.tables import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from jobs.small_frames import held_if_few
from jobs.transforms.landed_files import Unit
from schemas.table import Table, sql_strings
from schemas.tables import TABLES
from schemas.views import VIEWS
from schemas.vocabulary import INGESTED_TABLES

_REFUSED: Final = "_refused"

_CONFLICTS: Final = (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    ProtocolChangedException,
)
"""All that Delta can say of two writers; to Python they have no base in common."""

_NO_TABLE: Final = "DELTA_TABLE_NOT_FOUND"

_when_writers_meet = retry(
    retry=retry_if_exception_type(_CONFLICTS),
    wait=wait_random_exponential(multiplier=0.5, max=10),
    stop=stop_after_attempt(8),
    reraise=True,
)
"""Two writers of one table: the loser looks again and writes anew, after a pause of its own length."""


class Warehouse:
    """The tables under one root, a folder or a URL of a store that Spark reaches.

    silver : root of the warehouse that the ingested tables are read from, where not from this one
    """

    def __init__(self, spark: SparkSession, root: str, silver: str | None = None) -> None:
        self.spark = spark
        self.root = root.rstrip("/")
        self._silver = silver

    @cached_property
    def silver(self) -> "Warehouse":
        """The warehouse of the ingested tables: this one, or the one that it shares them with."""
        return self if self._silver is None else Warehouse(self.spark, self._silver)

    def path(self, name: str) -> str:
        """Where the table of this name lies."""
        if name in INGESTED_TABLES and self.silver is not self:
            return self.silver.path(name)
        return f"{self.root}/{name}"

    def exists(self, name: str) -> bool:
        """Whether a table of this name was ever written."""
        return DeltaTable.isDeltaTable(self.spark, self.path(name))

    def read(
        self, table: Table, log_dates: Sequence[date] | None = None, units: Collection[Unit] | None = None
    ) -> DataFrame:
        """Rows of a table, of all days or of these, or of these units of theirs.

        No rows where the table does not exist yet; a column that it was written without is null.
        """
        if not self.exists(table.name):
            return self.spark.createDataFrame([], spark_schema(table))
        stored = self.spark.read.format("delta").load(self.path(table.name))
        frame = stored.select(
            *(
                name if name in stored.columns else F.lit(None).cast(field.dataType).alias(name)
                for name, field in zip(table.column_names, spark_schema(table), strict=True)
            )
        )
        return frame if log_dates is None else frame.where(on_units(log_dates, units))

    def replace(
        self,
        table: Table,
        frame: DataFrame,
        log_dates: Sequence[date],
        units: Collection[Unit] | None = None,
        also: str | None = None,
    ) -> None:
        """Make the frame the rows of exactly these days, or of these units of theirs; all others stay.

        also : SQL that the rows to be replaced, and those of the frame, fulfil besides
        Raises SchemaError, listing all differences, where the frame is not that of the table, and
        AnalysisException (DELTA_REPLACE_WHERE_MISMATCH) for other rows; the table is then as it was.
        """
        condition = on_units(log_dates, units) + (f" AND {also}" if also else "")
        writer = self._prepared(table, frame).write.format("delta").mode("overwrite")
        writer = writer.option("replaceWhere", condition).option("mergeSchema", value=True)
        _when_writers_meet(writer.save)(self.path(table.name))

    def append(self, table: Table, frame: DataFrame) -> None:
        """Add the frame's rows. Raises SchemaError where the frame is not that of the table."""
        writer = self._prepared(table, frame).write.format("delta").mode("append")
        _when_writers_meet(writer.option("mergeSchema", value=True).save)(self.path(table.name))

    def remove(self, table: Table, condition: str) -> int:
        """Delete the rows that fulfil a condition on the partitions; returns how many they were."""
        if not self.exists(table.name):
            return 0
        rows = self.read(table).where(condition).count()  # a delete of whole partitions does not tell
        if rows:
            _when_writers_meet(DeltaTable.forPath(self.spark, self.path(table.name)).delete)(condition)
        return rows

    def compact(self, table: Table) -> tuple[int, int]:
        """Make few files of the many small ones of each partition; returns how many files became how many."""
        if not self.exists(table.name):
            return 0, 0
        optimize = DeltaTable.forPath(self.spark, self.path(table.name)).optimize()
        metrics = _when_writers_meet(optimize.executeCompaction)().select("metrics.*").collect()[0]
        return metrics["numFilesRemoved"], metrics["numFilesAdded"]

    def unused_files(self, table: Table) -> int:
        """Count the files that no version of the last days needs (Delta keeps them for a week)."""
        return self._vacuum(table, "DRY RUN").count() if self.exists(table.name) else 0

    def vacuum(self, table: Table) -> int:
        """Delete the files that unused_files counts; returns how many they were."""
        files = self.unused_files(table)
        if files:
            self._vacuum(table, "")
        return files

    def _vacuum(self, table: Table, how: str) -> DataFrame:
        path = self.path(table.name).replace("`", "``")
        return self.spark.sql(f"VACUUM delta.`{path}` {how}")

    def refused_path(self, stage: str, log_dates: Sequence[date]) -> str:
        """Where rows of these days are kept that a gate of this stage refused, a folder for each table.

        Of several days: from the first to the last.
        """
        days = [day.isoformat() for day in sorted({min(log_dates), max(log_dates)})]
        return self.path(f"{_REFUSED}/{stage}/{'..'.join(days)}")

    def keep_refused(self, stage: str, log_dates: Sequence[date], name: str, frame: DataFrame) -> None:
        """Keep refused rows of a table for inspection, instead of those kept before of these days."""
        writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer.save(f"{self.refused_path(stage, log_dates)}/{name}")

    def register_views(self, names: Collection[str] = (*TABLES, *VIEWS), condition: str | None = None) -> int:
        """Make tables and views temporary views of the session; return how many tables there are at all.

        names : which ones; a view needs what it reads. A table that is not there yet is empty.
        condition : SQL, which rows of the tables are asked for; where they are few they are read once, now
        """
        tables = {table.name: self.read(table) for table in TABLES.values() if table.name in names}
        if condition is not None:
            tables = held_if_few({name: frame.where(condition) for name, frame in tables.items()})
        for name, frame in tables.items():
            frame.createOrReplaceTempView(name)
        for view in VIEWS.values():
            if view.name in names:
                self.spark.sql(view.sql).createOrReplaceTempView(view.name)
        return sum(map(self.exists, TABLES))

    def _prepared(self, table: Table, frame: DataFrame) -> DataFrame:
        """Check the frame and make sure that its table is there.

        The first write must meet a table too: where it creates one, Delta does not hold it to replaceWhere.
        """
        table.check(to_arrow_schema(frame.schema, timezone="UTC"))
        if not self.exists(table.name):
            _when_writers_meet(self._create)(table)
        return frame

    def _create(self, table: Table) -> None:
        builder = DeltaTable.createIfNotExists(self.spark).location(self.path(table.name))
        builder = builder.comment(table.meaning).addColumns(spark_schema(table))
        try:
            builder.partitionedBy(*table.partition_by).execute()
        except AnalysisException as error:
            if error.getCondition() != _NO_TABLE:
                raise
            self._create_by_rows(table)

    def _create_by_rows(self, table: Table) -> None:
        """Create a table whose first writer ended between the folder of its log and the first commit.

        To CREATE TABLE it is there already, and to all others it is not.
        """
        path = self.path(table.name)
        rows = self.spark.createDataFrame([], spark_schema(table)).write.format("delta").mode("append")
        rows.partitionBy(*table.partition_by).save(path)
        self.spark.sql(
            f"COMMENT ON TABLE delta.`{path.replace('`', '``')}` IS {sql_strings([table.meaning])}"
        )


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
    by_day = groupby(sorted(units), key=lambda unit: unit[0])
    among = [f"(log_date = DATE'{day.isoformat()}' AND {_is_one_of(found)})" for day, found in by_day]
    return f"{days} AND ({' OR '.join(among) or 'false'})"


def _is_one_of(units: Iterable[Unit]) -> str:
    runs = ", ".join(f"({sql_strings(unit[1:])})" for unit in units)
    return f"(job_id, run_id) IN ({runs})"
