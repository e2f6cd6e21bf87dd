"""One warehouse through Spark: where its tables lie, and how they are read, replaced and appended to."""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import date
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from jobs.runtime.places import is_url
from jobs.runtime.settings import Settings
from jobs.warehouse import delta_files, table_log
from jobs.warehouse.delta_tables import LATEST_PUBLICATION
from jobs.warehouse.file_frames import frame_of_files
from jobs.warehouse.frames import Rows, StagedRows, spark_schema, with_columns
from jobs.warehouse.publication import Published, Versions, latest_publication
from jobs.warehouse.reader import on_units
from jobs.warehouse.rewriting import without_units
from jobs.warehouse.small_files import SmallFiles, small_files
from jobs.warehouse.stored import create, is_stored, opened
from jobs.warehouse.table_log import logged
from schemas.table import Table
from schemas.tables import TABLES
from schemas.unit import Unit
from schemas.views import VIEWS
from schemas.vocabulary import INGESTED_TABLES, PUBLICATIONS, PUBLISHED_TABLES, RANK_STEPS


class Warehouse:
    """The tables under one root, a folder or a URL of a store.

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
    def own_tables(self) -> tuple[str, ...]:
        """Published tables that lie under this root."""
        return tuple(name for name in PUBLISHED_TABLES if self._home(name) is self)

    def _home(self, name: str) -> "Warehouse":
        return self.ingested if name in INGESTED_TABLES else self

    def exists(self, name: str) -> bool:
        """Whether readers see a table of this name."""
        versions = self._versions(name)
        if versions is not None and is_url(self.path(name)):
            return name in versions
        return (versions is None or name in versions) and is_stored(self.path(name))

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
        return small_files(self.root)

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
        """The same rows in the driver, if they are few; else None."""
        if table.name == RANK_STEPS:
            return None
        if not self.exists(table.name):
            return table.arrow_schema.empty_table()
        version = self._version(table.name)
        return delta_files.few_rows(self.path(table.name), version, table, log_dates, units, also)

    def _rows(self, name: str) -> DataFrame:
        """All rows of a table, as readers see it; of a folder by Delta's reader, which leaves out columns."""
        path, version = self.path(name), self._version(name)
        if is_url(path):
            return frame_of_files(self.spark, TABLES[name], path, logged(opened(path, version)))
        reader = self.spark.read.format("delta")
        return (reader if version is None else reader.option("versionAsOf", version)).load(path)

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
        found = table_log.rows_by_day(self.path(table.name), self._version(table.name))
        return {day: found[day] for day in log_dates if day in found}

    def files(self, table: Table, log_dates: Sequence[date]) -> list[tuple[date, str]]:
        """Log date, and path or URL, of each file with rows of these days."""
        if not self.exists(table.name):
            return []
        path, days = self.path(table.name), table_log.on_days(table, log_dates)
        found = logged(opened(path, self._version(table.name)), days)
        return [(date.fromisoformat(each.partition["log_date"]), f"{path}/{each.name}") for each in found]

    def replace(
        self,
        table: Table,
        rows: Rows,
        log_dates: Sequence[date],
        units: Collection[Unit] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> None:
        """Replace the rows of exactly these days, or of these units alone; all others stay.

        rows : in the driver, or already in files beside the table
        also : values of other columns by which the table is partitioned
        Raises SchemaError, listing all differences, if the rows have not the table's columns, and ValueError
        for rows of other days or units; the table is then as it was.
        """
        path = self.path(table.name)
        replaced = table_log.on_days(table, log_dates) or []
        replaced += [(name, "=", value) for name, value in (also or {}).items()]
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
            before = self._all_rows(table, log_dates, also)
            rows = delta_files.in_place_of(before, rows, units)
        delta_files.put(self.root, table, rows, replaced)

    def _all_rows(self, table: Table, log_dates: Sequence[date], also: Mapping[str, str] | None) -> pa.Table:
        """Rows of some days in the driver, however many: those of a few units will be replaced among them."""
        path, schema = self.path(table.name), table.arrow_schema
        if not is_stored(path):
            return schema.empty_table()
        found = delta_files.few_rows(
            path, self._version(table.name), table, log_dates, also=also, most_bytes=sys.maxsize
        )
        return schema.empty_table() if found is None else found

    def append(self, table: Table, rows: pa.Table, check: Callable[[], None] | None = None) -> None:
        """Add a few rows. Raises SchemaError if they have not the table's columns.

        check : see delta_files.commit
        """
        delta_files.put(self.root, table, rows, None, check)

    def rewrite(self, table: Table, rows: pa.Table, key: str) -> None:
        """Replace the rows that have the same keys, in a table that is not partitioned."""
        delta_files.rewrite(self.root, table, rows, key)

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
        create(self.path(table.name), table)
