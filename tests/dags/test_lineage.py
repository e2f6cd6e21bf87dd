"""Tests of lineage: the inputs and outputs of tasks that Airflow's OpenLineage provider reports."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dags.operators.assets import FLEET, LANDING
from dags.operators.spark_submit import SparkSubmitOperator
from jobs.emitter.rank_log_writer import finish_day
from jobs.runtime.project import PROJECT
from schemas.vocabulary import FLEET_TABLES, INGESTED_TABLES, JOB_CAUSES
from tests.support.examples import DAY

NIGHT_OF_STAND_INS = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from tests.dags import DAGS
from airflow.dag_processing.dagbag import DagBag
from airflow.utils.db import initdb
from tests.dags.conftest import stand_in
initdb()
dag = DagBag(str(DAGS)).dags["nightly_what_if"]
stand_in(dag, Path(sys.argv[1]), "echo done")
dag.test(logical_date=datetime.fromisoformat(sys.argv[2]).replace(tzinfo=UTC))
"""


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Run a night of substitute commands in a separate process; return the reported OpenLineage events."""
    home = tmp_path_factory.mktemp("lineage")
    finish_day(home / "landing", DAY)
    transport = {"type": "file", "log_file_path": str(home / "events.jsonl"), "append": True}
    variables = {"LANDING": str(home / "landing"), "WAREHOUSE": "s3a://bucket/w"}
    environment = {
        **os.environ,
        "AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport),
        **{f"AIRFLOW_VAR_WHAT_IF_{name}": value for name, value in variables.items()},
    }
    command = [sys.executable, "-c", NIGHT_OF_STAND_INS, str(home / "landing"), str(DAY)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=PROJECT)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in (home / "events.jsonl").read_text().splitlines()]


def of_task(events: list[dict[str, Any]], task: str) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """Return (namespace, name) of each input, and of each output, that a completed task reported."""
    (done,) = [
        each
        for each in events
        if each["job"]["name"] == f"nightly_what_if.{task}" and each["eventType"] == "COMPLETE"
    ]
    read, wrote = (
        {(each["namespace"], each["name"]) for each in done[name]} for name in ("inputs", "outputs")
    )
    return read, wrote


def tables(names: tuple[str, ...]) -> set[tuple[str, str]]:
    return {("s3://bucket", f"w/{name}") for name in names}


def test_tasks_tell_which_tables_they_read_and_wrote(events: list[dict[str, Any]]) -> None:
    ((namespace, name),), ingested = of_task(events, "ingest_rank_logs")
    assert (namespace, Path(name).name, Path(name).is_absolute()) == ("file", "landing", True)
    assert ingested == tables(INGESTED_TABLES)
    read, simulated = of_task(events, "simulate_what_if")
    assert read == ingested
    assert of_task(events, "revise_causes") == (simulated, tables((JOB_CAUSES,)))
    assert of_task(events, "aggregate_fleet")[1] == tables(FLEET_TABLES)


def test_a_night_as_a_whole_lies_nowhere(events: list[dict[str, Any]]) -> None:
    assert of_task(events, "publish_night")[1] == set()


def test_a_task_that_failed_published_nothing() -> None:
    task = SparkSubmitOperator(
        task_id="t", entry_point="x", landing="l", warehouse="w", inlets=[LANDING], outlets=FLEET
    )
    found = task.get_openlineage_facets_on_failure(None)
    assert [each.name for each in found.inputs] == [str(PROJECT / "l")]
    assert found.outputs == []
