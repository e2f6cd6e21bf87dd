"""Test the command query: its output, and its errors for questions that are not valid."""

import io
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from jobs.query import completions, main
from jobs.reading import limits
from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.reading.limits import batches_within_limits, within_limits
from jobs.reading.question import NAMES
from jobs.runtime.project import PROJECT
from jobs.runtime.settings import load_settings, with_spark_conf
from jobs.warehouse.reader import AnswerError
from schemas.sql_files import VIEW_NAMES
from schemas.tables import TABLES
from schemas.views import mentioned
from schemas.vocabulary import JOB_SLOWDOWN, TABLE_NAMES
from tests.jobs.conftest import Ask
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.commands import start
from tests.support.examples import table_rows

BY_SLOWDOWN = "SELECT job_id, round(slowdown,2), status FROM job_slowdown ORDER BY 2 DESC"
UNREPLAYED = {column.name: None for column in TABLES[JOB_SLOWDOWN].columns if column.nullable}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A warehouse in which only job_slowdown has rows: an analysed unit and one without ops."""
    rows = table_rows(JOB_SLOWDOWN, [{}, UNREPLAYED | {"job_id": "b", "status": "no_ops"}])
    return warehouse_of(tmp_path_factory.mktemp("warehouse"), job_slowdown=rows).root


def test_the_answer_is_a_table_or_json(ask: Ask) -> None:
    status, out, _ = ask(main, BY_SLOWDOWN)
    lines = ["job_id\tround(slowdown, 2)\tstatus", "gpt-175b\t1.25\tanalysed", "b\t\tno_ops"]
    assert (status, out.splitlines()) == (0, lines)
    status, out, _ = ask(main, BY_SLOWDOWN, "--format", "table")
    assert status == 0
    head, _, *rows = (line.split() for line in out.splitlines() if line.strip())
    assert head == ["job_id", "round(slowdown,", "2)", "status"]
    assert rows == [["gpt-175b", "1.25", "analysed"], ["b", "null", "no_ops"]]
    _, out, _ = ask(main, BY_SLOWDOWN, "-x")
    assert "status             | no_ops\n" in out
    status, out, _ = ask(main, "SELECT job_id, days FROM job_history ORDER BY 1", "--format", "json")
    assert (status, json.loads(out)) == (0, [{"job_id": "b", "days": 1}, {"job_id": "gpt-175b", "days": 1}])


def test_rows_beyond_the_limit_are_left_out_and_it_says_so(ask: Ask) -> None:
    asked = ("SELECT job_id FROM job_slowdown", "--format", "csv", "--limit")
    status, out, err = ask(main, *asked, 1)
    assert (status, len(out.splitlines())) == (0, 2)
    assert err.endswith("shown: only the first 1 row (--limit 0 shows all)\n")
    _, out, err = ask(main, *asked, 0)
    assert (len(out.splitlines()), "first" in err) == (3, False)


def test_a_terminal_gets_the_first_rows_and_a_pipe_or_file_all(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT explode(sequence(1, 2500)) AS n"
    status, out, err = ask(main, sql)
    assert (status, out.splitlines(), err) == (0, ["n", *map(str, range(1, 2501))], "")
    assert len(json.loads(ask(main, sql, "--format", "json").out)) == 2500
    with monkeypatch.context() as patch:
        patch.setattr(sys.stdout, "isatty", lambda: True)
        shown = ask(main, sql, "--format", "csv")
        assert len(shown.out.splitlines()) == 1001
        assert shown.err == "shown: only the first 1,000 rows (--limit 0 shows all)\n"
        assert ask(main, sql, "--format", "csv", "--limit", "0").err.startswith("2,500 rows in ")


def test_only_the_time_of_the_engine_counts() -> None:
    """The timeout limits the time in which the engine computes, not the time in which rows are printed."""
    has_stopped = threading.Event()

    class Engine:
        def stop(self) -> None:
            has_stopped.set()

    def parts() -> Iterator[int]:
        yield 1
        yield 2
        has_stopped.wait()
        yield 3

    found = batches_within_limits(Engine(), parts(), 0.5)
    assert next(found) == 1
    time.sleep(0.6)
    assert next(found) == 2
    with pytest.raises(AnswerError, match=r"^only a part of the answer within 0.5 s \(--timeout 0: no limit"):
        next(found)


def test_the_memory_of_an_answer_is_limited_once_for_all_its_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "memory_bytes", lambda: 4 * 2**28)
    before = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = []

    def parts() -> Iterator[bytes]:
        while True:
            allowed.append(resource.getrlimit(resource.RLIMIT_DATA)[0])
            yield bytes(2**26)

    kept = list(islice(batches_within_limits(DuckDbReader(Database("none")), parts(), 60), 3))
    assert len(kept) == 3
    assert len(set(allowed)) == 1
    assert allowed[0] != before[0]
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_units_that_were_not_analysed_are_named_beside_what_to_fix(ask: Ask) -> None:
    says = (
        "1 unit was not analysed and is missing in fix_first: SELECT log_date, job_id, run_id, status, "
        "status_detail FROM job_slowdown WHERE status <> 'analysed'\n"
    )
    status, out, err = ask(main, "SELECT cause FROM fix_first", "--format", "csv")
    assert (status, out, err) == (0, "cause\n", says)
    assert ask(main, "DESCRIBE fix_first").err == ask(main, "SELECT * FROM fix_parts").err == ""


ENDLESS = "WITH RECURSIVE t AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"
TOO_LONG = "no answer within 1 s (--timeout 0: no limit)"
TOO_DEEP = "its parentheses or operators are nested too deeply"


@pytest.mark.parametrize(
    ("sql", "status", "message"),
    [
        (ENDLESS, 1, TOO_LONG),
        (f"SELECT {'(' * 3000}1{')' * 3000}", 2, TOO_DEEP),
        (f"SELECT {' + '.join(['1'] * 3000)}", 2, "Max expression depth"),
    ],
    ids=["recursion", "parentheses", "operators"],
)
def test_a_question_without_end_is_one_line(ask: Ask, sql: str, status: int, message: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    found, out, err = ask(main, sql, "--timeout", 1 if sql == ENDLESS else 60)
    assert (found, out, err.count("\n")) == (status, "", 1)
    assert message in err
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_a_question_may_take_a_quarter_of_the_memory(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "memory_bytes", lambda: 400_000_000)
    found, _, err = ask(main, "SELECT collect_list(x) FROM (SELECT explode(sequence(1, 100000000)) AS x)")
    assert (found, err.count("\n")) == (1, 1)
    assert "out of memory: a question may take 0.3 GB" in err


@pytest.mark.slow
def test_an_engine_that_does_not_stop_is_left(warehouse: str) -> None:
    """If the engine cannot be stopped in time, as while DuckDB folds constants, the process ends anyway."""
    asked = ["query", "--warehouse", warehouse, "--timeout", "1", "SELECT repeat('x', 3000000000)"]
    done = start([str(PROJECT / ".venv/bin/straggler"), *asked])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"straggler query: error: {TOO_LONG}\n"


@pytest.mark.parametrize(
    ("stated", "timeout_s", "heap"),
    [("4g", 60, "1024m"), ("4G", 0, "4G"), ("900m", 60, "900m"), ("2048", 60, "1024m"), ("3tb", 60, "1024m")],
)
def test_a_jvm_that_answers_has_a_quarter_of_the_memory(
    monkeypatch: pytest.MonkeyPatch, stated: str, timeout_s: int, heap: str
) -> None:
    monkeypatch.setattr(limits, "memory_bytes", lambda: 2**32)
    settings = with_spark_conf(load_settings(None), {"spark.driver.memory": stated})
    assert limits.with_limited_heap(settings, timeout_s).spark.conf["spark.driver.memory"] == heap


PAIRS = "(SELECT explode(sequence(1, 1000000)) AS a), (SELECT explode(sequence(1, 1000000)) AS b)"


@pytest.mark.usefixtures("spark")
def test_a_question_without_end_is_one_line_of_sparks_too(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        limits, "_GRACE_S", 600.0
    )  # after this time, the command would end the tests' process
    asked = (f"SELECT sum(a * b) FROM {PAIRS}", "--engine", "spark", "--timeout", 1)
    assert ask(main, *asked) == (1, "", f"query: error: {TOO_LONG}\n")
    assert ask(main, "SELECT 1 AS n", "--engine", "spark", "--format", "csv").out == "n\n1\n"


@pytest.mark.slow
def test_what_fills_the_memory_of_sparks_jvm_is_one_line(warehouse: str, tmp_path: Path) -> None:
    """A query that exhausts the memory of Spark's JVM ends with an error of one line."""
    settings = tmp_path / "settings.toml"
    settings.write_text('[spark.conf]\n"spark.driver.memory" = "600m"\n')
    where = ["--engine", "spark", "--warehouse", warehouse, "--settings", str(settings)]
    for sql in ("SELECT repeat('x', 2000000000)", "SELECT repeat(job_id, 200000000) FROM job_slowdown"):
        done = start([str(PROJECT / ".venv/bin/straggler"), "query", *where, sql])
        assert (done.returncode, done.stdout) == (1, "")
        last = done.stderr.splitlines()[-1]  # after lines in which py4j may log the JVM's end
        assert last.startswith("straggler query: error: out of memory: Spark has 600m here")


