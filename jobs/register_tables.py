"""Register: print SQL that creates the tables and views of a publication in another engine's catalog.

For example `straggler register duckdb --warehouse demo/warehouse > views.sql`.

Each Delta table is registered once, with the prefix delta_ in its name. After each publication, views with
the plain names are replaced: they read the versions that were published together. For DuckDB, views name the
Parquet files of these versions instead.
"""

import re
import sys
from collections.abc import Iterator
from typing import Final

from sqlglot import exp, parse_one
from sqlglot.errors import ErrorLevel, SqlglotError

from jobs.entry_points.command import opened, settings_entry_point
from jobs.reading.database import Database, in_duckdb
from jobs.runtime.arguments import Arguments, option
from jobs.runtime.places import is_url
from jobs.runtime.settings import Settings
from jobs.runtime.terminal import say
from jobs.warehouse.delta_tables import quoted
from jobs.warehouse.dialect import SETTINGS, WHOLE
from jobs.warehouse.reader import QuestionError
from schemas.dictionary import type_name
from schemas.tables import TABLES
from schemas.views import VIEWS

DUCKDB: Final = "duckdb"
SPARK: Final = "spark"
UNITY: Final = "unity"
TRINO: Final = "trino"
GLUE: Final = "glue"
CATALOGS: Final = (SPARK, UNITY, GLUE, TRINO, DUCKDB)
_SQL_OF: Final = {SPARK: SPARK, UNITY: SPARK, TRINO: "trino", GLUE: "athena"}
"""SQL dialect of each catalog, as sqlglot names it."""
_NAMED: Final = "delta_"
"""Prefix of the Delta tables' names in the catalog; the views have the names without it."""
_SAID: Final = {
    GLUE: "Athena reads each table at its newest version: while a night publishes, some tables may be newer "
    "than others.",
    TRINO: "register_table is needed once: it fails if the table is already known.",
}
"""Comments among the statements for a catalog."""
_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", re.ASCII)


def statements(database: Database, catalog: str, schema: str) -> Iterator[str]:
    """Return the SQL statements for a catalog, with comments.

    schema : where tables and views are created, as SCHEMA or CATALOG.SCHEMA
    raises : QuestionError if the catalog cannot reach the tables
    """
    if catalog == GLUE and not is_url(database.root):
        raise QuestionError(f"{database.root} is a folder of this machine: Glue's tables must be in s3://")
    yield f"-- {database.root}: run this again after each night, for views as of its publication."
    if catalog == DUCKDB:
        yield from SETTINGS
        yield WHOLE.replace("CREATE", "CREATE OR REPLACE", 1)
        yield from (f"CREATE OR REPLACE VIEW {name} AS {database.files_of(name)}" for name in TABLES)
        yield from (f"CREATE OR REPLACE VIEW {name} AS {in_duckdb(view.sql)}" for name, view in VIEWS.items())
        return
    yield f"CREATE SCHEMA IF NOT EXISTS {schema}"
    if catalog != GLUE:
        yield f"USE {schema}"
    if catalog in _SAID:
        yield f"-- {_SAID[catalog]}"
    there = [name for name in TABLES if database.home(name).is_there(name)]
    yield from (_registered(database, catalog, schema, name) for name in there)
    travels = "FOR VERSION AS OF" if catalog == TRINO else "VERSION AS OF"
    for table in TABLES.values():
        if table.name in there:
            rows = f"SELECT * FROM {_NAMED}{table.name}"
            version = None if catalog == GLUE else database.home(table.name).version_of(table.name)
            rows += "" if version is None else f" {travels} {version}"
        else:  # not written yet: a relation with the table's columns, but without rows
            columns = []
            for each in table.columns:
                kind = exp.DataType.build(type_name(each.type), dialect=SPARK).sql(_SQL_OF[catalog])
                columns.append(f"CAST(NULL AS {kind}) AS {each.name}")
            rows = f"SELECT {', '.join(columns)} WHERE false"
        yield f"CREATE OR REPLACE VIEW {table.name} AS {rows}"
    yield from _views(catalog)


def _registered(database: Database, catalog: str, schema: str, name: str) -> str:
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


def _views(catalog: str) -> Iterator[str]:
    """Yield statements that create the views in the catalog's SQL; comments name views that are left out."""
    left_out: set[str] = set()
    dialect = _SQL_OF[catalog]
    for view in VIEWS.values():
        sql, why_not = view.sql.rstrip().rstrip(";"), None
        if needs := left_out.intersection(view.sources):
            why_not = f"it reads {min(needs)}"
        elif dialect != SPARK:
            try:
                tree = parse_one(view.sql, read=SPARK)
                sql = tree.sql(dialect, comments=False, unsupported_level=ErrorLevel.RAISE)
            except SqlglotError as error:
                why_not = str(error).splitlines()[0]
        if why_not is None:
            yield f"CREATE OR REPLACE VIEW {view.name} AS {sql}"
        else:
            left_out.add(view.name)
            yield f"-- no view {view.name}: {why_not}"


def _schema(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(f"{text!r} is not a schema such as straggler, or main.straggler with its catalog")
    return text


@settings_entry_point(
    "register_tables",
    option("catalog CATALOG", f"{', '.join(CATALOGS)}", choices=CATALOGS),
    option(
        "--schema NAME",
        "target schema, such as main.straggler with its catalog",
        _schema,
        default="straggler",
    ),
)
def main(settings: Settings, args: Arguments) -> None:
    """Print SQL statements that create the tables and views of the latest publication in a catalog.

    The command itself writes nothing and connects to no catalog: run the statements in the catalog's engine.
    """
    # All are computed before the first is printed: after an error, no incomplete file is run.
    for statement in [*statements(opened(settings), args.catalog, args.schema)]:
        say(*(statement if statement.startswith("--") else f"{statement};").split("\n"))


if __name__ == "__main__":
    sys.exit(main())
