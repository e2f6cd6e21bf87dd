"""A run's row is written at its start and completed at its end or, if it was killed, by the next writer."""

import errno
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from jobs.entry_points.run_log import recorded_run, say_killed
from jobs.warehouse.run_notes import FOLDER, RunNote
from jobs.warehouse.tables import Warehouse
from schemas.log_tables import PIPELINE_RUNS as TABLE
from tests.support.examples import table_rows


def outcomes(warehouse: Warehouse) -> list[tuple[str, str]]:
    rows = warehouse.rows(TABLE)
    return sorted(zip(rows["entry_point"].to_pylist(), rows["outcome"].to_pylist(), strict=True))


def test_a_run_has_one_row_from_its_start_to_its_end(tmp_path: Path) -> None:
    warehouse = Warehouse(cast("SparkSession", None), str(tmp_path))
    with recorded_run(warehouse, "backfill", []) as counts:
        assert outcomes(warehouse) == [("backfill", "started")]
        counts["jobs"] = 3
    assert outcomes(warehouse) == [("backfill", "done")]
    with pytest.raises(KeyboardInterrupt), recorded_run(warehouse, "query", []):
        raise KeyboardInterrupt
    assert outcomes(warehouse) == [("backfill", "done"), ("query", "interrupted")]
    assert set(warehouse.rows(TABLE)["rows_out"].to_pylist()) == {3, None}


def test_what_has_started_and_not_ended_was_killed(tmp_path: Path) -> None:
    warehouse = Warehouse(cast("SparkSession", None), str(tmp_path))
    runs = [
        {"pipeline_run_id": run, "entry_point": run, "outcome": outcome}
        for run, outcome in (("a", "started"), ("b", "done"), ("c", "started"))
    ]
    warehouse.append(TABLE, table_rows(TABLE.name, runs))
    assert say_killed(warehouse) == 2
    assert outcomes(warehouse) == [("a", "killed"), ("b", "done"), ("c", "killed")]
    assert say_killed(warehouse) == 0


def test_a_run_that_fails_on_a_full_disk_has_failed_and_was_not_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    warehouse = Warehouse(cast("SparkSession", None), str(tmp_path))
    full = OSError(errno.ENOSPC, "No space left on device")

    def fails(*_: object) -> None:
        raise full

    def fill_up() -> None:
        on_full_disk.setattr(Warehouse, "rewrite", fails)
        raise full

    with (
        monkeypatch.context() as on_full_disk,
        pytest.raises(OSError, match="No space"),
        recorded_run(warehouse, "backfill", []),
    ):
        fill_up()
    assert outcomes(warehouse) == [("backfill", "started")]
    (said,) = caplog.messages
    assert said.startswith("the end of this run is not in pipeline_runs: [Errno 28] No space left")
    assert said.endswith("; the next run writes how it ended")
    assert say_killed(warehouse) == 0
    assert outcomes(warehouse) == [("backfill", "failed")]
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_a_run_that_only_cannot_say_that_it_is_done_was_not_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that ended well, but could not complete its row on a full disk, is later recorded as done."""
    warehouse = Warehouse(cast("SparkSession", None), str(tmp_path))

    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with (
        monkeypatch.context() as on_full_disk,
        pytest.raises(OSError, match="No space"),
        recorded_run(warehouse, "backfill", []),
    ):
        on_full_disk.setattr(Warehouse, "rewrite", fails)
    assert say_killed(warehouse) == 0
    assert outcomes(warehouse) == [("backfill", "done")]


def test_a_run_that_is_killed_before_its_row_is_there_leaves_no_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse(cast("SparkSession", None), str(tmp_path))

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as at_a_bad_moment:
        at_a_bad_moment.setattr(Warehouse, "append", killed)
        with pytest.raises(KeyboardInterrupt), recorded_run(warehouse, "backfill", []):
            pytest.fail("the run has begun")
    assert say_killed(warehouse) == 0
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_of_a_run_in_a_store_nothing_else_says_how_it_ended() -> None:
    note = RunNote("s3://bucket/warehouse", "a")
    note.say("failed")
    assert (note.said(), note.later) == ("", "the next run calls it killed")
