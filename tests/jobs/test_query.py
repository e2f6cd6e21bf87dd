"""The query command: what it prints where, and what it says of a query it does not understand."""

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.query import main
from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.reading.prompt import completions
from jobs.runtime.project import PROJECT
from schemas.sql_files import VIEW_NAMES
from schemas.tables import TABLES
from schemas.views import mentioned
from schemas.vocabulary import JOB_SLOWDOWN, TABLE_NAMES
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.examples import table_rows

BY_SLOWDOWN = "SELECT job_id, round(slowdown,2), status FROM job_slowdown ORDER BY 2 DESC"
UNREPLAYED = {column.name: None for column in TABLES[JOB_SLOWDOWN].columns if column.nullable}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A warehouse with one table of two units."""
    rows = table_rows(JOB_SLOWDOWN, [{}, UNREPLAYED | {"job_id": "b", "status": "no_ops"}])
    return warehouse_of(tmp_path_factory.mktemp("warehouse"), job_slowdown=rows).root


def ask(capsys: pytest.CaptureFixture[str], warehouse: str, *arguments: str) -> tuple[int, str, str]:
    """Exit status, standard output and standard error."""
    status = main([*arguments, "--warehouse", warehouse])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


def test_the_answer_is_a_table(capsys: pytest.CaptureFixture[str], warehouse: str) -> None:
    status, out, _ = ask(capsys, warehouse, BY_SLOWDOWN)
    assert status == 0
    head, _, *rows = (line.split() for line in out.splitlines() if line.strip())
    assert head == ["job_id", "round(slowdown,", "2)", "status"]
    assert rows == [["gpt-175b", "1.25", "analysed"], ["b", "null", "no_ops"]]


def test_the_answer_is_json(capsys: pytest.CaptureFixture[str], warehouse: str) -> None:
    status, out, _ = ask(
        capsys, warehouse, "SELECT job_id, days FROM job_history ORDER BY 1", "--format", "json"
    )
    assert status == 0
    assert json.loads(out) == [{"job_id": "b", "days": 1}, {"job_id": "gpt-175b", "days": 1}]


def test_rows_beyond_the_limit_are_left_out_and_it_says_so(
    capsys: pytest.CaptureFixture[str], warehouse: str
) -> None:
    status, out, err = ask(
        capsys, warehouse, "SELECT job_id FROM job_slowdown", "--format", "csv", "--limit", "1"
    )
    assert (status, len(out.splitlines())) == (0, 2)
    assert err.endswith("only the first 1 rows are shown (--limit 0 shows all)\n")
    _, out, err = ask(capsys, warehouse, "SELECT job_id FROM job_slowdown", "--format", "csv", "--limit", "0")
    assert (len(out.splitlines()), "first" in err) == (3, False)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELEC 1", "Unexpected token: line 1, column 7, at '1'"),
        ("SELECT slowdwn FROM job_slowdown", "no column slowdwn: did you mean slowdown?"),
        ("SELECT j.worlds_size FROM job_slowdown AS j", "no column worlds_size: did you mean world_size?"),
        ("SELECT frist_day FROM job_history", "no column frist_day: did you mean first_day?"),
        ("SELECT a FROM (SELECT 1 AS aa)", "no column a: did you mean aa?"),
        ("SELECT zzz FROM (SELECT 1 AS b, 2 AS c)", "no column zzz: choose from b"),
        ("SELECT team FROM job_slowdown", "no column team in job_slowdown: jobs have it"),
        ("SELECT * FROM slow_hosts", "no table or view slow_hosts: choose from rank_steps, jobs,"),
        ("SELECT * FROM job_slowdwn", "no table or view job_slowdwn: did you mean job_slowdown?"),
        ("SELECT * FROM zzz", "no table or view zzz: choose from rank_steps, jobs, rejects,"),
        ("SELECT nosuch(steps) FROM job_slowdown", "nosuch does not exist! (--engine spark may know it)"),
        ("", "only one SELECT can be asked"),
    ],
)
def test_a_query_that_cannot_be_parsed_gives_one_line(
    capsys: pytest.CaptureFixture[str], warehouse: str, sql: str, reason: str
) -> None:
    status, out, err = ask(capsys, warehouse, sql)
    assert (status, out) == (2, "")
    (line,) = err.splitlines()
    assert line.startswith("query: error: ")
    assert reason in line


def test_a_query_that_fails_on_the_data_gives_one_line(
    capsys: pytest.CaptureFixture[str], warehouse: str
) -> None:
    status, out, err = ask(capsys, warehouse, "SELECT 1 / (steps - steps) FROM job_slowdown")
    assert (status, out) == (1, "")
    assert err.startswith("query: error: ")
    assert "Division by zero" in err
    assert err.count("\n") == 1


def test_spark_says_what_is_wrong_in_the_same_words(
    capsys: pytest.CaptureFixture[str], spark: SparkSession, warehouse: str
) -> None:
    by_spark = ("--engine", "spark", "--format", "csv")
    assert ask(capsys, warehouse, "SELECT count(*) AS n FROM job_slowdown", *by_spark)[:2] == (0, "n\n2\n")
    status, _, err = ask(capsys, warehouse, "SELECT slowdwn FROM job_slowdown", *by_spark)
    assert (status, err) == (2, "query: error: no column slowdwn: did you mean slowdown?\n")
    status, _, err = ask(capsys, warehouse, "SELECT 1 / (steps - steps) FROM job_slowdown", *by_spark)
    assert status == 1
    assert "DIVIDE_BY_ZERO" in err.splitlines()[-1]
    status, _, err = ask(capsys, warehouse, "SELECT * FROM text.`/etc/hostname`", *by_spark)
    assert status == 2
    assert "no table or view text./etc/hostname" in err


def test_a_warehouse_in_a_store_that_deltalake_does_not_reach_is_sparks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    status, _, err = ask(capsys, "viewfs://fleet/warehouse", BY_SLOWDOWN, "--engine", "duckdb")
    assert status == 2
    assert "DuckDB does not reach this store: --engine spark reads it" in err


def test_a_warehouse_in_a_store_is_read_by_its_url(
    capsys: pytest.CaptureFixture[str], warehouse: str
) -> None:
    status, out, _ = ask(capsys, f"file://{warehouse}", BY_SLOWDOWN, "--format", "csv")
    assert (status, out) == ask(capsys, warehouse, BY_SLOWDOWN, "--format", "csv")[:2]
    status, _, err = ask(capsys, f"file://{warehouse}x", BY_SLOWDOWN)
    assert (status, "no tables in file://" in err) == (2, True)


def test_a_folder_without_tables_is_a_wrong_argument(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    status, out, err = ask(capsys, str(empty), BY_SLOWDOWN)
    assert (status, out) == (2, "")
    assert err == f"query: error: no tables in {empty}: run a night first, or name another --warehouse\n"


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_the_error_for_a_misspelt_folder_suggests_the_closest_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, warehouse: str, engine: str
) -> None:
    monkeypatch.setattr("jobs.runtime.session.session", lambda *_: pytest.fail("a session was made"))
    misspelt = f"{warehouse}x"
    status, _, err = ask(capsys, misspelt, BY_SLOWDOWN, "--engine", engine)
    assert status == 2
    folder = Path(warehouse)
    assert err == f"query: error: no tables in {misspelt}: did you mean {folder.name} in {folder.parent}?\n"


@pytest.mark.parametrize("arguments", [[BY_SLOWDOWN, "--format", "xml"], [BY_SLOWDOWN, "--limit", "-1"]])
def test_wrong_arguments_give_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith("query: error: ")


class Keyboard(io.StringIO):
    """Standard input that is not redirected."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_sql_comes_from_standard_input(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, warehouse: str, arguments: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("-- which\nSELECT count(*) AS n\nFROM job_slowdown;\n"))
    status, out, _ = ask(capsys, warehouse, *arguments, "--format", "csv")
    assert (status, out) == (0, "n\n2\n")