def test_a_query_that_fails_on_the_data_gives_one_line(ask: Ask) -> None:
    status, out, err = ask(main, "SELECT 1 / (steps - steps) FROM job_slowdown")
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("query: error: ")
    assert "Division by zero" in err
    assert "SET" not in err  # Spark's advice to SET something cannot be followed here


@pytest.mark.parametrize(
    ("sql", "is_hinted"),
    [
        ("SELECT nosuch(steps) FROM job_slowdown", True),
        ("SELECT sum(job_id) FROM job_slowdown", True),
        ("SELECT * FROM job_slowdown WHERE log_date > 5", False),
        ("SELECT job_id, count(*) FROM job_slowdown GROUP BY", False),
        ("SELECT * FROM job_slowdown JOIN fix_first USING (job_id)", False),
        ("SELECT x.job_id FROM job_slowdown", False),
    ],
)
def test_spark_is_advised_only_where_its_sql_differs(ask: Ask, sql: str, *, is_hinted: bool) -> None:
    status, _, err = ask(main, sql)
    assert (status, err.count("\n"), "--engine spark" in err) == (2, 1, is_hinted)


def test_a_function_that_duckdb_lacks_may_be_sparks(ask: Ask) -> None:
    status, _, err = ask(main, "SELECT nosuch(steps) FROM job_slowdown")
    assert status == 2
    assert "nosuch does not exist! (it may work with --engine spark)" in err


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELCT * FROM jobs", "something is missing: line 1, column 12, at 'FROM': did you mean SELECT?"),
        ("SELECT * FORM jobs", "column 18, at 'jobs': did you mean FROM?"),
        ("SELECT log_date FROM fix_first", "no column log_date: choose from "),
        ("SELECT qqqq FROM job_slowdown", " more (straggler describe job_slowdown)"),
        ("SELECT qqqq FROM job_slowdown JOIN jobs USING (job_id)", " more (straggler describe NAME)"),
        ("SELECT * FROM explode(array(1, 2))", f" and {len(NAMES) - 10} more (straggler describe)"),
    ],
)
def test_what_is_misspelt_is_named(ask: Ask, sql: str, message: str) -> None:
    status, _, err = ask(main, sql)
    assert (status, message in err, err.count("\n")) == (2, True, 1)
    assert "class" not in err
    assert err.count(", ") <= 10


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("day", ["= 20260105", "> 2026-01-05"])
def test_a_day_that_is_written_as_a_number_has_the_right_form_beside_it(ask: Ask, day: str) -> None:
    said = ask(main, f"SELECT job_id FROM job_slowdown WHERE log_date {day}")
    assert (said.status, said.out) == (2, "")
    assert said.err.endswith(": a day is written as DATE '2026-01-05'\n")


