"""Reports written from a warehouse: which days have one, and what is said of those that have none."""

import re
from pathlib import Path

import pytest

from jobs import report_fleet, report_job
from jobs.reading.database import Database
from jobs.reading.duckdb_reader import DuckDbReader
from jobs.report.write import write_reports
from jobs.runtime.settings import load_settings
from schemas.vocabulary import JOB_SLOWDOWN, JOBS
from tests.jobs.reading.warehouses import warehouse_of
from tests.support.examples import DAY, NEXT_DAY, table_rows


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    tables = {name: table_rows(name) for name in (JOBS, JOB_SLOWDOWN)}
    return warehouse_of(tmp_path / "warehouse", **tables).root


def test_a_report_is_written_without_spark(capsys: pytest.CaptureFixture[str], warehouse: str) -> None:
    assert report_fleet.main(["--warehouse", warehouse, "--log-date", str(DAY)]) == 0
    assert capsys.readouterr().out == f"{warehouse}/_report/{DAY}/index.html\n"
    assert report_job.main(["--warehouse", warehouse, "--job-id", "gpt-175b"]) == 0
    assert Path(capsys.readouterr().out.strip()).is_file()


def test_a_job_page_is_one_file_where_one_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, warehouse: str, tmp_path: Path
) -> None:
    monkeypatch.setattr("jobs.report.files.chart_library", lambda _: b"charts_library()")
    page = tmp_path / "page.html"
    asked = ["--warehouse", warehouse, "--job-id", "gpt-175b"]
    assert report_job.main([*asked, "--out", str(page)]) == 0
    assert not re.search(r'(?:src|href)="\.', page.read_text()), "it needs a file beside it"
    assert not Path(warehouse, "_report").exists()
    assert report_job.main([*asked, "--out", str(tmp_path)]) == 2
    assert f"--out: {tmp_path}: Is a directory" in capsys.readouterr().err


def test_a_day_without_rows_gets_no_report(capsys: pytest.CaptureFixture[str], warehouse: str) -> None:
    assert report_fleet.main(["--warehouse", warehouse, "--log-date", str(NEXT_DAY)]) == 2
    message = f"no rows of {NEXT_DAY} in {warehouse}: the nearest days with rows are {DAY}"
    assert capsys.readouterr().err == f"report_fleet: error: {message}\n"
    assert not Path(warehouse, "_report").exists()


def test_a_night_without_rows_leaves_the_reports_of_others(
    caplog: pytest.LogCaptureFixture, warehouse: str
) -> None:
    reader = DuckDbReader(Database(warehouse))
    settings = load_settings(warehouse=warehouse)
    write_reports(reader, settings, [DAY, NEXT_DAY], [DAY, NEXT_DAY])
    assert [page.parent.name for page in Path(warehouse, "_report").glob("*/index.html")] == [str(DAY)]
    assert f"no report is written: no rows of {NEXT_DAY}" in caplog.text


def test_a_misspelt_warehouse_fails_before_anything_is_made(
    capsys: pytest.CaptureFixture[str], warehouse: str
) -> None:
    assert report_fleet.main(["--warehouse", f"{warehouse}s", "--log-date", str(DAY)]) == 2
    assert "did you mean warehouse in" in capsys.readouterr().err
    assert not Path(f"{warehouse}s").exists()