def test_without_sql_and_at_a_keyboard_it_is_a_prompt(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, warehouse: str, tmp_path: Path
) -> None:
    """A wrong question ends nothing; the end of input does."""
    typed = iter(["SELECT count(*) AS n", "FROM job_slowdown;", "", "SELECT slowdwn FROM jobs;", "SELECT 7;"])

    def line(prompt: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr(sys, "stdin", Keyboard())
    monkeypatch.setattr("builtins.input", line)
    monkeypatch.setattr("jobs.reading.prompt.HISTORY", tmp_path / "history")
    status, out, err = ask(capsys, warehouse, "--format", "csv")
    assert (status, out) == (0, "n\n2\n7\n7\n")
    assert "error: no column slowdwn" in err
    assert (tmp_path / "history").is_file()


def test_the_prompt_needs_no_home_that_can_be_written(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, warehouse: str, tmp_path: Path
) -> None:
    def end(_: str) -> str:
        raise EOFError

    monkeypatch.setattr(sys, "stdin", Keyboard())
    monkeypatch.setattr("builtins.input", end)
    monkeypatch.setattr("jobs.reading.prompt.HISTORY", tmp_path / "no-home" / "history")
    status, _, err = ask(capsys, warehouse)
    assert (status, "error" in err) == (0, False)


def test_letters_that_the_terminal_lacks_end_nothing(warehouse: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "jobs.query", "SELECT 'ë' AS a", "--format", "csv", "--warehouse", warehouse],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "a\n\\xeb\n")


