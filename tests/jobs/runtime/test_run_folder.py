"""What a run leaves in temporary folders: nothing at its end; where killed, one that the next removes."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from socket import gethostname

import psutil
import pytest
from pyspark import SparkConf
from pyspark.errors import PySparkException

from jobs.runtime import jvm, run_folder
from jobs.runtime.project import PROJECT

RUN = """
import sys
from jobs.runtime.run_folder import run_folder
from jobs.runtime.session import session
from jobs.runtime.settings import load_settings

with session(load_settings("local"), "run") as spark:
    spark.range(9, numPartitions=2).repartition(3).count()
    print(run_folder().name, *sorted(each.name.split("-")[0] for each in run_folder().iterdir()), flush=True)
    sys.stdin.readline()
"""


@contextmanager
def running(folder: Path) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Start a run whose temporary files lie in a folder: its process, and what it says once it has worked."""
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(PROJECT)}
    with subprocess.Popen(
        [sys.executable, "-c", RUN],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as run:
        assert run.stdout is not None
        yield run, run.stdout.readline().split()


def names(folder: Path) -> list[str]:
    return [each.name for each in folder.iterdir()]


def test_a_killed_run_leaves_one_folder_that_the_next_removes_and_an_ended_one_nothing(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as (run, (left, *holds)):
        assert {"blockmgr", "spark"} <= set(holds)
        beneath = psutil.Process(run.pid).children(recursive=True)
        run.send_signal(signal.SIGKILL)
    assert psutil.wait_procs(beneath, timeout=60)[1] == []
    assert names(tmp_path) == [left]
    with running(tmp_path) as (run, (own, *_)):
        assert names(tmp_path) == [own] != [left]
        beneath = psutil.Process(run.pid).children(recursive=True)
        run.communicate("end\n")
    assert psutil.wait_procs(beneath, timeout=60)[1] == []
    assert names(tmp_path) == []


def test_folders_of_living_processes_and_of_other_names_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folder, "gettempdir", lambda: str(tmp_path))
    own = psutil.Process()
    started = round(own.create_time())
    start = f"straggler-fleet-{gethostname()}-"
    living = f"{start}{own.pid}-{started}"
    stay = {living, f"{start}x", "straggler-fleet-elsewhere-1-1", f"{start}2-2"}
    for name in {*stay, f"{start}{own.pid}-{started - 60}"}:  # the last: an earlier process of this number
        (tmp_path / name).mkdir()
    (tmp_path / f"{start}2-2").rmdir()
    (tmp_path / f"{start}2-2").symlink_to(tmp_path / living)
    run_folder.remove_left_behind()
    assert set(names(tmp_path)) == stay


def test_what_may_be_secret_is_not_on_the_command_line_of_the_jvm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session sets it, once the JVM is there."""
    given: dict[str, str] = {}

    def launch(conf: SparkConf, _: object) -> None:
        given.update(conf.getAll())
        raise PySparkException("enough")

    monkeypatch.setattr(jvm, "launch_gateway", launch)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    secret = ("spark.hadoop.fs.s3a.secret.key", "spark.ssl.keyPassword", "spark.hadoop.fs.s3a.access.key")
    plain = {"spark.kerberos.keytab": "/etc/keytab", "spark.master": "local[1]"}
    with pytest.raises(jvm.JvmError):
        jvm.launch_jvm({**dict.fromkeys(secret, "hidden"), **plain}, BytesIO())
    assert plain.items() <= given.items()
    assert "hidden" not in given.values()
