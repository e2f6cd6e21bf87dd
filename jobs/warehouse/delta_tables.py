"""Delta tables under one root for DuckDB: local files, or Arrow datasets of a store."""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

import duckdb
from deltalake import DeltaTable
from sqlglot import exp

from jobs.runtime.places import check_warehouse, is_url, not_readable, said_by, storage_options, usual
from jobs.warehouse.file_digests import Kept, check_opened, kept_digests
from jobs.warehouse.latest import LATEST_PUBLICATION, Versions, latest_publication, latest_stated_in
from jobs.warehouse.reader import AnswerError, QuestionError
from jobs.warehouse.small_files import SmallFiles
from jobs.warehouse.stored import opened, vacuum
from schemas.dictionary import type_name
from schemas.table import Table
from schemas.tables import TABLES
from schemas.vocabulary import PUBLICATIONS, PUBLISHED_TABLES

ALONE: Final[dict[str, str | bool | int | float | list[str]]] = {
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
}
"""DuckDB's settings: fetch no extension, read no Python variable as a table, write no temporary file."""
_IN_STORE: Final = "in_store_"
"""Prefix of the names under which DuckDB knows the tables of a store; a question cannot use such a name."""
_PATTERN: Final = re.compile(r"[*?[]")
"""Characters that DuckDB reads as wildcards in a path, unless each is in brackets."""
KEPT_HOURS: Final = 7 * 24
"""Time for which Delta keeps files that only older versions need. [h]"""


class Stored(NamedTuple):
    """Source from which DuckDB reads the rows of one table.

    source : table function, or name of a registered dataset, for a FROM clause
    files : local files that DuckDB opens, all as escaped patterns, then all as paths; none in a store
    dataset : Arrow data of a table in a store, to be registered under the name `source`
    """

    source: str
    files: tuple[str, ...] = ()
    dataset: Any = None

    def register(self, connection: duckdb.DuckDBPyConnection) -> str:
        """Register the dataset, if there is one, with a connection; return the source for SQL."""
        if self.dataset is not None:
            connection.register(self.source, self.dataset)
        return self.source


