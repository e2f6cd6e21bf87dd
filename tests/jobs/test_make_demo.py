"""Test the demo: its landing, its summary, and, in a slow test, the whole command."""

import re
import shlex
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs.make_demo import MARKER, NEXT, SUMMARY, main, make_landing, show
from jobs.runtime.settings import Settings, SettingsError
from tests.jobs.conftest import Demo
from tests.support.commands import start


@pytest.mark.usefixtures("published_traces")
def test_landing_is_made_anew_and_published_traces_come_along(tmp_path: Path) -> None:
    days = make_landing(tmp_path, seed=0)
    (tmp_path / "log_date=2025-01-01").mkdir()
    assert make_landing(tmp_path, seed=0) == days
    assert [path.name for path in sorted(tmp_path.glob("log_date=*"))] == [f"log_date={day}" for day in days]
    found = sorted(path.name for path in tmp_path.glob("*/job_id=published-*/run_id=0/*"))
    assert found == ["meta-SE.yaml", "meta-ST.yaml", "trace-SE.parquet", "trace-ST.parquet"]


def test_a_folder_with_other_contents_is_refused(tmp_path: Path) -> None:
    precious = tmp_path / "log_date=2026-01-05" / "job.json"
    precious.parent.mkdir()
    precious.write_text("{}")
    with pytest.raises(SettingsError, match="was not made by the demo"):
        make_landing(tmp_path, seed=0)
    assert precious.exists()
    assert not (tmp_path / MARKER).exists()


@pytest.mark.parametrize("name", ["landing", "warehouse"])
def test_a_store_is_refused_before_anything_is_made(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([f"--{name}", "s3://bucket/demo"]) == 2
    assert f"name a folder as --{name}, not s3://bucket/demo" in capsys.readouterr().err


def test_summary_of_an_empty_warehouse(
    spark: SparkSession, test_settings: Settings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All queries of the demo's summary are valid on empty tables."""
    paths = test_settings.paths.model_copy(update={"warehouse": str(tmp_path)})
    show(spark, test_settings.model_copy(update={"paths": paths}))
    printed = capsys.readouterr().out
    assert [title for title, _ in SUMMARY if title not in printed] == []
    assert printed.count("straggler query --warehouse") == len(NEXT) == 4
    for sql in NEXT:
        spark.sql(sql)


def test_the_whole_demo(demo: Demo) -> None:
    assert (demo.report / "index.html").is_file()
    assert f"The report: open {demo.report}/index.html in a browser." in demo.printed
    tables = [re.split(r"\s{2,}", line.strip()) for line in demo.printed.splitlines()]
    rows = {cells[0]: cells for cells in reversed(tables)}  # the first of several rows with a name counts
    assert rows["published-se"][3] == "1.537"
    assert rows["published-st"][3] == "1.179"
    assert rows["node-0013"][1:3] == ["chronic", "3"]
    lines = demo.printed.splitlines()
    title = next(number for number, line in enumerate(lines) if line.startswith("What to fix first"))
    first = re.split(r"\s{2,}", lines[title + 4].strip())
    assert first[:3] == ["slow_worker", "node-0013", "chat-70b, draft-13b, gpt-175b"]
    assert (first[-1], demo.printed.count("throttle_thermal")) == ("gpu 3 throttle_thermal", 1)
    assert "judged_by_history" in demo.printed
    assert {"not_json", "unknown_op", "missing_workers", "no_manifest", "too_few_steps"} <= set(rows)
    commands = [line for line in demo.printed.splitlines() if line.startswith("straggler query")]
    for command in commands:
        answer = start([sys.executable, "-m", "jobs.console", *shlex.split(command)[1:]])
        assert answer.returncode == 0, answer.stderr
