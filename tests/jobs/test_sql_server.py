"""The SQL server, asked by beeline and by a Python client; and the tables as other readers read them."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from impala.dbapi import connect
from impala.error import Error
from impala.hiveserver2 import HiveServer2Cursor

from jobs.java import find_java_home
from jobs.project import PROJECT
from jobs.sql_server import main
from schemas.tables import TABLES
from schemas.views import VIEWS
from tests.jobs.commands import start
from tests.jobs.conftest import Demo
from tests.ports import free_port

READERS = re.compile(r"```python\n(# Every table by .*?)```", re.DOTALL)


@pytest.fixture(scope="module")
def port(demo: Demo, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server of the demo's tables; it ends when it is told to, and leaves nothing in its folder."""
    free = free_port()
    folder = tmp_path_factory.mktemp("called-from")
    at = ["--warehouse", str(demo.warehouse), "--port", str(free)]
    command = [sys.executable, "-m", "jobs.sql_server", *at]
    environment = {**os.environ, "PYTHONPATH": str(PROJECT)}
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        told = server.stdout.readline()
        assert told == f"sql_server: {demo.warehouse} at jdbc:hive2://127.0.0.1:{free}/default\n"
        yield free
        server.send_signal(signal.SIGTERM)
        assert server.wait(60) == 0
    assert list(folder.iterdir()) == []


@pytest.fixture
def cursor(port: int) -> Iterator[HiveServer2Cursor]:
    with connect("127.0.0.1", port, auth_mechanism="PLAIN", user="me") as connection:
        yield connection.cursor()


def test_a_python_client_sees_tables_and_views_with_their_meanings(cursor: HiveServer2Cursor) -> None:
    cursor.get_tables(database_name="default")
    found = {row[2]: (row[3], row[4]) for row in cursor.fetchall()}
    meanings = {each.name: each.meaning for each in TABLES.values()}
    meanings |= {each.name: each.meaning for each in VIEWS.values()}
    assert found == {name: ("VIEW", meaning) for name, meaning in meanings.items()}
    cursor.execute("DESCRIBE job_slowdown")
    comments = {row[0]: row[2] for row in cursor.fetchall()}
    assert comments["slowdown"].endswith("never a mean of ratios (S, Eq. 1)")


def test_a_python_client_gets_answers(cursor: HiveServer2Cursor) -> None:
    cursor.execute("SELECT log_date, jobs, straggling FROM fleet_day ORDER BY log_date")
    assert [tuple(map(str, row)) for row in cursor.fetchall()] == [
        ("2026-01-05", "14", "9"),
        ("2026-01-06", "14", "8"),
        ("2026-01-07", "14", "8"),
    ]
    cursor.execute("SELECT host FROM fix_first LIMIT 1")
    assert cursor.fetchall() == [("node-0013",)]


def test_nobody_changes_a_table_by_mistake(cursor: HiveServer2Cursor) -> None:
    for sql in ("DELETE FROM fleet_day", "INSERT INTO fleet_day SELECT * FROM fleet_day"):
        with pytest.raises(Error):
            cursor.execute(sql)
    cursor.execute("SELECT count(*) FROM fleet_day")
    assert cursor.fetchall() == [(3,)]


def test_beeline_gets_answers(port: int) -> None:
    beeline = str(Path(sys.executable).with_name("beeline"))
    asked = "SELECT job_id FROM worker_slowdown WHERE slowdown > 1.2 AND host = 'node-0013' GROUP BY job_id"
    done = start(
        [beeline, "-u", f"jdbc:hive2://127.0.0.1:{port}", "-n", "me", "--outputformat=csv2", "-e", asked],
        exported={"JAVA_HOME": str(find_java_home()), "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-2:] == ["job_id", "gpt-175b"]


def test_the_lines_of_the_readme_read_the_tables_without_spark(demo: Demo) -> None:
    (block,) = READERS.findall((PROJECT / "README.md").read_text(encoding="utf-8"))
    lines = block.replace("demo/warehouse", str(demo.warehouse))
    names = re.findall(r"^(by_\w+) =", block, re.MULTILINE)
    assert names == ["by_deltalake", "by_pandas", "by_polars", "by_duckdb"]
    counted = f"{lines}\nprint(*map(len, [{', '.join(names)}]))"
    done = start([sys.executable, "-c", counted])
    assert (done.stdout, done.stderr) == ("3 3 3 3\n", "")


def test_a_port_that_is_taken_is_a_wrong_argument(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert main(["--warehouse", str(tmp_path), "--port", str(taken.getsockname()[1])]) == 2
    assert "cannot be used" in capsys.readouterr().err.splitlines()[-1]
    assert main(["--warehouse", str(tmp_path), "--port", "70000"]) == 2


def test_a_warehouse_without_tables_is_a_wrong_argument(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["--warehouse", str(tmp_path), "--port", "1"]) == 2
    assert "sql_server: error: " in capsys.readouterr().err.splitlines()[-1]