def test_spark_says_what_is_wrong_in_the_same_words(ask: Ask) -> None:
    by_spark = ("--engine", "spark", "--format", "csv")
    assert ask(main, "SELECT count(*) AS n FROM job_slowdown", *by_spark)[:2] == (0, "n\n2\n")
    for sql, wanted, said in (
        ("SELECT slowdwn FROM job_slowdown", 2, "query: error: no column slowdwn: did you mean slowdown?"),
        ("SELECT 1 / (steps - steps) FROM job_slowdown", 1, "DIVIDE_BY_ZERO"),
        ("SELECT * FROM text.`/etc/hostname`", 2, "no table or view text./etc/hostname"),
    ):
        status, _, err = ask(main, sql, *by_spark)
        assert status == wanted
        assert said in err.splitlines()[-1]


def test_a_warehouse_in_a_store_is_read_by_its_url(ask: Ask, warehouse: str) -> None:
    asked = (BY_SLOWDOWN, "--format", "csv")
    assert ask(main, *asked, "--warehouse", f"file://{warehouse}") == ask(main, *asked)


def test_sql_as_an_argument_may_begin_with_a_comment(ask: Ask) -> None:
    """SQL that begins with the dashes of a comment is not taken for an option."""
    sql, as_csv = "-- how many?\nSELECT count(*) AS n\nFROM job_slowdown\n", ("--format", "csv")
    for arguments in ((sql, *as_csv), (*as_csv, sql), (*as_csv, "--", sql)):
        assert ask(main, *arguments)[:2] == (0, "n\n2\n")
    status, _, err = ask(main, sql, "--fromat", "csv")
    assert (status, "No such option" in err, "--format" in err) == (2, True, True)


