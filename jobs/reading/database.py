"""Access by DuckDB to the tables of a warehouse, as of one publication, and to no other files.

The warehouse is a folder of this machine, or is in an object store that deltalake can read.
"""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import duckdb

from jobs.reading.question import question
from jobs.runtime.nearest import close_match
from jobs.runtime.places import is_url
from jobs.warehouse.delta_tables import ALONE, DeltaTables, Stored, quoted, quoted_list, sql_types
from jobs.warehouse.dialect import SETTINGS, WHOLE
from jobs.warehouse.reader import NO_TABLES, QuestionError
from schemas.tables import TABLES
from schemas.views import VIEWS, mentioned
from schemas.vocabulary import INGESTED_TABLES

IN_ORDER: Final = "SET threads = 1"
"""With one thread, DuckDB adds floating point numbers in the order of rows: equal rows give equal bits."""
_AT_A_TIME: Final = 8
"""Most tables that are opened in parallel."""
_MOST_NAMED: Final = 5
"""Most warehouses that an error names."""


class Database:
    """Tables under one root, as of the latest publication.

    ingested : root of another warehouse, to read the ingested tables from there instead
    """

    def __init__(self, root: str, ingested: str | None = None) -> None:
        self.root = root.rstrip("/")
        self._own = DeltaTables(root)
        self._ingested = self._own if ingested is None else DeltaTables(ingested)
        self._stored: dict[str, Stored | None] = {}

    def check_exists(self, to_do: str = NO_TABLES) -> None:
        """Raise QuestionError if the warehouse has no tables.

        The message names warehouses above, below or beside the root, and ends with `to_do` if there are none.
        """
        if Path(self.root).is_file():
            raise QuestionError(
                f"{self.root} is a file, not the folder of a warehouse; an exported file is for DuckDB itself"
            )
        if not any(self.home(name).is_there(name) for name in TABLES):
            root = Path(self.root)
            inside = [each.name for each in _warehouses(root)]
            if len(inside) > _MOST_NAMED:
                named = ", ".join(inside[:_MOST_NAMED])
                meant = f"{len(inside)} folders in it are warehouses, such as {named}"
            elif len(inside) > 1:
                meant = f"the folders {', '.join(inside[:-1])} and {inside[-1]} in it are warehouses"
            elif inside:
                meant = f"the folder {inside[0]} in it is a warehouse"
            else:
                near = close_match(root.name, [each.name for each in _warehouses(root.parent)])
                beside = f"{near.removesuffix('?')} in {root.parent}?" if near else ""
                meant = self._around() or beside
            raise QuestionError(f"no tables in {self.root}: {meant or to_do}")

    def _around(self) -> str:
        """Return a clause that names the warehouse in which the root lies; empty if it lies in none."""
        above, _, name = self.root.rpartition("/")
        if is_url(self.root):
            is_table = name in TABLES and DeltaTables(above).is_there(name)
            return f"it is a table of the warehouse {above}" if is_table else ""
        here = Path(self.root).absolute()
        outer = next(filter(_has_tables, here.parents), None)
        if outer is None or not here.is_dir():
            return ""
        is_table = here.parent == outer and here.name in TABLES
        return f"it {'is a table of' if is_table else 'lies in'} the warehouse {outer}"

    def stated(self) -> tuple[bytes | None, ...]:
        """Return the latest publication's record under the root and under `ingested`; nights change both."""
        return self._own.stated(), self._ingested.stated()

    def home(self, name: str) -> DeltaTables:
        """Return the DeltaTables with a table: for ingested tables those of `ingested`, else the root's."""
        return self._ingested if name in INGESTED_TABLES else self._own

    def files_of(self, name: str) -> str:
        """Return SQL that reads a table from its files. Raises QuestionError if the files are in a store."""
        if is_url(self.home(name).root):
            raise QuestionError(
                f"{self.root} is in a store: straggler export FILE.duckdb writes one file of it"
            )
        with duckdb.connect(":memory:") as connection:
            return self._rows(name, connection)

    def connection(
        self, names: Collection[str] = (*TABLES, *VIEWS), *, in_order: bool = False
    ) -> duckdb.DuckDBPyConnection:
        """Return a connection that can read these tables and views, and no other files.

        names : names of tables and views, also of those that a view reads. A table that was never written is
            empty.
        in_order : as in DuckDbReader
        """
        connection = duckdb.connect(":memory:", config=ALONE)
        for statement in (*SETTINGS, *([IN_ORDER] if in_order else []), WHOLE):
            connection.execute(statement)
        tables = [name for name in TABLES if name in names]
        self._open(tables)
        for name in tables:
            connection.execute(f"CREATE VIEW {name} AS {self._rows(name, connection)}")
        create_views(connection, names)
        files = [file for each in self._stored.values() if each is not None for file in each.files]
        connection.execute(f"SET allowed_paths = {quoted_list(files)}")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        return connection

    def write(self, target: Path, names: Collection[str]) -> None:
        """Write tables and views to a new DuckDB file, with the meanings of all columns by COMMENT ON."""
        config = {**ALONE, "storage_compatibility_version": "v1.4.0"}  # clients of that version read it too
        with duckdb.connect(str(target), config=config) as connection:
            connection.execute(WHOLE)
            for table in filter(lambda each: each.name in names, TABLES.values()):
                connection.execute(f"CREATE TABLE {table.name} AS {self._rows(table.name, connection)}")
                connection.execute(f"COMMENT ON TABLE {table.name} IS {quoted(table.meaning)}")
                for each in table.columns:
                    said = quoted(each.meaning)
                    connection.execute(f"COMMENT ON COLUMN {table.name}.{each.name} IS {said}")
            create_views(connection, names)
            for view in filter(names.__contains__, VIEWS):
                connection.execute(f"COMMENT ON VIEW {view} IS {quoted(VIEWS[view].meaning)}")

    def _open(self, names: Collection[str]) -> None:
        """Open tables in parallel, because each table in a store takes several requests one after another."""
        if unknown := [name for name in names if name not in self._stored]:
            # The first request of a warehouse reads which versions are published: once, not in each thread.
            self.home(unknown[0]).is_there(unknown[0])
            with ThreadPoolExecutor(_AT_A_TIME) as beside:
                opened = beside.map(lambda name: self.home(name).stored(name), unknown)
                self._stored.update(zip(unknown, opened, strict=True))

    def _rows(self, name: str, connection: duckdb.DuckDBPyConnection) -> str:
        """Return SQL for the rows of a table; a column is null in rows of files without this column."""
        self._open([name])
        table, stored = TABLES[name], self._stored[name]
        empty = f"SELECT {', '.join(f'CAST(NULL AS {kind}) AS {each}' for each, kind in sql_types(table))}"
        if stored is None:
            return f"{empty} WHERE false"
        columns = ", ".join(f"CAST({each} AS {kind}) AS {each}" for each, kind in sql_types(table))
        rows = stored.register(connection)
        return f"SELECT {columns} FROM ({empty} WHERE false UNION ALL BY NAME FROM {rows})"


def create_views(connection: duckdb.DuckDBPyConnection, names: Collection[str]) -> None:
    """Create the views with these names, in a database that has the tables which they read."""
    for view in VIEWS.values():
        if view.name in names:
            connection.execute(f"CREATE VIEW {view.name} AS {in_duckdb(view.sql)}")


@cache
def in_duckdb(sql: str) -> str:
    """Return DuckDB's SQL for a view in Spark SQL; cached, because each new connection needs it again."""
    return question(sql).for_duckdb


def needed(names: Collection[str]) -> set[str]:
    """Return the names of these tables and views, and of all that they read directly or by other views."""
    return mentioned(" ".join(names)) if names else set()


def _warehouses(folder: Path) -> list[Path]:
    """Return the folders in a folder that hold tables; none if it cannot be listed."""
    try:
        return sorted(each for each in folder.iterdir() if each.is_dir() and _has_tables(each))
    except OSError:
        return []


def _has_tables(folder: Path) -> bool:
    for name in TABLES:
        with suppress(OSError):  # of a folder that this user may not read
            if (folder / name / "_delta_log").is_dir():
                return True
    return False
