"""A warehouse as DuckDB reads it: its tables as of one publication, and no other file."""

from collections.abc import Collection, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

import duckdb
from deltalake import DeltaTable
from sqlglot import exp

from jobs.reading.dialect import WHOLE
from jobs.reading.question import QuestionError, question
from jobs.runtime.nearest import close_match
from schemas.dictionary import type_name
from schemas.table import Table
from schemas.tables import TABLES
from schemas.views import VIEWS, mentioned
from schemas.vocabulary import INGESTED_TABLES, PUBLICATIONS, PUBLISHED_TABLES

_ALONE: Final[dict[str, str | bool | int | float | list[str]]] = {
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
}
"""No extension is fetched, no variable of Python's is a table, and nothing is written."""
_KEPT_HOURS: Final = 7 * 24
"""For which Delta keeps what versions before the newest need."""
_SETTINGS: Final = (
    "SET TimeZone = 'UTC'",
    "SET parquet_metadata_cache = true",
    "SET ieee_floating_point_ops = false",  # a division by zero is an error, as it is to Spark
)


def is_reached(root: str) -> bool:
    """Whether a root lies where a Database reads it."""
    return "://" not in root


class Database:
    """The tables under one root, all as of the publication that is now the latest.

    silver : root of the warehouse that the ingested tables are read from, where not from this one
    """

    def __init__(self, root: str, silver: str | None = None) -> None:
        self.root = root.rstrip("/")
        self._own = _Tables(root)
        self._ingested = self._own if silver is None else _Tables(silver)
        self._files: dict[str, list[str]] = {}

    def hold_there(self) -> None:
        """Raise QuestionError where there are no tables at all."""
        if not any(self._home(name).is_there(name) for name in TABLES):
            raise QuestionError(f"no tables in {self.root}: {_instead(Path(self.root))}")

    def unused_files(self, name: str) -> int:
        """Count the files of a table that no version of the last week needs."""
        return self._home(name).unused_files(name)

    def connection(self, names: Collection[str] = (*TABLES, *VIEWS)) -> duckdb.DuckDBPyConnection:
        """Return a connection in which these tables and views can be read, and no other file.

        names : a view needs what it reads. A table that is not there yet is empty.
        """
        connection = duckdb.connect(":memory:", config=_ALONE)
        for statement in (*_SETTINGS, WHOLE):
            connection.execute(statement)
        for name in filter(names.__contains__, TABLES):
            connection.execute(f"CREATE VIEW {name} AS {self.rows(name)}")
        create_views(connection, names)
        files = [file for each in self._files.values() for file in each]
        connection.execute(f"SET allowed_paths = {_strings(files)}")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        return connection

    def write(self, target: Path, names: Collection[str]) -> None:
        """Write these tables and views into a new file, with what each of them and of their columns means."""
        config = {**_ALONE, "storage_compatibility_version": "v1.4.0"}  # clients of that version read it too
        with duckdb.connect(str(target), config=config) as connection:
            connection.execute(WHOLE)
            for table in filter(lambda each: each.name in names, TABLES.values()):
                connection.execute(f"CREATE TABLE {table.name} AS {self.rows(table.name)}")
                connection.execute(f"COMMENT ON TABLE {table.name} IS {_string(table.meaning)}")
                for each in table.columns:
                    said = _string(each.meaning)
                    connection.execute(f"COMMENT ON COLUMN {table.name}.{each.name} IS {said}")
            create_views(connection, names)
            for view in filter(names.__contains__, VIEWS):
                connection.execute(f"COMMENT ON VIEW {view} IS {_string(VIEWS[view].meaning)}")

    def rows(self, name: str) -> str:
        """SQL of the rows of a table, to DuckDB: columns that a file was written without are null."""
        if name not in self._files:
            self._files[name] = self._home(name).files(name)
        table, files = TABLES[name], self._files[name]
        empty = f"SELECT {', '.join(f'CAST(NULL AS {kind}) AS {each}' for each, kind in _types(table))}"
        if not files:
            return f"{empty} WHERE false"
        stored = read_parquet(files, [each for each in _types(table) if each[0] in table.partition_by])
        columns = ", ".join(f"CAST({each} AS {kind}) AS {each}" for each, kind in _types(table))
        return f"SELECT {columns} FROM ({empty} WHERE false UNION ALL BY NAME FROM {stored})"

    def _home(self, name: str) -> "_Tables":
        return self._ingested if name in INGESTED_TABLES else self._own