def test_whoever_reads_may_stop_reading(warehouse: str) -> None:
    sql = ["SELECT explode(sequence(1, 100000)) AS n", "--limit", "0", "--format", "csv"]
    asked = [sys.executable, "-m", "jobs.query", *sql, "--warehouse", warehouse]
    with subprocess.Popen(asked, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as asking:
        assert asking.stdout is not None
        assert asking.stderr is not None
        assert asking.stdout.readline() == b"n\n"
        asking.stdout.close()
        assert asking.stderr.read() == b""


def test_ctrl_c_ends_a_question_and_the_next_is_answered(warehouse: str) -> None:
    counts = [f"(SELECT explode(sequence(1, 1500)) AS n{place}) AS t{place}" for place in range(3)]
    reader = DuckDbReader(Database(warehouse))
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        with pytest.raises(KeyboardInterrupt):
            reader.ask(f"SELECT count(*) FROM {', '.join(counts)} WHERE n0 + n1 > n2")
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert reader.ask("SELECT 7 AS n").rows == [(7,)]


@pytest.mark.parametrize(
    ("text", "line", "wanted"),
    [
        ("job_s", "SELECT * FROM job_s", ["job_slowdown"]),
        ("slowd", "SELECT slowd", ["slowdown", "slowdown_low", "slowdown_high", "slowdown_approx"]),
        ("is_sl", "FROM worker_slowdown SELECT is_sl", ["is_slowest"]),
        ("sel", "sel", ["SELECT"]),
        ("", "SELECT ", []),
    ],
)
def test_the_prompt_completes_tables_and_columns(text: str, line: str, wanted: list[str]) -> None:
    columns = {name: table.column_names for name, table in TABLES.items()} | dict.fromkeys(VIEW_NAMES, ())
    assert completions(text, line, columns) == wanted


def test_only_what_a_query_reads_is_made_ready() -> None:
    assert mentioned(BY_SLOWDOWN) == {JOB_SLOWDOWN}
    assert mentioned("select * from Ops") == {"ops", "rank_steps"}
    assert mentioned("SHOW TABLES") == {*TABLE_NAMES, *VIEW_NAMES}


def test_the_command_prints_the_answer_alone_and_never_imports_spark(warehouse: str, tmp_path: Path) -> None:
    (tmp_path / "pyspark.py").write_text("raise ImportError('not without --engine spark')")
    command = [sys.executable, "-m", "jobs.query", BY_SLOWDOWN, "--warehouse", warehouse, "--format", "csv"]
    path = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=PROJECT, env=path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == 'job_id,"round(slowdown, 2)",status\ngpt-175b,1.25,analysed\nb,,no_ops\n'