class DeltaTables:
    """Delta tables under one root. Raises QuestionError for a root that deltalake would misread."""

    def __init__(self, root: str) -> None:
        if odd := not_readable(root):
            raise QuestionError(f"the warehouse {root} cannot be read: {odd}")
        check_warehouse(usual(root))
        self.root = usual(root).rstrip("/")
        self._is_store = is_url(root)

    @cached_property
    def _published(self) -> Versions | None:
        """Return the version of each table in the latest publication; None before the first publication.

        Raises DamagedError if `publications` lacks the publication that the file LATEST_PUBLICATION states.
        """
        stated = self.stated()
        known = latest_stated_in(stated) if self._is_store else None
        if known is None:
            stored = self._open(PUBLICATIONS, None) if self._is_stored(PUBLICATIONS) else None
            rows = TABLES[PUBLICATIONS].arrow_schema.empty_table()
            if stored is not None:
                with duckdb.connect(":memory:", config=ALONE) as connection:
                    columns = f"SELECT publication, versions FROM {stored.register(connection)}"
                    latest = f"{columns} ORDER BY publication DESC LIMIT 1"
                    rows = connection.sql(latest).to_arrow_table()
            known = latest_publication(rows, self.root, stated)
        return known.versions

    def stated(self) -> bytes | None:
        """Return the content of the file LATEST_PUBLICATION; None before the first publication."""
        with self._answering():
            return SmallFiles(self.root).read(LATEST_PUBLICATION)

    @cached_property
    def _digests(self) -> Mapping[str, Kept]:
        return kept_digests(self.root)

    def is_there(self, name: str) -> bool:
        """Return whether readers see a table of this name."""
        if self._published is None or name not in PUBLISHED_TABLES:
            return self._is_stored(name)
        return name in self._published

    def version_of(self, name: str) -> int | None:
        """Return the version of a table that readers see; None if this is the newest version."""
        published = self._published if name in PUBLISHED_TABLES else None
        return None if published is None else published.get(name)

    def stored(self, name: str) -> Stored | None:
        """Return the source of a table's rows as readers see the table; None if it has no files."""
        if not self.is_there(name):
            return None
        return self._open(name, self.version_of(name))

    def _open(self, name: str, version: int | None) -> Stored | None:
        """Open one version of a table; return None if the version has no files.

        File names come from the Delta log, which percent-encodes special characters of folder names.
        """
        path, declared = f"{self.root}/{name}", TABLES[name]
        is_cached = version is not None or not self._is_store  # a store's newest may have changed
        with self._answering():
            options = storage_options(path)
            table = opened(path, version) if is_cached else DeltaTable(path, storage_options=options)
        log = table.get_add_actions()
        files = log.column("path").to_pylist()
        if not files:
            return None
        if self._is_store:
            with self._answering():  # imported only for a store, because pyarrow.dataset takes a second
                rows_of = import_module("jobs.warehouse.store_files").rows_of
                rows = rows_of(path, table, declared.arrow_schema)
            return Stored(f"{_IN_STORE}{name}", dataset=rows)
        for column in declared.partition_by:  # DuckDB would take the column's value from there
            if f"/{column}=" in self.root:
                raise QuestionError(f"{self.root}: no folder above a table may be named {column}=...")
        if "\\" in self.root and _PATTERN.search(self.root):
            raise QuestionError(f"{self.root}: no folder above a table may have a backslash and one of * ? [")
        check_opened(
            path, dict(zip(files, log.column("size_bytes").to_pylist(), strict=True)), self._digests.get(name)
        )
        paths = as_patterns(path, files)
        return Stored(read_parquet(declared, paths), (*paths, *(f"{path}/{file}" for file in files)))

    def unused_files(self, name: str) -> int:
        """Count the files of a table that no version of the last week refers to."""
        if not self._is_stored(name):
            return 0
        return len(vacuum(f"{self.root}/{name}", KEPT_HOURS, is_trial=True))

    def _is_stored(self, name: str) -> bool:
        if not self._is_store and not Path(self.root, name).is_dir():
            return False
        with self._answering():
            path = f"{self.root}/{name}"
            return DeltaTable.is_deltatable(path, storage_options=storage_options(path))

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Raise an OSError from a store as AnswerError, which names the root and what to set."""
        try:
            yield
        except OSError as error:
            if self._is_store:
                reach = "give address and credentials in the environment"
                raise AnswerError(f"{self.root}: {said_by(error)}; {reach}") from error
            raise


def as_patterns(path: str, files: Collection[str]) -> list[str]:
    """Return the paths of files of a local table as patterns for DuckDB that match only these files."""
    return [_PATTERN.sub(r"[\g<0>]", f"{path}/{file}") for file in sorted(files)]


def read_parquet(table: Table, patterns: Collection[str]) -> str:
    """Return DuckDB's table function, as SQL text, that reads files of a table. patterns : see as_patterns"""
    partition = [each for each in sql_types(table) if each[0] in table.partition_by]
    types = ", ".join(f"'{name}': {kind}" for name, kind in partition)
    folders = f", hive_partitioning = true, hive_types = {{{types}}}" if partition else ""
    return f"read_parquet({quoted_list(patterns)}, union_by_name = true{folders})"


def sql_types(table: Table) -> list[tuple[str, str]]:
    """Return the name and DuckDB type of each column."""
    return [(each.name, _in_duckdb(type_name(each.type))) for each in table.columns]


@cache
def _in_duckdb(spark_type: str) -> str:
    """Return DuckDB's type for a Spark type; cached, because every connection asks for many columns."""
    return exp.DataType.build(spark_type, dialect="spark").sql("duckdb")


def quoted_list(texts: Collection[str]) -> str:
    """Return a DuckDB literal for a list of texts."""
    return f"[{', '.join(map(quoted, texts))}]"


def quoted(text: str) -> str:
    """Return a DuckDB literal for a text."""
    return "'" + text.replace("'", "''") + "'"
