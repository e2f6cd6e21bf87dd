"""Every DAG file parses quickly, without importing Spark, and follows the project's policy."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, BaseOperator, PartitionedAssetTimetable
from airflow.serialization.encoders import coerce_to_core_timetable
from airflow.timetables.base import TimeRestriction
from jinja2 import Template
from pendulum import DateTime

from dags.operators.alerts import alert_failure, alert_warnings
from dags.operators.assets import LANDING
from schemas.vocabulary import FLEET_TABLES, INGESTED_TABLES, JOB_CAUSES, RESULT_TABLES
from tests.dags import AIRFLOW, DAGS

TASKS = {
    "backfill_history": ["backfill"],
    "maintain_tables": ["maintain_tables"],
    "nightly_what_if": [
        "wait_for_day",
        "ingest_rank_logs",
        "simulate_what_if",
        "revise_causes",
        "aggregate_fleet",
        "publish_night",
    ],
    "refresh_changed_days": ["refresh_changed_days"],
    "watch_landing": ["watch_landing"],
}
"""The tasks of every DAG, in the order in which they run."""

LOADED = """
import airflow.sdk, json, os, runpy, sys
ours = {"dags", "jobs", "schemas", "tests", "udfs"}
heavy = {"delta", "great_expectations", "numpy", "pandas", "polars", "py4j", "pyarrow", "pyspark"}
for file in sys.argv[1:]:
    if os.fork():
        assert os.wait()[1] == 0, file
        continue
    runpy.run_path(file)
    loaded = sorted(name for name in sys.modules if name.partition(".")[0] in ours | heavy)
    print(json.dumps([file, loaded]))
    break
"""
"""Script that runs each DAG file in a forked process, and prints which modules of this project were imported.

The script imports Airflow, which takes longer than a DAG file, only once, before it forks.
"""


def test_every_file_is_one_dag_of_its_name_and_no_other_is_read(dag_bag: DagBag) -> None:
    files = {file.stem for file in DAGS.glob("*.py")} - {"__init__"}
    assert dag_bag.import_errors == {}
    assert set(dag_bag.dags) == files == set(TASKS)
    assert [Path(dag.fileloc).stem for dag in dag_bag.dags.values()] == list(dag_bag.dags)
    assert {Path(file.file).name for file in dag_bag.dagbag_stats} == {f"{name}.py" for name in TASKS}


def test_reading_a_file_imports_airflow_and_the_vocabulary(tmp_path: Path) -> None:
    files = [str(DAGS / f"{name}.py") for name in TASKS]
    command = [sys.executable, "-c", LOADED, *files]
    # Airflow's processes also start in another folder, and without the project on their path.
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=AIRFLOW)
    assert done.returncode == 0, done.stderr
    loaded = dict(json.loads(line) for line in done.stdout.splitlines() if line.startswith("["))
    beside = {file: {name for name in loaded[file] if not name.startswith("dags")} for file in files}
    declared = {"schemas", "schemas.vocabulary", "schemas.causes", "schemas.op_types"}
    assert beside == dict.fromkeys(files, declared)


def test_tasks_run_in_turn(dag_bag: DagBag) -> None:
    for name, wanted in TASKS.items():
        after = {task.task_id: task.downstream_task_ids for task in dag_bag.dags[name].tasks}
        assert after == {**{first: {second} for first, second in pairwise(wanted)}, wanted[-1]: set()}


def test_a_dag_has_a_page_tags_and_a_policy_for_days_missed(dag_bag: DagBag) -> None:
    for dag in dag_bag.dags.values():
        assert (dag.doc_md or "").startswith("# ")
        assert dag.description
        assert "what-if" in dag.tags
        assert not dag.catchup


def test_every_task_keeps_to_the_policy(dag_bag: DagBag) -> None:
    """Every task has retries and a timeout, alerts on failure, and never runs twice at the same time."""
    for dag in dag_bag.dags.values():
        for task in dag.tasks:
            assert isinstance(task, BaseOperator)
            assert (task.owner, task.retries, task.max_active_tis_per_dag) == ("training-efficiency", 2, 1)
            assert task.doc_md
            assert task.execution_timeout is not None
            assert task.retry_delay >= timedelta(minutes=1)
            assert task.retry_exponential_backoff > 1
            is_beside = task.task_id in ("wait_for_day", "watch_landing")  # these two write no tables
            pool = "default_pool" if is_beside else "what_if_writers"
            assert (task.pool, task.pool_slots) == (pool, 1)
            assert tuple(task.on_failure_callback) == (alert_failure,)
            warns = task.task_id in ("publish_night", "watch_landing")
            assert (alert_warnings in task.on_success_callback) == warns


def test_every_published_table_is_an_asset_of_the_task_that_publishes_it(nightly: DAG) -> None:
    outlets = {task.task_id: [asset.name for asset in task.outlets] for task in nightly.tasks}
    assert outlets == {
        "wait_for_day": [],
        "ingest_rank_logs": [f"what_if_{name}" for name in INGESTED_TABLES],
        "simulate_what_if": [f"what_if_{name}" for name in RESULT_TABLES if name != JOB_CAUSES],
        "revise_causes": ["what_if_job_causes"],
        "aggregate_fleet": [f"what_if_{name}" for name in FLEET_TABLES],
        "publish_night": ["what_if_night", "what_if_night_by_date"],
    }


def test_a_finished_day_of_the_landing_starts_its_night_where_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WHAT_IF_SCHEDULE", "landing")
    night = DagBag(str(DAGS)).dags["nightly_what_if"]
    assert isinstance(night.timetable, PartitionedAssetTimetable)
    assert night.timetable.asset_condition == LANDING
    tasks: list[Any] = list(night.tasks)
    dates = {task.log_date if task.task_id == "wait_for_day" else task.env["LOG_DATE"] for task in tasks}
    (log_date,) = map(Template, dates)
    assert log_date.render(dag_run={"partition_key": "2026-01-05"}) == "2026-01-05"
    assert log_date.render(dag_run={"partition_key": None}, ds="2026-02-03") == "2026-02-03"
    assert log_date.render(dag_run={"partition_key": None}) == ""


def test_the_night_of_a_day_is_scheduled_when_the_day_has_ended(nightly: DAG) -> None:
    timetable = coerce_to_core_timetable(nightly.timetable)
    after = TimeRestriction(earliest=DateTime(2026, 1, 5, tzinfo=UTC), latest=None, catchup=True)
    night = timetable.next_dagrun_info(last_automated_data_interval=None, restriction=after)
    assert night is not None
    assert night.logical_date == datetime(2026, 1, 5, tzinfo=UTC)
    assert night.run_after == datetime(2026, 1, 6, tzinfo=UTC)
