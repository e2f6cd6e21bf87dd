"""The one module that touches Delta: where tables lie, how they are read, replaced and appended to."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final
from uuid import uuid4

import pyarrow as pa
from delta import exceptions
from delta.tables import DeltaTable
from deltalake.exceptions import CommitFailedError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from jobs.landing.files import Unit
from jobs.landing.staging import STAGED_TABLES, StagedFile, Staging, remove
from jobs.warehouse import local_tables
from schemas.table import Table, sql_strings
from schemas.tables import TABLES
from schemas.views import VIEWS
from schemas.vocabulary import INGESTED_TABLES, RANK_STEPS

_REFUSED: Final = "_refused"

_CONFLICTS: Final = (
    CommitFailedError,
    *(each for name, each in vars(exceptions).items() if name.endswith("Exception")),
)
"""All that Delta can say of two writers; to Python they have no base in common."""

_DAY_OF_FILE: Final = re.compile(r"/log_date=([-0-9]{10})/[^/]*$")
_OF_ONE_TASK: Final = 32 << 20
"""Bytes of rows that travel with one task: Spark's messages hold 128 MB."""
_PROBED_BYTES: Final = 1 << 20

_when_writers_meet = retry(
    retry=retry_if_exception_type(_CONFLICTS),
    wait=wait_random_exponential(multiplier=0.5, max=10),
    stop=stop_after_attempt(8),
    reraise=True,
)
"""Two writers of one table: the loser looks again and writes anew, after a pause of its own length."""


class NotWritableError(Exception):
    """Raised before any work where a warehouse cannot be written; the message says which, and why."""


def hold_writable(root: str) -> None:
    """Try to write a file into a warehouse of this machine. Raises NotWritableError."""
    if "://" in root:
        return
    try:
        Path(root).mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=root) as file:
            file.write(b"\0" * _PROBED_BYTES)
    except OSError as error:
        raise NotWritableError(f"the warehouse {root} cannot be written: {error.strerror}") from None


