"""Every DAG file: that it can be read, quickly and without Spark, and keeps to the house's policy."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, BaseOperator
from airflow.serialization.encoders import coerce_to_core_timetable
from airflow.timetables.base import TimeRestriction
from pendulum import DateTime

from dags.operators.alerts import alert_failure, alert_warnings
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
}
"""The tasks of every DAG, in the order in which they run."""

LOADED = """
import runpy, sys
runpy.run_path(sys.argv[1])
ours = {"dags", "jobs", "schemas", "tests", "udfs"}
heavy = {"delta", "great_expectations", "numpy", "pandas", "polars", "py4j", "pyarrow", "pyspark"}
print(*sorted(name for name in sys.modules if name.partition(".")[0] in ours | heavy))
"""


def tasks_of(bag: DagBag) -> list[BaseOperator]:
    return [task for dag in bag.dags.values() for task in dag.tasks if isinstance(task, BaseOperator)]


def test_every_file_is_one_dag_of_its_name(dag_bag: DagBag) -> None:
    files = {file.stem for file in DAGS.glob("*.py")} - {"__init__"}
    assert dag_bag.import_errors == {}
    assert set(dag_bag.dags) == files == set(TASKS)
    assert [Path(dag.fileloc).stem for dag in dag_bag.dags.values()] == list(dag_bag.dags)


def test_airflow_reads_nothing_but_the_dag_files(dag_bag: DagBag) -> None:
    assert {Path(file.file).name for file in dag_bag.dagbag_stats} == {f"{name}.py" for name in TASKS}


def test_a_file_is_read_in_less_than_a_second(dag_bag: DagBag) -> None:
    assert max(file.duration for file in dag_bag.dagbag_stats) < timedelta(seconds=1)


@pytest.mark.parametrize("name", TASKS)
def test_reading_a_file_imports_airflow_and_the_vocabulary(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", LOADED, str(DAGS / f"{name}.py")]
    # From another folder and with nothing on the path, as Airflow's own processes start.
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=AIRFLOW)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.splitlines()[-1].split())
    assert {module for module in loaded if not module.startswith("dags")} == {"schemas", "schemas.vocabulary"}


def test_tasks_run_in_turn(dag_bag: DagBag) -> None:
    for name, wanted in TASKS.items():
        after = {task.task_id: task.downstream_task_ids for task in dag_bag.dags[name].tasks}
        assert after == {**{first: {second} for first, second in pairwise(wanted)}, wanted[-1]: set()}


def test_a_dag_has_a_page_tags_and_a_policy_for_days_missed(dag_bag: DagBag) -> None:
    for dag in dag_bag.dags.values():
        assert dag.doc_md is not None
        assert dag.doc_md.startswith("# ")
        assert dag.description
        assert "what-if" in dag.tags
        assert not dag.catchup


def test_a_task_has_an_owner_a_line_of_docs_and_an_end(dag_bag: DagBag) -> None:
    for task in tasks_of(dag_bag):
        assert task.owner == "training-efficiency"
        assert task.doc_md
        assert task.execution_timeout is not None


def test_a_task_is_retried_twice_and_later_each_time(dag_bag: DagBag) -> None:
    for task in tasks_of(dag_bag):
        assert task.retries == 2
        assert task.retry_delay >= timedelta(minutes=1)
        assert task.retry_exponential_backoff > 1


def test_no_task_runs_twice_at_a_time(dag_bag: DagBag) -> None:
    assert {task.max_active_tis_per_dag for task in tasks_of(dag_bag)} == {1}


def test_one_writer_at_a_time_and_a_waiting_one_delays_no_reader(dag_bag: DagBag) -> None:
    slots = {task.task_id: (task.pool, task.pool_slots) for task in tasks_of(dag_bag)}
    assert slots.pop("wait_for_day") == ("default_pool", 1)
    assert set(slots.values()) == {("what_if_writers", 1)}


def test_every_failure_alerts(dag_bag: DagBag) -> None:
    assert {tuple(task.on_failure_callback) for task in tasks_of(dag_bag)} == {(alert_failure,)}
    alerting = {task.task_id for task in tasks_of(dag_bag) if alert_warnings in task.on_success_callback}
    assert alerting == {"publish_night"}


def test_every_published_table_is_an_asset_of_the_task_that_publishes_it(nightly: DAG) -> None:
    outlets = {task.task_id: [asset.name for asset in task.outlets] for task in nightly.tasks}
    assert outlets == {
        "wait_for_day": [],
        "ingest_rank_logs": [f"what_if_{name}" for name in INGESTED_TABLES],
        "simulate_what_if": [f"what_if_{name}" for name in RESULT_TABLES if name != JOB_CAUSES],
        "revise_causes": ["what_if_job_causes"],
        "aggregate_fleet": [f"what_if_{name}" for name in FLEET_TABLES],
        "publish_night": ["what_if_night"],
    }


def test_the_night_of_a_day_is_scheduled_when_the_day_has_ended(nightly: DAG) -> None:
    timetable = coerce_to_core_timetable(nightly.timetable)
    after = TimeRestriction(earliest=DateTime(2026, 1, 5, tzinfo=UTC), latest=None, catchup=True)
    night = timetable.next_dagrun_info(last_automated_data_interval=None, restriction=after)
    assert night is not None
    assert night.logical_date == datetime(2026, 1, 5, tzinfo=UTC)
    assert night.run_after == datetime(2026, 1, 6, tzinfo=UTC)
