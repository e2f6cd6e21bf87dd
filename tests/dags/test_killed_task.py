"""If a task ends or is killed, its Spark process ends too; a shell script takes Spark's place."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from jobs.runtime.project import PROJECT
from tests.dags.test_spark_submit import environment, write_script

__all__ = ["environment"]

PYTHON = sys.executable
"""The real interpreter: the fixture `environment` replaces sys.executable."""

HANG = "while true; do sleep 1; done"

KILLED = """
import sys
from dags.operators.spark_submit import SparkSubmitOperator
sys.executable = sys.argv[1]
SparkSubmitOperator(task_id="stage", entry_point="ingest_rank_logs", log_date="2026-01-05").execute({})
"""


def test_a_task_that_is_killed_takes_its_spark_along(environment: Path, tmp_path: Path) -> None:
    """If a task is killed by SIGKILL, its Spark ends too, because the next try must be the only writer."""
    started, stopped = tmp_path / "started", tmp_path / "stopped"
    write_script(
        environment / "spark-submit", f"trap 'touch {stopped}; exit' TERM; touch {started}; sleep 60 & wait"
    )
    with started_task(environment) as task:
        assert appears(started)
        task.kill()
        task.wait()
        assert appears(stopped)


def test_a_spark_that_does_not_end_when_asked_is_ended(
    environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a task is killed and its Spark ignores SIGTERM, Spark is killed too: only one writer may run."""
    started = tmp_path / "started"
    write_script(environment / "sleep", 'exec /bin/sleep "$1e-1"')  # a tenth of the real wait
    monkeypatch.setenv("PATH", f"{environment}:{os.environ['PATH']}")
    write_script(
        environment / "spark-submit", f"trap '' TERM; echo $$ > {started}.; mv {started}. {started}\n{HANG}"
    )
    with started_task(environment) as task:
        assert appears(started)
        spark = int(started.read_text())
        try:
            os.killpg(os.getpgid(spark), signal.SIGTERM)
            time.sleep(1)
            assert is_alive(spark)
            task.kill()
            task.wait()
            assert ends(spark)
        finally:
            if is_alive(spark):
                os.kill(spark, signal.SIGKILL)


@contextmanager
def started_task(environment: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Yield a process that runs a task; kill it at the end of the test if it is still running."""
    command = [PYTHON, "-c", KILLED, str(environment / "python")]
    with subprocess.Popen(command, cwd=PROJECT, env={**os.environ, "PYTHONPATH": str(PROJECT)}) as task:
        try:
            yield task
        finally:
            task.kill()


def appears(file: Path) -> bool:
    """Wait up to five minutes, as importing Airflow can be slow; return whether the file has appeared."""
    return comes_true(file.exists)


def ends(pid: int) -> bool:
    """Wait up to five minutes; return whether the process has ended."""
    return comes_true(lambda: not is_alive(pid))


def is_alive(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def comes_true(is_so: Callable[[], bool]) -> bool:
    for _ in range(3000):
        if is_so():
            return True
        time.sleep(0.1)
    return False
