"""A warehouse accessed through Spark, which reads, replaces and appends rows of its tables."""

import sys
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.runtime.places import is_url
from jobs.runtime.settings import Settings
from jobs.warehouse import delta_files, latest, table_log
from jobs.warehouse.file_frames import frame_of_files
from jobs.warehouse.frames import spark_schema, with_columns
from jobs.warehouse.reader import on_units
from jobs.warehouse.rewriting import without_units
from jobs.warehouse.rows import FileRows, Rows, StagedRows, rows_in
from jobs.warehouse.small_files import SmallFiles
from jobs.warehouse.stored import create, is_stored, opened
from jobs.warehouse.table_log import logged
from schemas.table import Table
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.views import VIEWS
from schemas.vocabulary import INGESTED_TABLES, PUBLICATIONS, PUBLISHED_TABLES, RANK_STEPS


class Warehouse:
    """Tables under one root, a folder or a URL of a store.

    All tables are read as of the same publication.

    ingested : root of another warehouse that has the ingested tables; None if this one has them
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
        """Return the path or URL of a table."""
        return f"{self._home(name).root}/{name}"

    @property
    def own_tables(self) -> tuple[str, ...]:
        """Return the names of published tables under this root."""
        return tuple(name for name in PUBLISHED_TABLES if self._home(name) is self)

    def _home(self, name: str) -> "Warehouse":
        return self.ingested if name in INGESTED_TABLES else self

    def exists(self, name: str) -> bool:
        """Return whether readers see a table of this name."""
        versions = self._versions(name)
        if versions is not None and is_url(self.path(name)):
            return name in versions
        return (versions is None or name in versions) and is_stored(self.path(name))

    def _versions(self, name: str) -> latest.Versions | None:
        """Return published versions by table; None if `name` is a log table, or before any publication."""
        return self._home(name).published.versions if name in PUBLISHED_TABLES else None

    def _version(self, name: str) -> int | None:
        """Return the version of a table that readers see; None for the newest."""
        return (self._versions(name) or {}).get(name)

    @cached_property
    def published(self) -> latest.Published:
        """Return the publication to read: the latest at first use, or one that this process made later."""
        stated = self.small_files.read(latest.LATEST_PUBLICATION)
        known = latest.latest_stated_in(stated) if is_url(self.root) else None
        return known or self.logged_publication(stated)

    def logged_publication(self, stated: bytes | None) -> latest.Published:
        """Read the latest publication from `publications`; a store takes one request per publication."""
        return latest.latest_publication(self.rows(TABLES[PUBLICATIONS]), self.root, stated)

    def as_of(self, published: latest.Published) -> "Warehouse":
        """Return this warehouse as of an earlier publication."""
        found = Warehouse(self.spark, self.root)
        found.published = published
        return found

    @cached_property
    def small_files(self) -> SmallFiles:
        """Return the small files beside the tables, such as the record of an unfinished publication."""
        return SmallFiles(self.root)

    def read(
        self,
        table: Table,
        log_dates: Sequence[date] | None = None,
        units: Collection[Unit] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> DataFrame:
        """Read rows of a table as a DataFrame, optionally only of these days or units.

        also : required values of partition columns other than log_date, by column
        If the table does not exist, the DataFrame has no rows. Columns and nested fields that the stored
        table lacks are null.
        """
        if not self.exists(table.name):
            return self.spark.createDataFrame([], spark_schema(table))
        few = self.few_rows(table, log_dates, units, also)
        if few is not None:
            return self.spark.createDataFrame(few, spark_schema(table)).coalesce(1)
        path, version = self.path(table.name), self._version(table.name)
        if is_url(path):
            stored = frame_of_files(self.spark, TABLES[table.name], path, logged(opened(path, version)))
        else:  # Delta's reader skips unused columns
            reader = self.spark.read.format("delta")
            stored = (reader if version is None else reader.option("versionAsOf", version)).load(path)
        frame = with_columns(stored, spark_schema(table))
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
        """Read rows as `read` does into the driver if they are few; otherwise return None."""
        if table.name == RANK_STEPS:
            return None
        if not self.exists(table.name):
            return table.arrow_schema.empty_table()
        version = self._version(table.name)
        return delta_files.few_rows(self.path(table.name), version, table, log_dates, units, also)

    def rows(
        self,
        table: Table,
        log_dates: Sequence[date] | None = None,
        units: Collection[Unit] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> pa.Table:
        """Read rows as `read` does into the driver; the table must fit into its memory."""
        few = self.few_rows(table, log_dates, units, also)
        return self.read(table, log_dates, units, also).toArrow() if few is None else few

    def rows_by_day(self, table: Table, log_dates: Sequence[date]) -> dict[date, int]:
        """Return the number of rows on each of these days that has any rows."""
        path, found = self.path(table.name), dict.fromkeys(log_dates, 0)
        for file in self.in_files(table, log_dates).files:
            found[date.fromisoformat(file.partition["log_date"])] += rows_in(path, file)
        return {day: rows for day, rows in found.items() if rows}

    def files(self, table: Table, log_dates: Sequence[date]) -> list[tuple[date, str]]:
        """Return log date and path or URL of each file with rows of these days."""
        path, found = self.path(table.name), self.in_files(table, log_dates).files
        return [(date.fromisoformat(each.partition["log_date"]), f"{path}/{each.name}") for each in found]

    def in_files(self, table: Table, log_dates: Sequence[date]) -> FileRows:
        """Return rows of these days, in the files of a table that readers see."""
        path = self.path(table.name)
        if not self.exists(table.name):
            return FileRows(path, [])
        days = table_log.on_days(table, log_dates)
        return FileRows(path, logged(opened(path, self._version(table.name)), days))

    def replace(
        self,
        table: Table,
        rows: Rows,
        log_dates: Sequence[date],
        units: Collection[Unit] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> None:
        """Replace the rows of exactly these days, or only of these units.

        rows : in the driver, or already in files beside the table
        also : required values of partition columns other than log_date, by column
        Raises SchemaError, listing all differences, if the rows' columns differ from the table's, and
        ValueError for rows of other days or units; the table then stays unchanged.
        """
        path = self.path(table.name)
        replaced = table_log.on_days(table, log_dates, also)
        if isinstance(rows, StagedRows) and units is not None and table.name != RANK_STEPS:
            size = rows.in_files.size + self.in_files(table, log_dates).size
            if size <= delta_files.FEW_BYTES:  # rewritten here as one file, without a Spark job
                rows = rows.in_files.columns(table.arrow_schema)
        if isinstance(rows, StagedRows):
            self.create(table)
            if units is None:
                delta_files.commit(path, table, rows.files, replaced)
            else:
                without_units(self.spark.sparkContext, self.root, table, rows.files, replaced, units)
            rows.is_adopted = True
            return
        if units is not None:
            table.check(rows.schema)
            found = None
            if is_stored(path):
                found = delta_files.few_rows(
                    path, self._version(table.name), table, log_dates, also=also, most_bytes=sys.maxsize
                )
            before = table.arrow_schema.empty_table() if found is None else found
            rows = delta_files.in_place_of(before, rows, units)
        delta_files.put(self.root, table, rows, replaced)

    def append(self, table: Table, rows: pa.Table) -> None:
        """Append a few rows. Raises SchemaError if they do not match the table's columns."""
        delta_files.put(self.root, table, rows)

    def rewrite(self, table: Table, rows: pa.Table, key: str) -> None:
        """In an unpartitioned table, replace the rows that have the same `key` as one of `rows`."""
        delta_files.rewrite(self.root, table, rows, key)

    def register_views(self, names: Collection[str] = (*TABLES, *VIEWS)) -> int:
        """Register tables and views as temporary views; return how many tables exist.

        names : tables and views to register; those that a view reads must be among them
        A table that does not exist yet is registered without rows.
        """
        for table in TABLES.values():
            if table.name in names:
                self.read(table).createOrReplaceTempView(table.name)
        for view in VIEWS.values():
            if view.name in names:
                self.spark.sql(view.sql).createOrReplaceTempView(view.name)
        return sum(map(self.exists, TABLES))

    def create(self, *tables: Table) -> None:
        """Create empty tables unless they exist; do so before files are committed to them."""
        with ThreadPoolExecutor() as beside:
            list(beside.map(create, (self.path(table.name) for table in tables), tables))
