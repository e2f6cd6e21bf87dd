"""Tests of the sensor that waits for a complete day: where it looks, how often, and when it gives up."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest
from airflow.sdk import DAG, Context, ObjectStoragePath
from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException, AirflowSensorTimeout

from dags.operators.day_marker import DayMarkerSensor
from jobs.emitter.rank_log_writer import finish_day
from jobs.runtime.project import PROJECT
from jobs.runtime.settings import load_settings
from tests.dags.conftest import Run, stand_in
from tests.support.examples import DAY

MARKER = "log_date=2026-01-05/_SUCCESS"


class FirstLook:
    """Substitute for a task instance whose sensor has not checked before."""

    def get_first_reschedule_date(self, _: object) -> None:
        """Return None, as for a sensor that checks for the first time."""


FIRST_LOOK: Context = {"ti": cast("Any", FirstLook())}
IN_A_BACKFILL: Context = {**FIRST_LOOK, "dag_run": cast("Any", SimpleNamespace(run_type="backfill"))}


def wait(
    landing: str | Path = "",
    *,
    log_date: str = "2026-01-05",
    project: str | Path = "",
    settings: str | Path = "",
    timeout: float = 3600,
) -> DayMarkerSensor:
    return DayMarkerSensor(
        task_id="wait_for_day",
        log_date=log_date,
        project=str(project),
        landing=str(landing),
        settings=str(settings),
        timeout=timeout,
    )


@pytest.fixture
def bucket() -> Iterator[ObjectStoragePath]:
    """A landing in an object store of this process, which is reached by a URL."""
    landing = ObjectStoragePath("memory://bucket/landing")
    landing.mkdir(parents=True)
    yield landing
    landing.rmdir(recursive=True)


def test_a_landing_below_the_home_is_where_the_entry_points_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert wait("~/landing").marker() == f"{tmp_path}/landing/{MARKER}"
    assert load_settings("base", landing="~/landing").paths.landing == f"{tmp_path}/landing"


def test_a_marker_in_a_folder_is_seen(tmp_path: Path) -> None:
    assert not wait(tmp_path).poke({})
    (tmp_path / "log_date=2026-01-05").mkdir()
    assert not wait(tmp_path).poke({})
    finish_day(tmp_path, DAY)
    assert wait(tmp_path).poke({})
    assert wait(f"{tmp_path}/").poke({})
    assert wait(tmp_path.as_uri()).poke({})
    assert not wait(tmp_path, log_date="2026-01-06").poke({})


def test_a_marker_in_an_object_store_is_seen(bucket: ObjectStoragePath) -> None:
    (bucket / "log_date=2026-01-04" / "_SUCCESS").touch()
    assert not wait(str(bucket)).poke({})
    (bucket / MARKER).touch()
    assert wait(str(bucket)).poke({})


def test_without_a_landing_the_settings_say_where_it_is_and_it_starts_at_the_project(tmp_path: Path) -> None:
    assert wait().marker() == str(PROJECT / "landing" / MARKER)
    overlay = tmp_path / "overlay.toml"
    overlay.write_text('[paths]\nlanding = "s3a://bucket/logs"\n')
    assert wait(settings=overlay).marker() == f"s3://bucket/logs/{MARKER}"
    assert wait("demo/landing").marker() == str(PROJECT / "demo" / "landing" / MARKER)
    assert wait("logs", project=tmp_path).marker() == str(tmp_path / "logs" / MARKER)


def test_wrong_settings_fail_at_once(tmp_path: Path) -> None:
    overlay = tmp_path / "overlay.toml"
    overlay.write_text("[path]\n")
    says = rf"name the landing: .*{overlay}: path: unknown key: did you mean paths"
    with pytest.raises(AirflowFailException, match=says):
        wait(settings=overlay).poke({})


def test_a_run_without_logical_date_has_no_day_to_wait_for(tmp_path: Path) -> None:
    with pytest.raises(AirflowFailException, match="this run has no logical date"):
        wait(tmp_path, log_date="").execute({})


@pytest.mark.parametrize("wrong", ["2026-02-30", "20260105", "2026-1-5", "tomorrow"])
def test_a_partition_that_is_no_day_is_not_waited_for(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(AirflowFailException, match="is not a log date"):
        wait(tmp_path, log_date=wrong).execute(FIRST_LOOK)


def test_the_wait_gives_its_slot_back_between_two_looks_and_says_in_the_end_what_it_waited_for(
    tmp_path: Path,
) -> None:
    with pytest.raises(AirflowRescheduleException):
        wait(tmp_path).execute(FIRST_LOOK)
    with pytest.raises(AirflowSensorTimeout) as raised:
        wait(tmp_path, timeout=0).execute(FIRST_LOOK)
    assert str(raised.value) == (
        f"{tmp_path / MARKER} has not appeared within 0 hours: the producers have not finished 2026-01-05. "
        "Once it is there, clear this task to run the night"
    )


def test_a_backfill_looks_once_and_waits_for_no_day(tmp_path: Path) -> None:
    """In a backfill the sensor checks once: waiting for an incomplete day would delay all other days."""
    with pytest.raises(AirflowSensorTimeout, match="is missing, and a backfill does not wait: the producers"):
        wait(tmp_path).execute(IN_A_BACKFILL)
    finish_day(tmp_path, DAY)
    wait(tmp_path).execute(IN_A_BACKFILL)


@pytest.mark.parametrize(
    ("error", "waiting", "in_a_backfill"),
    [
        (ConnectionResetError("hung up"), AirflowRescheduleException, ConnectionResetError),
        (PermissionError("not for you"), AirflowFailException, AirflowFailException),
    ],
)
def test_a_store_that_does_not_answer_is_looked_at_again_and_one_that_refuses_is_not(
    bucket: ObjectStoragePath,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    waiting: type[Exception],
    in_a_backfill: type[Exception],
) -> None:
    monkeypatch.setattr("fsspec.implementations.memory.MemoryFileSystem._open", Mock(side_effect=error))
    with pytest.raises(waiting) as raised:
        wait(str(bucket)).execute(FIRST_LOOK)
    assert waiting is AirflowRescheduleException or "_SUCCESS is not allowed: not" in str(raised.value)
    with pytest.raises(in_a_backfill):  # Airflow retries the first of these errors
        wait(str(bucket)).execute(IN_A_BACKFILL)


def test_a_night_starts_when_its_marker_appears(
    nightly: DAG, run_dag: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(nightly, tmp_path, "true")
    poke, looks = DayMarkerSensor.poke, []

    def look_then_finish(sensor: DayMarkerSensor, context: Context) -> bool:
        looks.append(poke(sensor, context))
        finish_day(tmp_path, DAY)
        return looks[-1]

    monkeypatch.setattr(DayMarkerSensor, "poke", look_then_finish)
    assert set(run_dag(nightly).values()) == {("success", 1)}
    assert looks == [False, True]
