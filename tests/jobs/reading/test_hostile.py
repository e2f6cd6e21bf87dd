"""A question cannot read other files, write files, change settings or run code."""

import shutil
from pathlib import Path

import duckdb
import pytest

from jobs.query import main
from jobs.reading.database import Database
from jobs.reading.duckdb_reader import answer
from jobs.reading.question import question
from jobs.warehouse.reader import QuestionError
from schemas.vocabulary import JOB_SLOWDOWN
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.examples import table_rows

SECRET = "a secret"  # noqa: S105  # made up for this test

FILES = [
    "SELECT * FROM read_text('{secret}')",
    "SELECT * FROM read_blob('{secret}')",
    "SELECT * FROM read_csv('{secret}')",
    "SELECT * FROM read_json('{secret}')",
    "SELECT * FROM read_parquet('{other}')",
    "SELECT * FROM parquet_metadata('{other}')",
    "SELECT * FROM sniff_csv('{secret}')",
    "SELECT * FROM glob('{folder}/*')",
    "SELECT * FROM '{other}'",
    "SELECT * FROM query('SELECT * FROM read_text(''{secret}'')')",
    "SELECT * FROM query_table('{other}')",
    "SELECT * FROM job_slowdown, LATERAL read_text('{secret}')",
    "SELECT * FROM job_slowdown JOIN LATERAL read_text('{secret}') AS t",
    "SELECT (SELECT content FROM read_text('{secret}'))",
    "WITH job_slowdown AS (SELECT * FROM read_text('{secret}')) SELECT * FROM job_slowdown",
    "SELECT 1 WHERE EXISTS (SELECT 1 FROM read_text('{secret}'))",
    "SELECT * FROM job_slowdown UNION ALL SELECT * FROM read_parquet('{other}')",
    "COPY (SELECT 1) TO '{folder}/written.csv'",
    "COPY (SELECT 1) TO '{stored}' (FORMAT parquet, USE_TMP_FILE false)",
    "ATTACH '{folder}/written.duckdb'",
    "EXPORT DATABASE '{folder}/written'",
    "INSTALL httpfs",
    "LOAD '{folder}/x.duckdb_extension'",
    "SET enable_external_access = true",
    "RESET lock_configuration",
    "SET allowed_directories = ['/']",
    "PRAGMA enable_profiling",
    "CALL enable_logging(storage_path = '{folder}')",
    "CREATE SECRET s (TYPE s3)",
    "SELECT getenv('HOME')",
    "SELECT * FROM a_variable_of_python",
]
"""Questions that DuckDB itself refuses too: they are also tried without the check that precedes DuckDB."""

