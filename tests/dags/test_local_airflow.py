"""Test how the local Airflow's processes are started and ended; a script takes the place of Airflow."""

import signal
from pathlib import Path

import psutil
import pytest

from dags.operators import local_airflow
from dags.operators.local_airflow import LocalAirflow
from tests.dags.test_spark_submit import write_script


def test_what_has_started_ends_if_the_rest_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_script(tmp_path / "airflow", 'case "$1" in api-server) exec sleep 60;; esac')
    monkeypatch.setattr(local_airflow, "_airflow", lambda: str(tmp_path / "airflow"))
    (tmp_path / "home" / "scheduler.log").mkdir(parents=True)
    airflow = LocalAirflow(tmp_path / "home", 8080, {})
    before = psutil.Process().children()
    with pytest.raises(IsADirectoryError), airflow:
        pytest.fail("the scheduler cannot write its log")
    started = [each for each in psutil.Process().children() if each not in before]
    left = [each for each in started if each.status() != psutil.STATUS_ZOMBIE]
    for each in left:
        each.send_signal(signal.SIGKILL)
    assert not left
