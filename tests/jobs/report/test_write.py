"""Test for which days of a warehouse reports are written, and the error for a day without results."""

import errno
import os
import re
from collections.abc import Collection
from pathlib import Path
from typing import cast

import duckdb
import pytest
from pyspark.sql import SparkSession

from jobs import report_fleet, report_job
from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.reading.spark_reader import reader_beside
from jobs.report.write import write_reports
from jobs.runtime.settings import load_settings
from jobs.warehouse.tables import Warehouse
from schemas.vocabulary import JOB_SLOWDOWN, JOBS
from tests.jobs.conftest import Ask
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.examples import DAY, NEXT_DAY, table_rows


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    tables = {name: table_rows(name) for name in (JOBS, JOB_SLOWDOWN)}
    return warehouse_of(tmp_path / "warehouse", **tables).root


def test_a_report_is_written_without_spark(ask: Ask, warehouse: str) -> None:
    assert ask(report_fleet.main, "--log-date", DAY) == (0, f"{warehouse}/_report/{DAY}/index.html\n", "")
    status, page, _ = ask(report_job.main, "--job-id", "gpt-175b")
    says, path = page.splitlines()
    assert (status, Path(path).is_file()) == (0, True)
    assert says.startswith("gpt-175b, run ")


def test_what_pages_are_written_from_is_answered_by_one_thread(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, warehouse: str
) -> None:
    """Each connection that answers queries for pages has one thread, so that sums are equal in every run.

    A page uses few connections, because opening the tables takes longer than the queries.
    """
    connection, threads = Database.connection, []

    def noted(
        database: Database, *names: Collection[str], in_order: bool = False
    ) -> duckdb.DuckDBPyConnection:
        made = connection(database, *names, in_order=in_order)
        threads.extend(made.sql("SELECT current_setting('threads')").fetchall())
        return made

    monkeypatch.setattr(Database, "connection", noted)
    assert ask(report_fleet.main, "--log-date", DAY).status == 0
    assert len(threads) <= 3
    assert ask(report_job.main, "--job-id", "gpt-175b").status == 0
    with reader_beside(Warehouse(cast("SparkSession", None), warehouse)) as reader:
        reader.rows("SELECT count(*) FROM jobs")
    assert len(threads) >= 3
    assert set(threads) == {(1,)}


def test_a_job_page_is_one_file_where_one_is_named(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, warehouse: str, tmp_path: Path
) -> None:
    monkeypatch.setattr("jobs.report.files.chart_library", lambda _: b"charts_library()")
    page = tmp_path / "page.html"
    assert ask(report_job.main, "--job-id", "gpt-175b", "--out", page).status == 0
    assert not re.search(r'(?:src|href)="\.', page.read_text()), "the page needs no other file"
    assert not Path(warehouse, "_report").exists()
    status, _, said = ask(report_job.main, "--job-id", "gpt-175b", "--out", tmp_path)
    assert (status, f"--out: {tmp_path}: Is a directory" in said) == (2, True)


def test_a_day_without_rows_gets_no_report(ask: Ask, warehouse: str) -> None:
    message = f"no rows of {NEXT_DAY} in {warehouse}: the nearest days with rows are {DAY}"
    assert ask(report_fleet.main, "--log-date", NEXT_DAY) == (2, "", f"report_fleet: error: {message}\n")
    assert not Path(warehouse, "_report").exists()


def test_a_night_without_rows_leaves_the_reports_of_others(
    caplog: pytest.LogCaptureFixture, warehouse: str
) -> None:
    reader = DuckDbReader(Database(warehouse))
    settings = load_settings(warehouse=warehouse)
    write_reports(reader, settings, [DAY, NEXT_DAY], [DAY, NEXT_DAY])
    assert [page.parent.name for page in Path(warehouse, "_report").glob("*/index.html")] == [str(DAY)]
    assert f"no report is written: no rows of {NEXT_DAY}" in caplog.text


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_report_that_cannot_be_written_says_where_else_it_can_be(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, warehouse: str, number: int
) -> None:
    lock = Path(warehouse, "_report", ".lock")

    def refused(*_args: object) -> Path:
        raise OSError(number, os.strerror(number), str(lock))

    monkeypatch.setattr("jobs.report.files.replace_publication", refused)
    said = ask(report_fleet.main, "--log-date", DAY)
    assert (said.status, said.out) == (2, "")
    assert said.err.startswith(f"report_fleet: error: {lock} cannot be used")
    assert said.err.endswith(
        f"{os.strerror(number)}; name another folder as `report` below [paths] in a file for --settings\n"
    )


def test_a_misspelt_warehouse_fails_before_anything_is_made(ask: Ask, warehouse: str) -> None:
    status, _, said = ask(report_fleet.main, "--warehouse", f"{warehouse}s", "--log-date", DAY)
    assert (status, "did you mean warehouse in" in said) == (2, True)
    assert not Path(f"{warehouse}s").exists()