STATEMENTS = [
    "SELECT 1; SELECT 2",
    "SELECT 1; COPY (SELECT 1) TO '{folder}/written.csv'",
    "CREATE TABLE job_slowdown AS SELECT 1",
    "CREATE OR REPLACE VIEW job_slowdown AS SELECT 1",
    "INSERT INTO job_slowdown SELECT * FROM job_slowdown",
    "WITH gone AS (DELETE FROM job_slowdown RETURNING *) SELECT * FROM gone",
    "SELECT * INTO written FROM job_slowdown",
    "DELETE FROM job_slowdown",
    "UPDATE job_slowdown SET slowdown = 1",
    "MERGE INTO job_slowdown USING jobs ON true WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE job_slowdown",
    "DROP TABLE job_slowdown",
    "RESTORE TABLE job_slowdown TO VERSION AS OF 0",
    "VACUUM job_slowdown",
    "OPTIMIZE job_slowdown",
    "ADD JAR '{folder}/x.jar'",
    "SET spark.sql.ansi.enabled = false",
    "CACHE TABLE job_slowdown",
    "SELECT TRANSFORM(job_id) USING 'cat {secret}' FROM job_slowdown",
    "FROM job_slowdown MAP job_id USING 'cat {secret}'",
    "SELECT reflect('java.lang.System', 'getProperty', 'user.home')",
    "SELECT Reflect('java.lang.System', 'getProperty', 'user.home')",
    "SELECT `reflect`('java.lang.System', 'getProperty', 'user.home')",
    "SELECT system.builtin.reflect('java.lang.System', 'getProperty', 'user.home')",
    "SELECT 1 FROM job_slowdown LATERAL VIEW reflect('java.lang.System', 'getProperty', 'user.home') t AS x",
    "SELECT try_reflect('java.lang.System', 'getProperty', 'user.home')",
    "SELECT java_method('java.lang.Runtime', 'getRuntime')",
    "SELECT from_protobuf(CAST('a' AS binary), 'M', '{secret}')",
    "SELECT to_protobuf(struct(1), 'M', '{secret}')",
    "SELECT from_avro(CAST('a' AS binary), 'x', map('avroSchemaUrl', '{secret}'))",
    "SELECT * FROM delta.`{folder}/warehouse/job_slowdown`",
    "SELECT * FROM parquet.`{other}`",
    "SELECT * FROM text.`{secret}`",
    "SELECT * FROM `text`.`{secret}`",
    "SELECT * FROM job_slowdown VERSION AS OF 0",
    "SELECT * FROM (WITH sqlite_master AS (SELECT 1) SELECT * FROM sqlite_master) t, sqlite_master",
    "WITH sqlite_master AS (SELECT * FROM sqlite_master) SELECT * FROM sqlite_master",
    "WITH a AS (SELECT * FROM duckdb_secrets), duckdb_secrets AS (SELECT 1) SELECT * FROM a",
    "SELECT * FROM IDENTIFIER('text.`{secret}`')",
    "SELECT * FROM (DELETE FROM job_slowdown)",
    "DESCRIBE HISTORY delta.`{folder}/warehouse/job_slowdown`",
]
"""Questions that the check must refuse, because one of the engines would obey them."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("hostile")
    warehouse_of(made / "warehouse", job_slowdown=table_rows(JOB_SLOWDOWN))
    (made / "secret.txt").write_text(SECRET, encoding="utf-8")
    shutil.copyfile(stored(made), made / "other.parquet")
    return made


def stored(folder: Path) -> Path:
    """Return the only Parquet file of the warehouse's only table."""
    (file,) = (folder / "warehouse" / JOB_SLOWDOWN).glob("log_date=*/*.parquet")
    return file


def filled(sql: str, folder: Path) -> str:
    return (
        sql.replace("{secret}", str(folder / "secret.txt"))
        .replace("{other}", str(folder / "other.parquet"))
        .replace("{stored}", str(stored(folder)))
        .replace("{folder}", str(folder))
    )


def contents(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("sql", [*FILES, *STATEMENTS])
def test_what_does_more_than_read_the_tables_is_refused_before_an_engine_has_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path, sql: str
) -> None:
    monkeypatch.chdir(folder)
    before = contents(folder)
    if "getenv" not in sql:  # refused later: neither engine has the function
        with pytest.raises(QuestionError):
            question(filled(sql, folder))
    status = main([filled(sql, folder), "--warehouse", str(folder / "warehouse")])
    printed = capsys.readouterr()
    assert (status, printed.out) == (2, "")
    assert printed.err.startswith("query: error: ")
    assert printed.err.count("\n") == 1
    assert contents(folder) == before


@pytest.mark.parametrize("sql", FILES)
@pytest.mark.parametrize("scheme", ["", "file://"])
def test_duckdb_refuses_it_even_without_the_check(
    monkeypatch: pytest.MonkeyPatch, folder: Path, scheme: str, sql: str
) -> None:
    a_variable_of_python = duckdb.sql("SELECT 1")
    monkeypatch.chdir(folder)
    before = contents(folder)
    names = {JOB_SLOWDOWN}
    with (
        Database(f"{scheme}{folder / 'warehouse'}").connection(names) as connection,
        pytest.raises((QuestionError, duckdb.Error)),
    ):
        answer(connection, filled(sql, folder))
    assert contents(folder) == before
    assert a_variable_of_python is not None


def test_what_only_reads_is_answered(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    for sql in (
        "SELECT count(*) FROM job_slowdown",
        "WITH a AS (SELECT 1 AS x), b AS (SELECT * FROM a) SELECT * FROM b WHERE EXISTS (SELECT 1 FROM a)",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r",
        "DESCRIBE job_slowdown",
        "SHOW TABLES",
    ):
        assert main([sql, "--warehouse", str(folder / "warehouse")]) == 0
        assert capsys.readouterr().out
