"""Nights run by the real scheduler, latest first and with a crash, give the same tables as nights in order.

Airflow gets its own home, uses only the loopback interface, and is ended even if the test fails.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from pyspark.sql import SparkSession

from dags.operators.local_airflow import LocalAirflow
from dags.operators.spark_submit import POOL
from jobs.emitter.rank_log_writer import finish_day
from jobs.night.whole_night import run as run_nightly
from jobs.runtime.settings import load_settings
from jobs.warehouse.tables import Warehouse
from schemas.causes import JUDGED_BY_HISTORY
from schemas.tables import TABLES
from schemas.vocabulary import PIPELINE_RUNS
from tests.dags.test_dag_files import TASKS
from tests.dags.test_night import SMALL
from tests.jobs.test_revised_causes import DAYS, REPLICA, SICK, hosts, write
from tests.support.commands import SHORT_LIVED
from tests.support.history import assert_same_tables, published
from tests.support.ports import free_port

pytestmark = pytest.mark.slow

NIGHT = "nightly_what_if"
NIGHTS = DAYS[:2]
WRITERS = ("scheduler", "dag-processor")
"""Those of Airflow's processes that write to its database all the time."""
QUICK = {
    "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
    "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
    "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "20",
    "SPARK_SUBMIT_OPTS": SHORT_LIVED,
}
"""Settings that shorten the test: a scheduler's death is noticed within half a minute, not five minutes."""

Found = TypeVar("Found")

BOUND_S = 1200
"""Longest wait for one condition."""


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, str]:
    """Generate two days of a job with a slow host that only the first day's logs reveal; return the paths."""
    landing, settings = tmp_path / "landing", tmp_path / "settings.toml"
    for number, day in enumerate(NIGHTS):
        write(landing, number, "sick-stage", REPLICA, hosts("a", number, 4, *([2] if number else [])))
        finish_day(landing, day)
    settings.write_text(f"[revision]\nminimum_runs = 1\n{SMALL}")
    named = {"landing": landing, "warehouse": tmp_path / "warehouse", "settings": settings}
    return {f"what_if_{name}": str(path) for name, path in named.items()}


@pytest.fixture
def airflow(tmp_path: Path, folders: dict[str, str]) -> Iterator[LocalAirflow]:
    with LocalAirflow(tmp_path / "airflow", free_port(), folders, QUICK) as started:
        assert sorted(started.wait_for_dags(len(TASKS))) == sorted(TASKS)
        yield started


def create_backfill(airflow: LocalAirflow, first: str, last: str, at_a_time: int) -> None:
    """Start an Airflow backfill from `first` to `last`, latest day first, `at_a_time` days in parallel.

    Meanwhile the processes in WRITERS are stopped. Airflow creates all runs of a backfill in one transaction,
    which SQLite may refuse while other processes write.
    """
    ask(airflow, "", "PATCH", {"is_paused": False})
    for component in WRITERS:
        airflow.kill(component)
    days = ["--from-date", first, "--to-date", last, "--run-backwards", "--max-active-runs", str(at_a_time)]
    airflow.command("backfill", "create", "--dag-id", NIGHT, *days)
    for component in WRITERS:
        airflow.start(component)


def tasks_of(airflow: LocalAirflow) -> list[dict[str, Any]]:
    """Return the tasks of the nights in NIGHTS, in any state."""
    tasks = ask(airflow, "dagRuns/~/taskInstances?limit=100")["task_instances"]
    days = {day.isoformat() for day in NIGHTS}
    found = [each for each in tasks if (each["logical_date"] or "")[:10] in days]
    assert len(found) == len(NIGHTS) * len(TASKS[NIGHT])
    return found


def ask(airflow: LocalAirflow, what: str, method: str = "GET", body: object = None) -> Any:  # noqa: ANN401  # JSON
    return airflow.ask(f"/api/v2/dags/{NIGHT}/{what}".rstrip("/"), method, body)


def wait_for(asked: Callable[[], Found]) -> Found:
    """Call `asked` each second until its result is true, and return the result."""
    deadline = time.monotonic() + BOUND_S
    while not (found := asked()):
        assert time.monotonic() < deadline, f"no answer within {BOUND_S} s"
        time.sleep(1)
    return found


def extras(events: list[dict[str, Any]], asset: str) -> dict[str, dict[str, Any]]:
    """Return the extra fields of an asset's events, by log date."""
    return {event["extra"]["log_date"]: event["extra"] for event in events if event["name"] == asset}


def test_a_backfill_backwards_through_a_crash_gives_the_tables_of_nights_in_order(
    airflow: LocalAirflow, folders: dict[str, str], spark: SparkSession, tmp_path: Path
) -> None:
    first, last = (day.isoformat() for day in NIGHTS)
    create_backfill(airflow, first, last, at_a_time=1)
    writers: list[int] = []

    def lost() -> list[tuple[str, str]]:
        """Return (log date, start) of each simulation that Airflow lists as running."""
        tasks = [each for each in tasks_of(airflow) if each["task_id"] == "simulate_what_if"]
        return [(each["logical_date"], each["start_date"]) for each in tasks if each["state"] == "running"]

    def is_over() -> bool:
        found = tasks_of(airflow)
        running = [each for each in found if each["state"] == "running"]
        writers.append(sum(each["pool"] == POOL for each in running))
        return all(each["state"] == "success" for each in found)

    ((day, started),) = wait_for(lost)
    airflow.kill("scheduler")
    airflow.start("scheduler")
    wait_for(is_over)
    again = [each for each in tasks_of(airflow) if each["task_id"] == "simulate_what_if"]
    assert started not in {each["start_date"] for each in again if each["logical_date"] == day}
    assert max(writers) == 1

    expected = tmp_path / "expected"
    settings = load_settings(folders["what_if_settings"], folders["what_if_landing"], str(expected))
    for night in NIGHTS:
        run_nightly(spark, settings, [night])
    tables = published(spark, expected)
    assert_same_tables(published(spark, folders["what_if_warehouse"]), tables)
    judged = [row for row in tables["job_causes"] if row["flag_reason"] == JUDGED_BY_HISTORY]
    assert SICK in {culprit["host"] for row in judged for culprit in row["culprits"]}
    runs = Warehouse(spark, folders["what_if_warehouse"]).rows(TABLES[PIPELINE_RUNS]).to_pylist()
    done = Counter((str(run["log_date"]), run["entry_point"]) for run in runs if run["outcome"] == "done")
    # If the scheduler was killed before it noticed that the simulation had ended, the simulation runs twice.
    done[day[:10], "simulate_what_if"] = min(done[day[:10], "simulate_what_if"], 1)
    assert done == Counter((str(night), task) for night in NIGHTS for task in TASKS[NIGHT][1:])

    events = airflow.ask("/api/v2/assets/events?limit=100")["asset_events"]
    nights = {
        event["extra"]["log_date"]: event["extra"] for event in events if event["name"] == "what_if_night"
    }
    assert sorted(nights) == [first, last]
    assert nights[last]["rows"]["job_causes"] == 7
    phases = [phase["phase"] for phase in nights[last]["phases"]]
    assert phases == ["ingest", "simulate", "revise", "aggregate"]
    assert Path(nights[last]["data_docs"]).exists()
    assert {event["extra"]["log_date"] for event in events if event["name"] == "what_if_fleet_day"} == {
        first,
        last,
    }
