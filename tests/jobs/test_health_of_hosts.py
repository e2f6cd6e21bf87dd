"""A day's health events are shown beside culprits, even if they come late, and removed with their file."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest
from pyspark.sql import SparkSession

from jobs.runtime.settings import Settings
from schemas.vocabulary import CAUSE_EVIDENCE, HOST_HEALTH, JOB_CAUSES, REJECTS, SOURCE_FILES
from tests.support.history import DAYS, NOTHING, History, history_in

pytestmark = pytest.mark.slow


def event(host: str, check: str, at_us: int, state: str = "starts") -> dict[str, Any]:
    return {
        "format": "health/1", "time": at_us, "host": host, "component": "gpu", "index": 3,
        "check": check, "state": state,
    }  # fmt: skip


def write(history: History, records: list[dict[str, Any] | str]) -> Path:
    path = history.landing / f"log_date={DAYS[0]}" / "health.jsonl"
    path.write_text("".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in records))
    return path


@pytest.fixture(scope="module")
def history(
    spark: SparkSession, test_settings: Settings, tmp_path_factory: pytest.TempPathFactory
) -> History:
    found = history_in(tmp_path_factory.mktemp("health"), spark, test_settings)
    for day in DAYS:
        found.put("alpha", day)
    found.finish()
    found.fill()
    return found


def slow_worker_of_the_first_day(causes: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    (cause,) = [row for row in causes if row["log_date"] == DAYS[0] and row["cause"] == "slow_worker"]
    (culprit,) = cause["culprits"]
    return cast("Mapping[str, Any]", culprit)


def test_health_that_comes_late_stands_beside_culprits_and_leaves_with_its_file(history: History) -> None:
    before = {name: history.rows(name) for name in (JOB_CAUSES, REJECTS)}
    assert not history.rows(HOST_HEALTH)
    assert not (history.warehouse / HOST_HEALTH).exists(), "no table is made without health events"
    assert not history.rows(CAUSE_EVIDENCE)
    culprit = slow_worker_of_the_first_day(before[JOB_CAUSES])
    slow_us = int(culprit["first_time"].timestamp() * 1e6)
    file = write(
        history,
        [
            event(culprit["host"], "throttle", slow_us - 60_000_000),
            event(culprit["host"], "later", slow_us + 300_000_000),
            event("elsewhere", "throttle", slow_us),
            "{",
        ],
    )
    done = history.fill()
    own = {(str(DAYS[0]), "")}
    days = {*own, *((str(day), "alpha") for day in DAYS)}
    assert done == {"ingest": own, "simulate": own, "revise": days, "aggregate": days, "publish": days}
    assert sorted(row["check_name"] for row in history.rows(HOST_HEALTH)) == ["later", "throttle", "throttle"]
    row, next_day = history.rows(CAUSE_EVIDENCE)
    changed = {"log_date", "slow_host_days", "slow_host_days_with", "other_host_days", "lift", "chance"}
    assert {name for name in row if row[name] != next_day[name]} <= changed, (
        "the same culprit on the next day"
    )
    assert (row["log_date"], next_day["log_date"], next_day["slow_host_days"]) == (*DAYS, 2)
    assert (row["job_id"], row["cause"], row["culprit"], row["host"]) == (
        "alpha", "slow_worker", 0, culprit["host"],
    )  # fmt: skip
    assert (row["check_name"], row["lead_s"], row["slow_host_days"]) == ("throttle", 60.0, 1)
    assert (
        row["slow_from"]
        == culprit["first_time"].astimezone(UTC)
        == datetime.fromtimestamp(slow_us / 1e6, UTC)
    )
    assert [(row["line"], row["reason"], row["job_id"]) for row in history.rows(REJECTS)] == [
        (4, "not_json", "")
    ]
    (counted,) = [row for row in history.rows(SOURCE_FILES) if row["source_file"].endswith("health.jsonl")]
    assert (counted["lines"], counted["rows"], counted["rejects"]) == (4, 3, 1)
    assert history.rows(JOB_CAUSES) == before[JOB_CAUSES]
    assert history.fill() == NOTHING
    history.put("beta", DAYS[0])
    history.fill()
    assert len(history.rows(HOST_HEALTH)) == 3, "a late run does not change the day's health"
    file.unlink()
    history.fill()
    assert not history.rows(HOST_HEALTH)
    assert not history.rows(CAUSE_EVIDENCE)
    assert history.rows(REJECTS) == before[REJECTS]
