"""Results of a new version are computed beside the current ones, compared with them, and made current."""

import json
import logging
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from jobs import backfill, compare_versions
from jobs.night import ingest
from jobs.runtime.settings import SettingsError, with_new_warehouse
from jobs.transforms.versions import changed_units, results_with_causes
from schemas.vocabulary import INGESTED_TABLES, JOB_CAUSES, JOB_SLOWDOWN, RESULT_TABLES
from tests.support.examples import frame
from tests.support.history import (
    DAYS,
    JOB_IDS,
    NOTHING,
    History,
    another_version,
    assert_same_tables,
    units_of,
)

RANGE = ["--from", DAYS[0].isoformat(), "--to", DAYS[-1].isoformat()]
UNIT = (date(2026, 1, 5), "gpt-175b", "r3")


def compared(
    spark: SparkSession, change: Mapping[str, Any], causes: tuple[str, ...] = ("slow_worker",)
) -> list[dict[str, Any]]:
    """Return the rows of changed_units for a unit whose new result has the given changes.

    causes : causes in the new result; the current result has slow_worker
    """
    current = results_with_causes(frame(spark, JOB_SLOWDOWN), frame(spark, JOB_CAUSES))
    rows = [{"cause": cause} for cause in causes]
    new = results_with_causes(frame(spark, JOB_SLOWDOWN, [change]), frame(spark, JOB_CAUSES, rows))
    return [row.asDict() for row in changed_units(current, new, 1e-9).collect()]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"simulator_version": "9"}, None),
        ({"slowdown": 1.25 * (1 + 1e-10)}, None),
        ({"slowdown": 1.25 * (1 + 1e-8)}, "slowdown"),
        ({"status": "too_few_steps"}, "status"),
        ({"status": "no_ops", "slowdown": None}, "status"),
        ({"status": "high_discrepancy", "slowdown": 1.5}, "status, slowdown"),
    ],
)
def test_what_counts_as_a_change(spark: SparkSession, change: dict[str, Any], text: str | None) -> None:
    assert [row["changed"] for row in compared(spark, change)] == ([text] if text else [])


def test_a_change_is_reported_with_both_sides_and_its_size(spark: SparkSession) -> None:
    (row,) = compared(spark, {"slowdown": 1.5, "wasted_gpu_hours": 64.0}, ("pause", "data_imbalance"))
    assert row == {
        "log_date": UNIT[0],
        "job_id": UNIT[1],
        "run_id": UNIT[2],
        "changed": "slowdown, causes",
        "status": "analysed",
        "new_status": "analysed",
        "slowdown": 1.25,
        "new_slowdown": 1.5,
        "slowdown_change": 0.25,
        "causes": "slow_worker",
        "new_causes": "data_imbalance, pause",
        "wasted_gpu_hours_change": pytest.approx(64.0 - 192.0 * 0.2),
        "simulator_version": "1.0.0",
        "new_simulator_version": "1.0.0",
    }


def test_units_of_one_side_alone_are_reported(spark: SparkSession) -> None:
    rows = compared(spark, {"job_id": "other"})
    assert {row["job_id"]: row["changed"] for row in rows} == {
        "gpt-175b": "only in current",
        "other": "only in new",
    }


def test_a_new_version_beside_the_current_one_is_compared_and_made_current(
    history: History,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    before, versions = history.tables(), history.versions()
    side = tmp_path / "side"
    settings = tmp_path / "new.toml"
    settings.write_text('[simulation]\nminimum_steps = 13\nideal = "pooled-median"\n')
    another_version(monkeypatch, "simulate")
    beside = [*history.arguments(), "--settings", str(settings), "--warehouse-new", str(side)]

    assert backfill.main([*beside, *RANGE]) == 0
    assert history.tables() == before
    assert not {name for name in INGESTED_TABLES if (side / name).exists()}

    capsys.readouterr()
    assert compare_versions.main([*beside, "--format", "json"]) == 0
    text = capsys.readouterr()
    changes = json.loads(text.out)
    assert {(row["log_date"], row["job_id"]) for row in changes} == {
        (day.isoformat(), job) for day in DAYS for job in JOB_IDS
    }
    assert {row["new_status"] for row in changes} == {"too_few_steps"}
    assert all(row["changed"].startswith("status") for row in changes)
    assert f"4 units of {DAYS[0]} .. {DAYS[-1]} compared: 4 status" in text.err
    assert {name: history.versions()[name] for name in RESULT_TABLES} == {
        name: versions[name] for name in RESULT_TABLES
    }

    other = with_new_warehouse(history.settings, str(side))
    new = History(history.spark, other).tables()
    with caplog.at_level(logging.INFO, compare_versions.__name__):
        assert compare_versions.main([*beside, "--make-current"]) == 0
    begin, end = (line for line in caplog.messages if " current" in line)
    assert begin == f"results of {DAYS[0]} .. {DAYS[-1]} in {side} become current"
    assert end.startswith("the new results are current, after ")
    current = history.tables()
    assert {name: current[name] for name in RESULT_TABLES} == {name: new[name] for name in RESULT_TABLES}
    assert_same_tables(current, new | {name: before[name] for name in INGESTED_TABLES})
    made = history.with_settings(minimum_steps=13, ideal="pooled-median")
    assert units_of(made.plan()) == NOTHING
    capsys.readouterr()
    assert compare_versions.main(beside) == 0
    assert "compared: none changed" in capsys.readouterr().err


def test_nothing_is_ingested_into_a_warehouse_that_reads_anothers_ingested_tables(
    history: History, tmp_path: Path
) -> None:
    beside = with_new_warehouse(history.settings, str(tmp_path / "side"))
    with pytest.raises(SettingsError, match=r"^paths\.ingested: ingested tables of another warehouse"):
        ingest.run(history.spark, beside, DAYS)
    assert not (tmp_path / "side").exists()


def test_missing_new_results_are_an_error(
    history: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    side = str(tmp_path / "empty")
    Path(side).mkdir()
    assert compare_versions.main([*history.arguments(), "--warehouse-new", side]) == 2
    lines = capsys.readouterr().err.splitlines()[-1]
    assert lines == f"compare_versions: error: --warehouse-new: no results of these days in {side}"
