"""Fixtures shared by tests of the DAGs: a database, the parsed DAG files, and a function that runs a DAG."""

import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.utils.db import initdb

from dags.operators.day_marker import DayMarkerSensor
from dags.operators.spark_submit import SparkSubmitOperator
from tests.dags import DAGS
from tests.support.examples import DAY

Run = Callable[[DAG], dict[str, tuple[str, int]]]
"""Runs a DAG for tests.support.examples.DAY in this process; returns (state, number of tries) by task id."""


@pytest.fixture(scope="session")
def _database() -> None:
    initdb()


@pytest.fixture
def dag_bag() -> DagBag:
    """The DAGs of this project, parsed anew for each test, because a test may change them."""
    return DagBag(str(DAGS))


@pytest.fixture
def nightly(dag_bag: DagBag) -> DAG:
    """The nightly DAG, parsed for each test, which may change it."""
    return dag_bag.dags["nightly_what_if"]


@pytest.fixture
def run_dag(_database: None) -> Iterator[Run]:
    """Return a function that runs a DAG to its end, without pauses between retries."""
    before = signal.getsignal(signal.SIGTERM)
    yield _run
    signal.signal(signal.SIGTERM, before)  # tasks run in this process and replace its signal handler


def _run(dag: DAG) -> dict[str, tuple[str, int]]:
    for task in dag.tasks:
        task.retry_delay = timedelta(0)
    run: Any = dag.test(logical_date=datetime(DAY.year, DAY.month, DAY.day, tzinfo=UTC))
    return {task.task_id: (str(task.state), task.try_number) for task in run.get_task_instances()}


def stand_in(dag: DAG, landing: Path, command: str) -> DayMarkerSensor:
    """Make all phases of a DAG run this command, and its sensor check `landing` each second for a minute.

    Returns the sensor's task.
    """
    for task in dag.tasks:
        if isinstance(task, SparkSubmitOperator):
            task.bash_command = command
    wait = dag.task_dict["wait_for_day"]
    assert isinstance(wait, DayMarkerSensor)
    wait.landing = str(landing)
    wait.poke_interval, wait.timeout = 1, 60
    return wait