class _Tables:
    """Delta tables under one root."""

    def __init__(self, root: str) -> None:
        self._root = root.rstrip("/")

    @cached_property
    def _published(self) -> Mapping[str, int] | None:
        """Version of each table in the latest publication; None before the first."""
        if not self._is_stored(PUBLICATIONS):
            return None
        files = self._stored(PUBLICATIONS, None)
        if not files:
            return None
        with duckdb.connect(":memory:", config=_ALONE) as connection:
            latest = f"SELECT versions FROM {read_parquet(files, ())} ORDER BY publication DESC LIMIT 1"
            found = connection.execute(latest).fetchone()
        return found[0] if found else None

    def is_there(self, name: str) -> bool:
        """Whether readers see a table of this name."""
        if self._published is None or name not in PUBLISHED_TABLES:
            return self._is_stored(name)
        return name in self._published

    def files(self, name: str) -> list[str]:
        """Files that hold the rows of a table."""
        if not self.is_there(name):
            return []
        published = self._published if name in PUBLISHED_TABLES else None
        for column in TABLES[name].partition_by:  # DuckDB would take its value from there
            if f"/{column}=" in self._root:
                raise QuestionError(f"{self._root}: no folder above a table may be called {column}=...")
        return self._stored(name, None if published is None else published[name])

    def _stored(self, name: str, version: int | None) -> list[str]:
        """Files of a version, by their names in Delta's log: its URLs have other names for odd folders."""
        path = f"{self._root}/{name}"
        files = DeltaTable(path, version=version).get_add_actions().column("path").to_pylist()
        return [f"{path}/{file}" for file in sorted(files)]

    def unused_files(self, name: str) -> int:
        """Count the files of a table that no version of the last week needs."""
        if not self._is_stored(name):
            return 0
        return len(DeltaTable(f"{self._root}/{name}").vacuum(_KEPT_HOURS, dry_run=True, full=True))

    def _is_stored(self, name: str) -> bool:
        return Path(self._root, name).is_dir() and DeltaTable.is_deltatable(f"{self._root}/{name}")


def create_views(connection: duckdb.DuckDBPyConnection, names: Collection[str]) -> None:
    """Make these views of the warehouse views of the database."""
    for view in VIEWS.values():
        if view.name in names:
            connection.execute(f"CREATE VIEW {view.name} AS {question(view.sql).for_duckdb}")


def needed(names: Collection[str]) -> set[str]:
    """Return these tables and views with all that they read."""
    return mentioned(" ".join(names)) if names else set()


def read_parquet(files: Collection[str], partition: Collection[tuple[str, str]]) -> str:
    """SQL of a table function that reads files; partition : names and types of what their folders name."""
    types = ", ".join(f"'{name}': {kind}" for name, kind in partition)
    folders = f", hive_partitioning = true, hive_types = {{{types}}}" if partition else ""
    return f"read_parquet({_strings(files)}, union_by_name = true{folders})"


def _types(table: Table) -> list[tuple[str, str]]:
    """Name, and type as DuckDB spells it, of each column."""
    spelt = ((each.name, type_name(each.type)) for each in table.columns)
    return [(name, exp.DataType.build(kind, dialect="spark").sql("duckdb")) for name, kind in spelt]


def _strings(texts: Collection[str]) -> str:
    return f"[{', '.join(map(_string, texts))}]"


def _string(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _instead(root: Path) -> str:
    """Say which warehouse may be meant, of those that lie beside a folder, or what to do."""
    beside = [each for each in root.parent.iterdir() if each.is_dir()] if root.parent.is_dir() else []
    names = [each.name for each in beside if any((each / name).is_dir() for name in TABLES)]
    near = close_match(root.name, names)
    if near:
        return f"{near.removesuffix('?')} in {root.parent}?"
    return "run a night first, or name another --warehouse"
