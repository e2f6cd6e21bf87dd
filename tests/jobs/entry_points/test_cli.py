"""Test entry points: arguments, exit status, one-line errors, and each run's row in pipeline_runs."""

import os
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path
from threading import Event

import pytest
from pyspark.sql import Row, SparkSession

from jobs.entry_points.cli import Body, entry_point
from jobs.entry_points.run_log import ROWS_IN
from jobs.gates.checks import Check, GateRefusedError
from jobs.runtime.arguments import LOG_DATE, Arguments
from jobs.runtime.java import JavaNotFoundError
from jobs.runtime.package import write_zip
from jobs.runtime.session import SessionError
from jobs.runtime.settings import Settings, SettingsError
from jobs.warehouse.tables import Warehouse
from schemas.log_tables import PIPELINE_RUNS as TABLE
from tests.support.commands import spark_submit, start

DAY = ["--log-date", "2026-01-05"]
REFUSED = GateRefusedError([Check("jobs", "jobs_world_size_in_range", 2, "at least 1")])

READERS_SEE_THE_LAST = "night: interrupted: readers see the tables as last published; "
PROGRAM = """
import sys
from jobs.entry_points.cli import entry_point
from jobs.gates.checks import Check, GateRefusedError

@entry_point("program", writes_to=None)
def main(spark, settings, arguments):
    raise GateRefusedError([Check("jobs", "made_up", 2, "never holds")])

sys.exit(main())
"""


def failing_with(error: BaseException) -> Body:
    def body(spark: SparkSession, settings: Settings, arguments: Arguments) -> Mapping[str, int]:
        raise error

    return body


def doing_nothing(spark: SparkSession, settings: Settings, arguments: Arguments) -> Mapping[str, int]:
    return {}


def after_ctrl_c(spark: SparkSession, settings: Settings, arguments: Arguments) -> Mapping[str, int]:
    """Raise another error in place of KeyboardInterrupt, as cancelled jobs of Spark and DuckDB do."""
    with suppress(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(9)
    raise RuntimeError("Query interrupted")


def last_line(text: str) -> str:
    return text.strip().splitlines()[-1]


def runs(spark: SparkSession, warehouse: Path) -> list[Row]:
    return Warehouse(spark, str(warehouse)).read(TABLE).collect()


def test_a_run_hands_settings_and_arguments_to_its_body_and_leaves_a_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    seen: dict[str, object] = {}

    def body(session: SparkSession, settings: Settings, arguments: Arguments) -> Mapping[str, int]:
        seen.update(spark=session, landing=settings.paths.landing, day=arguments.log_date)
        return {ROWS_IN: 7, "rank_steps": 5, "rejects": 2}

    argv = [*DAY, "--landing", f"{tmp_path}/a b", "--warehouse", str(tmp_path)]
    assert entry_point("night", LOG_DATE)(body)(argv) == 0
    assert seen == {"spark": spark, "landing": f"{tmp_path}/a b", "day": date(2026, 1, 5)}
    (row,) = runs(spark, tmp_path)
    assert (row.entry_point, row.outcome, row.log_date) == ("night", "done", date(2026, 1, 5))
    assert row.arguments == f"--log-date 2026-01-05 --landing '{tmp_path}/a b' --warehouse {tmp_path}"
    assert (row.rows_in, row.rows_out) == (7, 7)
    assert 0 <= row.seconds < 60


@pytest.mark.parametrize(
    ("error", "status", "outcome", "message"),
    [
        (SettingsError("conf/base.toml: a: b"), 2, "wrong_settings", "night: error: conf/base.toml: a: b"),
        (
            REFUSED,
            3,
            "gate_refused",
            "night: error: gate refused, nothing of this phase was published: table jobs, ",
        ),
        (ValueError("no such\nthing"), 1, "failed", "night: error: ValueError: no such"),
        (KeyboardInterrupt(), 130, "interrupted", READERS_SEE_THE_LAST),
    ],
    ids=["settings", "gate", "surprise", "Ctrl-C"],
)
def test_what_went_wrong_is_the_exit_status_the_last_line_and_a_row(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    status: int,
    outcome: str,
    message: str,
) -> None:
    argv = ["--warehouse", str(tmp_path)]
    assert entry_point("night")(failing_with(error))(argv) == status
    assert last_line(capsys.readouterr().err).startswith(message)
    (row,) = runs(spark, tmp_path)
    assert (row.outcome, row.rows_in, row.rows_out, row.log_date) == (outcome, None, None, None)


def test_what_ctrl_c_makes_fail_is_an_interruption_and_sparks_jobs_are_cancelled(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cancelled = Event()
    monkeypatch.setattr(spark.sparkContext, "cancelAllJobs", cancelled.set)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background processes ignore SIGINT
    try:
        assert entry_point("night")(after_ctrl_c)(["--warehouse", str(tmp_path)]) == 130
        assert signal.getsignal(signal.SIGINT) == signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err.startswith(READERS_SEE_THE_LAST)
    assert cancelled.wait(60)
    (row,) = runs(spark, tmp_path)
    assert row.outcome == "interrupted"


def test_only_a_surprise_leaves_its_traceback_in_the_log(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    entry_point("night", writes_to=None)(failing_with(REFUSED))(["--warehouse", str(tmp_path)])
    assert caplog.records == []
    entry_point("night", writes_to=None)(failing_with(ValueError("no")))(["--warehouse", str(tmp_path)])
    assert [record.exc_info is not None for record in caplog.records] == [True]


@pytest.mark.parametrize("error", [SessionError("no Delta"), JavaNotFoundError("no Java")])
def test_a_session_that_cannot_be_made_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path, error: Exception
) -> None:
    def refuse(settings: Settings, app_name: str) -> None:
        raise error

    monkeypatch.setattr("jobs.entry_points.cli.session", refuse)
    assert entry_point("night", writes_to=None)(doing_nothing)(["--warehouse", str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"night: error: {error}\n"


def test_a_row_that_cannot_be_written_hides_neither_an_error_nor_itself(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def rewrite(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Warehouse, "rewrite", rewrite)
    assert entry_point("night")(failing_with(REFUSED))(["--warehouse", str(tmp_path)]) == 3
    assert last_line(capsys.readouterr().err).startswith("night: error: gate refused")
    assert entry_point("night")(doing_nothing)(["--warehouse", str(tmp_path)]) == 1
    assert last_line(capsys.readouterr().err) == "night: error: OSError: disk full"


@pytest.mark.slow
def test_spark_submit_passes_the_exit_status_on(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    archive = write_zip(tmp_path / "project.zip")
    done = start(
        spark_submit("--py-files", str(archive), str(program), "--warehouse", str(tmp_path)), tmp_path
    )
    assert done.returncode == 3
    assert "program: error: gate refused, nothing of this phase was published: table jobs" in done.stdout