class Keyboard(io.StringIO):
    """A text stream as standard input that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_sql_comes_from_standard_input(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("-- which\nSELECT count(*) AS n\nFROM job_slowdown;\n"))
    assert ask(main, *arguments, "--format", "csv")[:2] == (0, "n\n2\n")


@pytest.mark.parametrize("has_home", [True, False])
def test_without_sql_and_at_a_keyboard_it_is_a_prompt(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, has_home: bool
) -> None:
    """Without SQL, at a terminal, query is a prompt, which goes on after wrong questions until input ends."""
    typed = iter(["SELECT count(*) AS n", "FROM job_slowdown;", "", "SELECT slowdwn FROM jobs;", "SELECT 7;"])

    def line(prompt: str) -> str:
        try:
            return next(typed)
        except StopIteration:
            raise EOFError from None

    history = (tmp_path if has_home else tmp_path / "no-home") / "history"
    monkeypatch.setattr(sys, "stdin", Keyboard())
    monkeypatch.setattr("builtins.input", line)
    monkeypatch.setattr("jobs.query.HISTORY", history)
    status, out, err = ask(main, "--format", "csv")
    assert (status, out) == (0, "n\n2\n7\n7\n")
    assert "error: no column slowdwn" in err
    assert history.is_file() is has_home


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


@pytest.mark.parametrize("seconds", [None, 0.0, 60.0])
def test_ctrl_c_ends_a_question_and_the_next_is_answered(warehouse: str, seconds: float | None) -> None:
    counts = [f"(SELECT explode(sequence(1, 1500)) AS n{place}) AS t{place}" for place in range(3)]
    reader = DuckDbReader(Database(warehouse))
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    try:
        sql = f"SELECT count(*) FROM {', '.join(counts)} WHERE n0 + n1 > n2"
        with pytest.raises(KeyboardInterrupt):
            reader.ask(sql) if seconds is None else within_limits(reader, lambda: reader.ask(sql), seconds)
    finally:
        signal.signal(signal.SIGALRM, previous)
    assert reader.ask("SELECT 7 AS n").rows == [(7,)]
    reader.close()


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
