"""Statements for catalogs of other engines show all tables as of one publication, even after later writes."""

import re
from pathlib import Path
from typing import cast

import duckdb
import pytest
import sqlglot

from jobs.reading.database import Database, needed
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.register_tables import CATALOGS, GLUE, TRINO, main, statements
from jobs.warehouse.tables import Warehouse
from schemas.tables import TABLES
from schemas.views import VIEWS
from schemas.vocabulary import JOB_SLOWDOWN
from tests.jobs.conftest import Ask
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.examples import table_rows
from tests.support.history import DAYS, History

COUNTED = ("job_slowdown", "jobs", "rejects", "fix_first", "job_days", "waterfall", "fleet_month")


class Stored:
    """Substitute for a warehouse in a store that lacks the table rejects."""

    root = "s3://bucket/fleet's"

    def is_there(self, name: str) -> bool:
        return name != "rejects"

    def version_of(self, name: str) -> int | None:
        return 7 if name == JOB_SLOWDOWN else None

    def home(self, _: str) -> "Stored":
        return self


def test_spark_and_duckdb_see_what_a_reader_sees_and_keep_it(history: History, call: Ask) -> None:
    root = history.settings.paths.warehouse
    reader = DuckDbReader(Database(root))
    expected = {name: reader.rows(f"SELECT count(*) AS n FROM {name}")["n"][0].as_py() for name in COUNTED}
    assert expected["job_slowdown"] == 4
    made = {}
    for catalog in ("spark", "duckdb"):
        status, made[catalog], err = call(main, catalog, "--warehouse", root, "--schema", "seen")
        assert (status, err) == (0, "")
    # In a new session, because a temporary view from another test would hide a table of the same name.
    spark = history.spark.newSession()
    try:
        for statement in made["spark"].split(";\n"):
            made_of = re.search(r"(?:EXISTS delta_|VIEW )(\w+)", statement)
            if statement.strip() and (made_of is None or made_of[1] in needed(COUNTED)):
                spark.sql(re.sub(r"^--.*\n", "", statement, flags=re.MULTILINE))
        table = TABLES[JOB_SLOWDOWN]
        Warehouse(spark, root).replace(table, table.arrow_schema.empty_table(), DAYS)
        assert spark.table("delta_job_slowdown").count() == 0
        assert {name: spark.table(f"seen.{name}").count() for name in COUNTED} == expected
    finally:
        spark.sql("DROP SCHEMA IF EXISTS seen CASCADE")
    with duckdb.connect(":memory:") as connection:
        connection.execute(made["duckdb"])
        for name in COUNTED:
            assert connection.execute(f"SELECT count(*) FROM {name}").fetchall() == [(expected[name],)]


@pytest.mark.parametrize(
    ("catalog", "dialect"), [("unity", "databricks"), (TRINO, "trino"), (GLUE, "athena")]
)
def test_statements_are_of_the_catalogs_sql(catalog: str, dialect: str) -> None:
    made = list(statements(cast("Database", Stored()), catalog, "main.seen"))
    said = [each for each in made if each.startswith("--")]
    views = {}
    for each in made:
        if each not in said:
            (parsed,) = sqlglot.parse(each, dialect=dialect)
            if isinstance(parsed, sqlglot.exp.Create) and parsed.kind == "VIEW":
                views[parsed.this.name] = each
    left_out = {each.split()[3].rstrip(":") for each in said if each.startswith("-- no view")}
    assert views.keys() == {*TABLES, *VIEWS} - left_out
    assert len(left_out) < 6
    assert ("VERSION AS OF 7" in views[JOB_SLOWDOWN]) is (catalog != GLUE)
    assert views["rejects"].endswith("WHERE false")
    assert any("bucket/fleet''s/job_slowdown'" in each for each in made)


def test_wrong_schemas_and_places_are_one_line(tmp_path: Path, call: Ask) -> None:
    root = warehouse_of(tmp_path, jobs=table_rows("jobs")).root
    for arguments in (["spark", "--schema", "a; DROP SCHEMA b"], ["glue"], ["hive"]):
        status, out, err = call(main, *arguments, "--warehouse", root)
        assert (status, out, len(err.splitlines())) == (2, "", 1), arguments
    assert set(CATALOGS) == {"spark", "unity", "glue", "trino", "duckdb"}
