"""SQL statements that make the tables and views of a publication known to catalogs of other engines.

Delta's tables are registered once, under names of their own; each publication then makes the views anew, of
the versions that belong together. DuckDB reads the files of those versions by itself.
"""

from collections.abc import Collection, Iterator
from typing import Final

from sqlglot import exp, parse_one
from sqlglot.errors import ErrorLevel, SqlglotError

from jobs.reading.database import Database, in_duckdb
from jobs.runtime.places import is_url
from jobs.warehouse.delta_tables import quoted
from jobs.warehouse.dialect import SETTINGS, WHOLE
from jobs.warehouse.reader import QuestionError
from schemas.dictionary import type_name
from schemas.sql_files import SqlFile
from schemas.table import Table
from schemas.tables import TABLES
from schemas.views import VIEWS

DUCKDB: Final = "duckdb"
SPARK: Final = "spark"
UNITY: Final = "unity"
TRINO: Final = "trino"
GLUE: Final = "glue"
CATALOGS: Final = (SPARK, UNITY, GLUE, TRINO, DUCKDB)
_SQL_OF: Final = {SPARK: SPARK, UNITY: SPARK, TRINO: "trino", GLUE: "athena"}
"""Dialect of each catalog's views."""
_NAMED: Final = "delta_"
"""Prefix of the names of Delta's tables, at their newest version; views have the plain names."""
_SAID: Final = {
    GLUE: "Athena reads each table at its newest version: while a night publishes, tables may be from two "
    "states.",
    TRINO: "register_table is needed once: it fails if the table is already known.",
}


def statements(database: Database, catalog: str, schema: str) -> Iterator[str]:
    """Return the SQL statements for a catalog, with comments.

    schema : where they go, with its catalog before it where there are several
    raises : QuestionError where the catalog could not reach the tables
    """
    if catalog == GLUE and not is_url(database.root):
        raise QuestionError(f"{database.root} is a folder of this machine: Glue's tables must be in s3://")
    yield f"-- {database.root}: run this again after each night, for views as of its publication."
    if catalog == DUCKDB:
        yield from _of_duckdb(database)
        return
    yield f"CREATE SCHEMA IF NOT EXISTS {schema}"
    if catalog != GLUE:
        yield f"USE {schema}"
    if catalog in _SAID:
        yield f"-- {_SAID[catalog]}"
    there = [name for name in TABLES if database.home(name).is_there(name)]
    yield from (_table(database, catalog, schema, name) for name in there)
    for table in TABLES.values():
        rows = _version(database, catalog, table.name) if table.name in there else _none(table, catalog)
        yield f"CREATE OR REPLACE VIEW {table.name} AS {rows}"
    yield from _views(catalog)


def _of_duckdb(database: Database) -> Iterator[str]:
    yield from SETTINGS
    yield WHOLE.replace("CREATE", "CREATE OR REPLACE", 1)
    for name in TABLES:
        yield f"CREATE OR REPLACE VIEW {name} AS {database.files_of(name)}"
    for view in VIEWS.values():
        yield f"CREATE OR REPLACE VIEW {view.name} AS {in_duckdb(view.sql)}"


def _table(database: Database, catalog: str, schema: str, name: str) -> str:
    """Return the SQL statement that makes a Delta table known to a catalog."""
    place, table = f"{database.home(name).root}/{name}", f"{_NAMED}{name}"
    if catalog == SPARK and place.startswith("s3://"):
        place = f"s3a{place.removeprefix('s3')}"
    if catalog == GLUE:
        kind = "TBLPROPERTIES ('table_type' = 'DELTA')"
        return f"CREATE EXTERNAL TABLE IF NOT EXISTS {schema}.{table} LOCATION {quoted(place)} {kind}"
    if catalog == TRINO:
        above, _, own = schema.rpartition(".")
        names = f"schema_name => {quoted(own)}, table_name => {quoted(table)}"
        before = f"{above}." if above else ""
        return f"CALL {before}system.register_table({names}, table_location => {quoted(place)})"
    return f"CREATE TABLE IF NOT EXISTS {table} USING delta LOCATION {quoted(place)}"


def _version(database: Database, catalog: str, name: str) -> str:
    version = None if catalog == GLUE else database.home(name).version_of(name)
    travels = {TRINO: "FOR VERSION AS OF"}.get(catalog, "VERSION AS OF")
    return f"SELECT * FROM {_NAMED}{name}" + ("" if version is None else f" {travels} {version}")


def _none(table: Table, catalog: str) -> str:
    """Return SQL of a relation without rows, with the column types of a table that does not exist yet."""
    columns = (
        f"CAST(NULL AS {_type(type_name(each.type), catalog)}) AS {each.name}" for each in table.columns
    )
    return f"SELECT {', '.join(columns)} WHERE false"


def _type(name: str, catalog: str) -> str:
    return exp.DataType.build(name, dialect=SPARK).sql(_SQL_OF[catalog])


def _views(catalog: str) -> Iterator[str]:
    """Return the views of the warehouse in the catalog's SQL; name the views that cannot be transpiled."""
    left_out: set[str] = set()
    for view in VIEWS.values():
        try:
            sql = _transpiled(view, _SQL_OF[catalog], left_out)
            yield f"CREATE OR REPLACE VIEW {view.name} AS {sql}"
        except SqlglotError as error:
            left_out.add(view.name)
            yield f"-- no view {view.name}: {str(error).splitlines()[0]}"


def _transpiled(view: SqlFile, dialect: str, left_out: Collection[str]) -> str:
    """Return a view's SQL in another dialect; raise SqlglotError if it or a view that it reads has none."""
    if needs := {*view.sources}.intersection(left_out):
        raise SqlglotError(f"it reads {min(needs)}")
    if dialect == SPARK:
        return view.sql.rstrip().rstrip(";")
    return parse_one(view.sql, read=SPARK).sql(dialect, comments=False, unsupported_level=ErrorLevel.RAISE)