@dataclass
class StagedRows:
    """Rows of one table that lie in files of their own, and whether a commit has made them the table's."""

    rows: DataFrame
    files: Sequence[StagedFile]
    root: str
    is_adopted: bool = False

    @property
    def num_rows(self) -> int:
        """How many they are."""
        return sum(file.rows for file in self.files)

    @property
    def are_sound(self) -> bool:
        """Whether whoever wrote them has found their lists of numbers as they must be."""
        return all(file.is_sound for file in self.files)


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

    @property
    def is_local(self) -> bool:
        """Whether the tables lie on this machine, so that few rows need no Spark."""
        return "://" not in self.silver.root + self.root

    def exists(self, name: str) -> bool:
        """Whether a table of this name was ever written."""
        if self.is_local:
            return local_tables.is_table(self.path(name))
        return DeltaTable.isDeltaTable(self.spark, self.path(name))

    def read(
        self, table: Table, log_dates: Sequence[date] | None = None, units: Collection[Unit] | None = None
    ) -> DataFrame:
        """Rows of a table, of all days or of these, or of these units of theirs.

        No rows where the table does not exist yet; a column that it was written without is null.
        """
        if not self.exists(table.name):
            return self.spark.createDataFrame([], spark_schema(table))
        few = self.few_rows(table, log_dates, units)
        if few is not None:
            return self.spark.createDataFrame(few, spark_schema(table)).coalesce(1)
        stored = self.spark.read.format("delta").load(self.path(table.name))
        frame = stored.select(
            *(
                name if name in stored.columns else F.lit(None).cast(field.dataType).alias(name)
                for name, field in zip(table.column_names, spark_schema(table), strict=True)
            )
        )
        return frame if log_dates is None else frame.where(on_units(log_dates, units))

    def few_rows(
        self, table: Table, log_dates: Sequence[date] | None = None, units: Collection[Unit] | None = None
    ) -> pa.Table | None:
        """The same rows, held by the driver, where they are few and on this machine; None otherwise."""
        if not self.is_local or table.name == RANK_STEPS:
            return None
        return local_tables.few_rows(self.path(table.name), table, log_dates, units)

    def rows(
        self, table: Table, log_dates: Sequence[date] | None = None, units: Collection[Unit] | None = None
    ) -> pa.Table:
        """The same rows, of a table that the driver can hold."""
        few = self.few_rows(table, log_dates, units)
        return self.read(table, log_dates, units).toArrow() if few is None else few

    def units(self, table: Table, log_dates: Sequence[date]) -> set[Unit]:
        """Units that have a row on these days."""
        return set(local_tables.keys_of(self.rows(table, log_dates)))

    def files(self, table: Table, log_dates: Sequence[date]) -> list[tuple[date, str]]:
        """Log date, and path or URL, of each file that holds rows of these days."""
        path = self.path(table.name)
        if self.is_local:
            found = local_tables.files(path, local_tables.on_days(table, log_dates))
        elif self.exists(table.name):
            found = self.spark.read.format("delta").load(path).where(on_days(log_dates)).inputFiles()
        else:
            return []
        wanted = {day.isoformat(): day for day in log_dates}
        days = {file: _DAY_OF_FILE.search(file) for file in found}
        return [(wanted[day[1]], file) for file, day in sorted(days.items()) if day and day[1] in wanted]

    def replace(
        self,
        table: Table,
        rows: StagedRows | pa.Table,
        log_dates: Sequence[date],
        units: Collection[Unit] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> None:
        """Make these the rows of exactly these days, or of these units of theirs; all others stay.

        rows : held by the driver, or in files beside the table already; whole days of a
        table on this machine are then replaced without Spark
        also : values of other columns by which the table is partitioned
        Raises SchemaError, listing all differences, where the frame is not that of the table, and
        AnalysisException (DELTA_REPLACE_WHERE_MISMATCH) for other rows; the table is then as it was.
        """
        if units is None and self._put(table, rows, log_dates, also):
            return
        condition = on_units(log_dates, units)
        condition += "".join(f" AND {name} = {sql_strings([each])}" for name, each in (also or {}).items())
        writer = self._prepared(table, self.frame(table, rows)).write.format("delta").mode("overwrite")
        writer = writer.option("replaceWhere", condition).option("mergeSchema", value=True)
        _when_writers_meet(writer.save)(self.path(table.name))

    def frame(self, table: Table, rows: StagedRows | pa.Table) -> DataFrame:
        """Rows of a table as a frame; those that the driver holds by key, few in one partition."""
        if isinstance(rows, StagedRows):
            return rows.rows
        if table.differences(rows.schema):
            return self.spark.createDataFrame(rows)
        in_order = rows.select(table.column_names).sort_by([(name, "ascending") for name in table.grain])
        frame = self.spark.createDataFrame(in_order, spark_schema(table))
        return frame.coalesce(1) if rows.nbytes < _OF_ONE_TASK else frame

    def _put(
        self,
        table: Table,
        rows: StagedRows | pa.Table,
        log_dates: Sequence[date],
        also: Mapping[str, str] | None = None,
    ) -> bool:
        """Replace days by a commit alone, where that can be done; tell whether it was.

        Not where a store is to be reached by URL, which Spark knows the way to, nor where the files lie
        elsewhere, nor where the table was made by an earlier version, with fewer columns.
        """
        if not self.is_local or "log_date" not in table.partition_by:
            return False
        replaced = local_tables.on_days(table, log_dates) or []
        replaced += [(name, "=", each) for name, each in (also or {}).items()]
        if isinstance(rows, StagedRows):
            if self.path(table.name) == f"{rows.root}/{table.name}":
                rows.is_adopted = self._commit(table, rows.files, replaced)
            return rows.is_adopted
        return self._commit_rows(table, rows, replaced)

    def _commit_rows(self, table: Table, rows: pa.Table, replaced: local_tables.Filters | None) -> bool:
        table.check(rows.schema)
        partitions = local_tables.partitions_of(table, rows)
        local_tables.hold_replaced(table, partitions, replaced)
        self.create(table)  # before files lie where it is to be made
        staging = Staging(self.root, uuid4().hex)
        for partition, some in partitions.items():
            staging.write(table.name, partition, some)
        is_done = self._commit(table, staging.close(), replaced)
        if not is_done:
            staging.drop()
        return is_done

    def _commit(
        self, table: Table, files: Sequence[StagedFile], replaced: local_tables.Filters | None
    ) -> bool:
        self.create(table)
        commit = _when_writers_meet(local_tables.commit)
        return bool(commit(self.path(table.name), table, files, replaced))

    @contextmanager
    def staged(self, files: Sequence[StagedFile], root: str) -> Iterator[dict[str, StagedRows]]:
        """Give what lies staged under a root, by table; what is not adopted in the block is removed."""
        by_table = {name: [file for file in files if file.table == name] for name in STAGED_TABLES}
        found = {
            name: StagedRows(self._rows_of(name, some, root), some, root) for name, some in by_table.items()
        }
        try:
            yield found
        finally:
            for each in found.values():
                if not each.is_adopted:
                    remove(root, each.files)

    def _rows_of(self, name: str, files: Sequence[StagedFile], root: str) -> DataFrame:
        schema, folder = spark_schema(TABLES[name]), f"{root}/{name}"
        if not files:
            return self.spark.createDataFrame([], schema)
        reader = self.spark.read.schema(schema).option("basePath", folder)
        return reader.parquet(*(f"{folder}/{file.path}" for file in files)).select(*schema.names)

    def append(self, table: Table, rows: pa.Table) -> None:
        """Add a few rows. Raises SchemaError where they are not those of the table."""
        table.check(rows.schema)
        if self.is_local and self._commit_rows(table, rows, None):
            return
        writer = self._prepared(table, self.frame(table, rows)).write.format("delta").mode("append")
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

    def register_views(
        self, names: Collection[str] = (*TABLES, *VIEWS), log_dates: Sequence[date] | None = None
    ) -> int:
        """Make tables and views temporary views of the session; return how many tables there are at all.

        names : which ones; a view needs what it reads. A table that is not there yet is empty.
        log_dates : of the tables' rows; all where not given
        """
        for table in TABLES.values():
            if table.name in names:
                self.read(table, log_dates).createOrReplaceTempView(table.name)
        for view in VIEWS.values():
            if view.name in names:
                self.spark.sql(view.sql).createOrReplaceTempView(view.name)
        return sum(map(self.exists, TABLES))

    def _prepared(self, table: Table, frame: DataFrame) -> DataFrame:
        """Check the frame and make sure that its table is there.

        The first write must meet a table too: where it creates one, Delta does not hold it to replaceWhere.
        """
        table.check(to_arrow_schema(frame.schema, timezone="UTC"))
        self.create(table)
        return frame

    def create(self, table: Table) -> None:
        """Make a table, without rows, where there is none."""
        if self.exists(table.name):
            return
        if self.is_local:
            _when_writers_meet(local_tables.create)(self.path(table.name), table)
        else:
            _when_writers_meet(self._create)(table)

    def _create(self, table: Table) -> None:
        """Create a table by a write of no rows.

        To CREATE TABLE one is there whose first writer ended before its first commit; to others it is not.
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
