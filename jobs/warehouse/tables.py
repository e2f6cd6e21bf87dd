"""Tables on Delta: their places, and how they are read, replaced and appended to."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import date
from functools import cached_property
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from jobs.landing.files import Unit
from jobs.landing.staging import Staging
from jobs.reading.conditions import on_days, on_units
from jobs.runtime.settings import Settings
from jobs.warehouse import local_tables, stored
from jobs.warehouse.publication import Published, Versions, latest_publication
from jobs.warehouse.spark_schema import spark_schema
from jobs.warehouse.staged_rows import StagedRows
from schemas.table import Table, sql_strings
from schemas.tables import TABLES
from schemas.views import VIEWS
from schemas.vocabulary import INGESTED_TABLES, PUBLICATIONS, PUBLISHED_TABLES, RANK_STEPS

_REFUSED: Final = "_refused"

_DAY_OF_FILE: Final = re.compile(r"/log_date=([-0-9]{10})/")
_OF_ONE_TASK: Final = 32 << 20
"""Bytes of rows that travel with one task: Spark's messages hold 128 MB."""


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
        is_seen = name not in PUBLISHED_TABLES or name in self._versions(name, {name: 0})
        return is_seen and stored.is_stored(self.spark, self.path(name))

    def _versions(self, name: str, before_any: Versions) -> Versions:
        versions = self._home(name).published.versions
        return before_any if versions is None else versions

    def _version(self, name: str) -> int | None:
        """Version of a table that readers see; None: the newest."""
        return self._versions(name, {}).get(name) if name in PUBLISHED_TABLES else None

    @cached_property
    def published(self) -> Published:
        """The publication that this reads: the latest at the first read, or a later one made through it."""
        return latest_publication(self.rows(TABLES[PUBLICATIONS]))

    def reread_publication(self) -> None:
        """Read from now on as of the publication that is the latest now."""
        self.__dict__.pop("published", None)

    def stored_version(self, name: str) -> int | None:
        """Newest version of a table, published or not; None without a table."""
        return stored.newest_version(self.spark, self.path(name))

    def restore(self, name: str, version: int | None) -> bool:
        """Restore a table to a version; None: without rows. Returns whether that changed anything."""
        return stored.restore(self.spark, self.path(name), version)

    def read(
        self,
        table: Table,
        log_dates: Sequence[date] | None = None,
        units: Collection[Unit] | None = None,
        also: Mapping[str, str] | None = None,
    ) -> DataFrame:
        """Rows of a table, of all days or of these, or of these units alone.

        also : values of other columns by which the table is partitioned
        Without the table, no rows; a column that it was written without is null.
        """
        if not self.exists(table.name):
            return self.spark.createDataFrame([], spark_schema(table))
        few = self.few_rows(table, log_dates, units, also)
        if few is not None:
            return self.spark.createDataFrame(few, spark_schema(table)).coalesce(1)
        rows = self._rows(table.name)
        frame = rows.select(
            *(
                name if name in rows.columns else F.lit(None).cast(field.dataType).alias(name)
                for name, field in zip(table.column_names, spark_schema(table), strict=True)
            )
        )
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

    def units(self, table: Table, log_dates: Sequence[date]) -> set[Unit]:
        """Units with a row on these days."""
        return set(local_tables.keys_of(self.rows(table, log_dates)))

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
        rows: StagedRows | pa.Table,
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

    def frame(self, table: Table, rows: StagedRows | pa.Table) -> DataFrame:
        """Rows of a table as a frame; rows in the driver sorted by key, few of them in one partition."""
        if isinstance(rows, StagedRows):
            return rows.rows
        if table.differences(rows.schema):
            return self.spark.createDataFrame(rows)
        in_order = rows.select(table.column_names).sort_by([(name, "ascending") for name in table.grain])
        frame = self.spark.createDataFrame(in_order, spark_schema(table))
        return frame.coalesce(1) if rows.nbytes < _OF_ONE_TASK else frame

    def _commit(
        self, table: Table, rows: StagedRows | pa.Table, replaced: local_tables.Filters | None
    ) -> bool:
        """Add rows, or replace these partitions, by a commit alone; returns whether that was possible.

        Not for a store reached by URL, which only Spark can reach, nor where the files lie
        elsewhere, nor for a table made by an earlier version with fewer columns.
        """
        path = self.path(table.name)
        if not self.is_local:
            return False
        if isinstance(rows, StagedRows):
            if path == f"{rows.root}/{table.name}":
                self.create(table)
                rows.is_adopted = local_tables.commit(path, table, rows.files, replaced)
            return rows.is_adopted
        table.check(rows.schema)
        partitions = local_tables.partitions_of(table, rows)
        local_tables.check_replaced(table, partitions, replaced)
        self.create(table)  # before its folder has files
        staging = Staging(self.root, uuid4().hex)
        for partition, some in partitions.items():
            staging.write(table.name, partition, some)
        is_done = local_tables.commit(path, table, staging.close(), replaced)
        if not is_done:
            staging.drop()
        return is_done

    def _write(self, table: Table, rows: StagedRows | pa.Table, mode: str, **options: str) -> None:
        """Write rows by Spark.

        The table is created before: on a write that creates it, Delta does not enforce replaceWhere.
        """
        frame = self.frame(table, rows)
        table.check(to_arrow_schema(frame.schema, timezone="UTC"))
        self.create(table)
        writer = frame.write.format("delta").mode(mode).options(mergeSchema=True, **options)
        writer.save(self.path(table.name))

    def append(self, table: Table, rows: pa.Table) -> None:
        """Add a few rows. Raises SchemaError if they have not the table's columns."""
        if not self._commit(table, rows, None):
            self._write(table, rows, "append")

    def rewrite(self, table: Table, rows: pa.Table, key: str) -> None:
        """Replace the rows that have the same keys, in a table that is not partitioned.

        On this machine only files whose statistics include the key are read.
        """
        path, keys = self.path(table.name), rows[key].to_pylist()
        if not self.is_local:
            self._write(table, rows, "overwrite", replaceWhere=f"{key} IN ({sql_strings(keys)})")
            return
        removed = local_tables.files_with(path, key, keys)
        found = local_tables.rows_in(path, table, removed)
        kept = found.filter(pc.invert(pc.is_in(found[key], pa.array(keys))))
        staging = Staging(self.root, uuid4().hex)
        staging.write(table.name, (), pa.concat_tables([kept, rows]))
        if not local_tables.commit(path, table, staging.close(), None, removed):
            staging.drop()
            self._write(table, rows, "overwrite", replaceWhere=f"{key} IN ({sql_strings(keys)})")

    def refused_path(self, phase: str, log_dates: Sequence[date]) -> str:
        """Folder of the rows of these days that a gate of this phase refused, with a folder for each table.

        Several days are named from the first to the last.
        """
        days = [day.isoformat() for day in sorted({min(log_dates), max(log_dates)})]
        return self.path(f"{_REFUSED}/{phase}/{'..'.join(days)}")

    def keep_refused(self, phase: str, log_dates: Sequence[date], name: str, frame: DataFrame) -> None:
        """Save refused rows of a table for inspection, and replace those saved before for these days."""
        writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        writer.save(f"{self.refused_path(phase, log_dates)}/{name}")

    def register_views(
        self, names: Collection[str] = (*TABLES, *VIEWS), log_dates: Sequence[date] | None = None
    ) -> int:
        """Make tables and views temporary views of the session; return how many tables exist.

        names : which ones; a view needs what it reads. A table that does not exist yet is empty.
        log_dates : days of the tables' rows; all if left out
        """
        for table in TABLES.values():
            if table.name in names:
                self.read(table, log_dates).createOrReplaceTempView(table.name)
        for view in VIEWS.values():
            if view.name in names:
                self.spark.sql(view.sql).createOrReplaceTempView(view.name)
        return sum(map(self.exists, TABLES))

    def create(self, table: Table) -> None:
        """Make a table without rows, unless it exists."""
        if stored.is_stored(self.spark, self.path(table.name)):
            return
        if self.is_local:
            local_tables.create(self.path(table.name), table)
        else:
            self._create(table)

    def _create(self, table: Table) -> None:
        """Create a table by a write of no rows.

        CREATE TABLE takes a table whose first writer died before its first commit for an existing one.
        """
        path = self.path(table.name)
        rows = self.spark.createDataFrame([], spark_schema(table)).write.format("delta").mode("append")
        rows.partitionBy(*table.partition_by).save(path)
        self.spark.sql(
            f"COMMENT ON TABLE delta.`{path.replace('`', '``')}` IS {sql_strings([table.meaning])}"
        )
