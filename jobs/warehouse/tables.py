"""One warehouse through Spark: where its tables lie, and how they are read, replaced and appended to."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from functools import cached_property
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.reading.delta_tables import LATEST_PUBLICATION
from jobs.reading.reader import on_days, on_units
from jobs.runtime.settings import Settings
from jobs.warehouse import local_tables, stored
from jobs.warehouse.frames import Rows, StagedRows, frame_of, spark_schema, with_columns
from jobs.warehouse.publication import Published, Versions, latest_publication
from jobs.warehouse.small_files import SmallFiles, small_files
from schemas.table import Table, sql_strings
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.views import VIEWS
from schemas.vocabulary import INGESTED_TABLES, PUBLICATIONS, PUBLISHED_TABLES, RANK_STEPS

_DAY_OF_FILE: Final = re.compile(r"/log_date=([-0-9]{10})/")


class Warehouse:
    """The tables under one root, a folder or a URL of a store that Spark reaches.

    Tables are read as of one publication, all together.

    ingested : root of another warehouse to read the ingested tables from; left out, this one
    """

    def __init__(self, spark: SparkSession, root: str, ingested: str | None = None) -> None:
        self.spark = spark
        self.root = root.rstrip("/")
        self.ingested: Warehouse = self if ingested is None else Warehouse(spark, ingested)

    @classmethod
    def of(cls, spark: SparkSession, settings: Settings) -> "Warehouse":
        """Return the warehouse that the settings name."""
        return cls(spark, settings.paths.warehouse, settings.paths.ingested)

    def path(self, name: str) -> str:
        """Path of the table of this name."""
        return f"{self._home(name).root}/{name}"

    @property
    def is_local(self) -> bool:
        """Whether the tables lie on this machine, so that few rows need no Spark."""
        return "://" not in self.ingested.root + self.root

    @property
    def own_tables(self) -> tuple[str, ...]:
        """Published tables that lie under this root."""
        return tuple(name for name in PUBLISHED_TABLES if self._home(name) is self)

    def _home(self, name: str) -> "Warehouse":
        return self.ingested if name in INGESTED_TABLES else self

    def exists(self, name: str) -> bool:
        """Whether readers see a table of this name."""
        versions = self._versions(name)
        return (versions is None or name in versions) and stored.is_stored(self.spark, self.path(name))

    def _versions(self, name: str) -> Versions | None:
        """Versions of the tables that are published with this one; None for a log, and before any is."""
        return self._home(name).published.versions if name in PUBLISHED_TABLES else None

    def _version(self, name: str) -> int | None:
        """Version of a table that readers see; None: the newest."""
        return (self._versions(name) or {}).get(name)

    @cached_property
    def published(self) -> Published:
        """The publication that this reads: the latest at the first read, or a later one made through it."""
        stated = self.small_files.read(LATEST_PUBLICATION)
        return latest_publication(self.rows(TABLES[PUBLICATIONS]), self.root, stated)

    def as_of(self, published: Published) -> "Warehouse":
        """Return the same warehouse as it was read at an earlier publication."""
        found = Warehouse(self.spark, self.root)
        found.published = published
        return found

    @cached_property
    def small_files(self) -> SmallFiles:
        """Small files beside the tables."""
        return small_files(self.spark, self.root)

    def read(
        self,
        table: Table,
        log_dates: Sequence[date] | None = None,
        units: Collection[Unit] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> DataFrame:
        """Rows of a table, of all days or of these, or of these units alone.

        also : values of other columns by which the table is partitioned
        Without the table, no rows; a column, or a field within one, that it was written without is null.
        """
        if not self.exists(table.name):
            return self.spark.createDataFrame([], spark_schema(table))
        few = self.few_rows(table, log_dates, units, also)
        if few is not None:
            return self.spark.createDataFrame(few, spark_schema(table)).coalesce(1)
        frame = with_columns(self._rows(table.name), spark_schema(table))
        for name, value in (also or {}).items():
            frame = frame.where(F.col(name) == value)
        return frame if log_dates is None else frame.where(on_units(log_dates, units))

    def few_rows(
        self,
        table: Table,
        log_dates: Sequence[date] | None = None,
        units: Collection[Unit] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> pa.Table | None:
        """The same rows in the driver, if they are few and on this machine; else None."""
        if not self.is_local or table.name == RANK_STEPS:
            return None
        if not self.exists(table.name):
            return table.arrow_schema.empty_table()
        version = self._version(table.name)
        return local_tables.few_rows(self.path(table.name), version, table, log_dates, units, also)

    def _rows(self, name: str) -> DataFrame:
        """All rows of a table, as readers see it."""
        reader, version = self.spark.read.format("delta"), self._version(name)
        return (reader if version is None else reader.option("versionAsOf", version)).load(self.path(name))

    def rows(
        self,
        table: Table,
        log_dates: Sequence[date] | None = None,
        units: Collection[Unit] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> pa.Table:
        """The same rows, of a table that fits in the driver."""
        few = self.few_rows(table, log_dates, units, also)
        return self.read(table, log_dates, units, also).toArrow() if few is None else few

    def rows_by_day(self, table: Table, log_dates: Sequence[date]) -> dict[date, int]:
        """Number of rows of each of these days that has any."""
        if not self.exists(table.name):
            return {}
        if self.is_local:
            found = local_tables.rows_by_day(self.path(table.name), self._version(table.name))
            return {day: found[day] for day in log_dates if day in found}
        counts = self._rows(table.name).where(on_days(log_dates)).groupBy("log_date").count()
        return {row["log_date"]: row["count"] for row in counts.collect()}

    def files(self, table: Table, log_dates: Sequence[date]) -> list[tuple[date, str]]:
        """Log date, and path or URL, of each file with rows of these days."""
        if not self.exists(table.name):
            return []
        if self.is_local:
            days = local_tables.on_days(table, log_dates)
            found = local_tables.files(self.path(table.name), days, self._version(table.name))
        else:
            found = self._rows(table.name).where(on_days(log_dates)).inputFiles()
        wanted = {day.isoformat(): day for day in log_dates}
        days_of = {file: _DAY_OF_FILE.search(file) for file in found}
        return [(wanted[day[1]], file) for file, day in sorted(days_of.items()) if day and day[1] in wanted]

    def replace(
        self,
        table: Table,
        rows: Rows,
        log_dates: Sequence[date],
        units: Collection[Unit] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> None:
        """Replace the rows of exactly these days, or of these units alone; all others stay.

        rows : in the driver, or already in files beside the table; whole days of a
        table on this machine are then replaced without Spark
        also : values of other columns by which the table is partitioned
        Raises SchemaError, listing all differences, if the frame has not the table's columns, and
        AnalysisException (DELTA_REPLACE_WHERE_MISMATCH) for other rows; the table is then as it was.
        """
        values = (also or {}).items()
        if units is not None and isinstance(rows, pa.Table):
            stored_rows = self.few_rows(table, log_dates, also=also)
            if stored_rows is not None:
                table.check(rows.schema)
                rows, units = local_tables.in_place_of(stored_rows, rows, units), None
        if units is None and "log_date" in table.partition_by:
            replaced = local_tables.on_days(table, log_dates) or []
            replaced += [(name, "=", each) for name, each in values]
            if self._commit(table, rows, replaced):
                return
        condition = on_units(log_dates, units)
        condition += "".join(f" AND {name} = {sql_strings([each])}" for name, each in values)
        self._write(table, rows, "overwrite", replaceWhere=condition)

    def _commit(self, table: Table, rows: Rows, replaced: local_tables.Filters | None) -> bool:
        """Add rows, or replace these partitions, by a commit alone; returns whether that was possible.

        Not for a store reached by URL, which only Spark can reach, nor where the files lie
        elsewhere, nor for a table made by an earlier version with fewer columns or fields.
        """
        path = self.path(table.name)
        if not self.is_local:
            return False
        if isinstance(rows, StagedRows):
            if path == f"{rows.root}/{table.name}":
                self.create(table)
                rows.is_adopted = local_tables.commit(path, table, rows.files, replaced)
            return rows.is_adopted
        return local_tables.put(self.root, table, rows, replaced)

    def _write(self, table: Table, rows: Rows, mode: str, **options: str) -> None:
        """Write rows by Spark.

        The table is created before: on a write that creates it, Delta does not enforce replaceWhere.
        """
        frame = frame_of(self.spark, table, rows)
        table.check(to_arrow_schema(frame.schema, timezone="UTC"))
        self.create(table)
        writer = frame.write.format("delta").mode(mode).options(mergeSchema=True, **options)
        writer.save(self.path(table.name))

    def append(self, table: Table, rows: pa.Table) -> None:
        """Add a few rows. Raises SchemaError if they have not the table's columns."""
        if not self._commit(table, rows, None):
            self._write(table, rows, "append")

    def rewrite(self, table: Table, rows: pa.Table, key: str) -> None:
        """Replace the rows that have the same keys, in a table that is not partitioned."""
        condition = f"{key} IN ({sql_strings(rows[key].to_pylist())})"
        if self.is_local:
            local_tables.rewrite(self.path(table.name), rows, condition)
        else:
            self._write(table, rows, "overwrite", replaceWhere=condition)

    def register_views(self, names: Collection[str] = (*TABLES, *VIEWS)) -> int:
        """Make tables and views temporary views of the session; return how many tables exist.

        names : which ones; a view needs what it reads. A table that does not exist yet is empty.
        """
        for table in TABLES.values():
            if table.name in names:
                self.read(table).createOrReplaceTempView(table.name)
        for view in VIEWS.values():
            if view.name in names:
                self.spark.sql(view.sql).createOrReplaceTempView(view.name)
        return sum(map(self.exists, TABLES))

    def create(self, table: Table) -> None:
        """Make a table without rows, unless it exists."""
        stored.create(self.spark, self.path(table.name), table)
