"""Days whose logs come late or are corrected are processed again, and then equal days with logs on time."""

import json
import os
import shutil
from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from jobs import refresh_changed_days
from jobs.landing.files import LandedFile
from jobs.night import whole_night
from jobs.runtime.settings import REPORT
from schemas.vocabulary import JOB_SLOWDOWN, PUBLICATIONS, UNIT_FINGERPRINTS
from tests.support.history import DAYS, JOB_IDS, History, another_version, assert_same_tables, history_in

FIRST, LAST = DAYS[0], DAYS[-1]
AFTER = LAST + timedelta(days=1)


def refresh(history: History, log_date: date = AFTER) -> dict[str, int]:
    """Refresh the days that have changed, as of a log date; return the number of units done, by phase."""
    counts = refresh_changed_days.run(history.spark, history.settings, log_date)
    return {name.removesuffix(".units"): count for name, count in counts.items() if name.endswith(".units")}


ONE_UNIT = {"ingest": 1, "simulate": 1, "revise": 4, "aggregate": 4}
"""Units done by each phase if a unit of the first day has changed; revise and aggregate redo both days."""
ONE_UNIT_OF_LAST = ONE_UNIT | {"revise": 2, "aggregate": 2}


def test_late_files_give_the_tables_of_files_on_time(filled: History, tmp_path: Path) -> None:
    history = history_in(tmp_path, filled.spark, filled.settings)
    shutil.copytree(filled.landing, history.landing)
    late_rank = history.folder("alpha", FIRST) / "rank-00001.jsonl"
    late_job = history.folder("beta", LAST).parent
    for path in (late_rank, late_job):
        path.rename(tmp_path / path.name)
    history.fill()
    by_unit = {(row["log_date"], row["job_id"]): row["status"] for row in history.rows(JOB_SLOWDOWN)}
    assert by_unit == {
        (FIRST, "alpha"): "missing_workers",
        (FIRST, "beta"): "analysed",
        (LAST, "alpha"): "analysed",
    }
    for path in (late_rank, late_job):
        (tmp_path / path.name).rename(path)
    assert refresh(history) == {"ingest": 2, "simulate": 2, "revise": 4, "aggregate": 4}
    assert_same_tables(history.tables(), filled.tables())
    assert history.rows(UNIT_FINGERPRINTS) == filled.rows(UNIT_FINGERPRINTS)


def test_a_corrected_manifest_redoes_its_unit_alone(history: History) -> None:
    manifest = history.folder("alpha", FIRST) / "job.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"gpu_hours": 48.0}))
    assert refresh(history) == ONE_UNIT
    hours = {(row["log_date"], row["job_id"]): row["gpu_hours"] for row in history.rows(JOB_SLOWDOWN)}
    assert hours.pop((FIRST, "alpha")) == 48.0
    assert set(hours.values()) == {96.0}
    assert [row["gpu_hours"] for row in history.rows("fleet_day")] == [48.0 + 96.0, 2 * 96.0]
    assert refresh(history) == {}


def test_a_day_sent_twice_changes_nothing_and_redoes_nothing(filled: History, history: History) -> None:
    before = history.versions()
    for job in JOB_IDS:
        for file in history.folder(job, FIRST).iterdir():
            content = file.read_bytes()
            file.unlink()
            file.write_bytes(content)
            os.utime(file, (1.8e9, 1.8e9))
    assert refresh(history) == {}
    after = history.versions()
    for name in (UNIT_FINGERPRINTS, PUBLICATIONS):
        assert after.pop(name) == before.pop(name) + 1
    assert after == before
    # The first refresh has recorded the files' new times of modification: contents are not read again.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("jobs.refresh_changed_days.digests_by", _no_contents)
        assert refresh(history) == {}


def _no_contents(_spark: SparkSession, _landing: str, files: Sequence[LandedFile]) -> dict[str, str]:
    assert not files, "no contents may be read"
    return {}


def test_other_contents_of_the_same_size_are_seen(history: History) -> None:
    log = history.folder("beta", LAST) / "rank-00000.jsonl"
    text = log.read_text()
    log.write_text(text.replace('"host":"n', '"host":"m'))
    assert log.stat().st_size == len(text)
    assert refresh(history) == ONE_UNIT_OF_LAST


def test_only_finished_days_that_are_near_enough_are_looked_at(history: History) -> None:
    for day in DAYS:
        history.put("alpha", day, slow=2.0)
    (history.landing / f"log_date={LAST}" / "_SUCCESS").unlink()
    assert refresh(history, LAST + timedelta(days=history.settings.history.look_back_days)) == {}
    assert refresh(history, FIRST) == {}
    assert refresh(history) == ONE_UNIT
    history.finish()
    assert refresh(history, LAST) == {}
    assert refresh(history) == ONE_UNIT_OF_LAST


def test_another_version_is_not_late_data(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    before = history.versions()
    another_version(monkeypatch, "simulate")
    assert refresh(history.with_settings(minimum_steps=13)) == {}
    assert history.versions() == before


def test_the_command_line_refreshes(history: History, capsys: pytest.CaptureFixture[str]) -> None:
    history.put("alpha", LAST, slow=2.0)
    summary = history.warehouse.parent / "summary.json"
    arguments = [*history.arguments(), "--log-date", AFTER.isoformat(), "--summary", str(summary)]
    assert refresh_changed_days.main(arguments) == 0
    written = json.loads(summary.read_text())
    assert (written["days"], written["rows"]["jobs"], written["dry_run"]) == ([LAST.isoformat()], 1, False)
    (run,) = history.rows("pipeline_runs")
    assert [(each["phase"], each["units"]) for each in run["phases"]] == list(ONE_UNIT_OF_LAST.items())


def test_a_late_file_gives_the_tables_and_pages_of_nights_in_order(history: History) -> None:
    """A late file gives the same tables and pages, also for later days, as if it had come on time."""
    shutil.rmtree(history.warehouse)
    for day in DAYS:
        whole_night.run(history.spark, history.settings, [day])
    early = pages(history)
    history.put("alpha", DAYS[0], slow=2.0)
    history.finish()
    refresh(history)
    late, tables = pages(history), history.tables()
    shutil.rmtree(history.warehouse)
    for day in DAYS:
        whole_night.run(history.spark, history.settings, [day])
    assert_same_tables(tables, history.tables())
    assert late == pages(history)
    for day in DAYS:
        assert late[f"{day}/index.html"] != early[f"{day}/index.html"]


def pages(history: History) -> dict[str, bytes]:
    """Return all pages of the reports, by path."""
    root = history.warehouse / REPORT
    return {page.relative_to(root).as_posix(): page.read_bytes() for page in root.rglob("*.html")}
